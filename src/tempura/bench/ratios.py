"""What the rows of ``tempura bench effectiveness`` say together: ratios to plain Spark, and how good the planner's choices are."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from statistics import StatisticsError, correlation, fmean, median
from typing import Any

from tempura.bench.record import Row
from tempura.warehouse.times.phases import PLANNING

RATIOS = ("cpu_ratio", "deadline_ratio", "wall_ratio", "wait_ratio", "all_cpu_ratio")
FIXED = ("fixed_wall_s", "fixed_cpu_s")
"""What a run takes however few rows there are: time in which no Spark job runs, and CPU time that is no task's."""

QUICK = 0.2
"""Seconds in which most refreshes are to be planned."""

_OF_THE_LAST_RUN = {"deadline": "cpu", "wait": "wall"}
"""What the last run of a day takes by itself, and what of plain Spark's it is compared with."""

CHOICES = ("right_choices", "rank_correlation", "rank_correlation_within_queries")
LARGE = 2.0
"""CPU seconds: of queries whose recomputation takes so many, fixed costs do not decide."""

ABOVE = 1.05
CLOSE, CLOSE_SECONDS = 0.10, 0.3
"""A choice is right within the larger of these of the best: a part of it, and CPU seconds."""

_LEAST = 1e-3
"""Where a run did nothing, its ratio in a geometric mean, which has no room for 0."""


def ratios_of(rows: Sequence[Row], batch: Sequence[Row]) -> list[Row]:
    """A row per query and set of methods that gave the right result: its figures (medians of the measurements, weighted by prices) in
    relation to plain Spark's; and what it takes to read the result once, as it lies, and as plain Spark has written it."""
    references = _references(batch)
    found = []
    for (query, methods), own in _grouped(rows, "query", "methods").items():
        measured = _grouped([row for row in own if row["measured"] is not None], "measured")
        if query not in references or not measured or not _is_right_answer(own):
            continue
        costs = [_cost(runs) for runs in measured.values()]
        known = [name for name in costs[0] if all(name in cost for cost in costs)]
        cost = {name: median(cost[name] for cost in costs) for name in known}
        spark = references[query]
        ratios = {f"{name}_ratio": _divided(cost[name], spark[name]) for name in ("cpu", "wall", "all_cpu")}
        ratios |= {f"{name}_ratio": _divided(cost[name], spark[of]) for name, of in _OF_THE_LAST_RUN.items()}
        seconds = {"recompute_s": spark["cpu"], "measured_s": cost["cpu"], "estimated_s": cost["estimated"]}
        seconds |= {"reading_s": cost["reading"], "reading_recomputed_s": spark["reading"]}
        steps = sorted({tuple(run.get("step") for run in runs) for runs in measured.values()}, key=str)
        found.append(
            {
                "query": query,
                "methods": methods,
                **_rounded(seconds),
                **_rounded({name: cost[name] for name in FIXED if name in cost}),
                **_rounded({r: ratios[r] for r in RATIOS}),
                "steps": [list(told) for told in steps],
            }
        )
    return found


def _references(batch: Sequence[Row]) -> dict[str, Mapping[str, float]]:
    """By query, what plain Spark takes: medians of the measurements before and after."""
    return {
        query: {
            "cpu": median(row["cpu_s"] for row in rows),
            "wall": median(row["wall_s"] for row in rows),
            "all_cpu": median(_all_cpu(row) for row in rows),
            "reading": median(row.get("reading_cpu_s", 0.0) for row in rows),
        }
        for (query,), rows in _grouped([row for row in batch if row["measured"]], "query").items()
    }


def _cost(runs: Sequence[Row]) -> dict[str, float]:
    """What one measurement took: the runs of a day, or a refresh."""
    return {
        "cpu": sum(run["price"] * run["cpu_s"] for run in runs),
        "wall": sum(run["price"] * run["wall_s"] for run in runs),
        "all_cpu": sum(run["price"] * _all_cpu(run) for run in runs),
        "estimated": sum(run["price"] * run["estimated_s"] for run in runs),
        "deadline": runs[-1]["cpu_s"],
        "wait": runs[-1]["wall_s"],
        "reading": runs[-1].get("reading_cpu_s", 0.0),
        **_fixed(runs),
    }


def _fixed(runs: Sequence[Row]) -> dict[str, float]:
    """:data:`FIXED`; nothing where runs do not tell how long jobs ran, as those of older files."""
    jobs = [run.get("phases", {}).get("jobs") for run in runs]
    if None in jobs:
        return {}
    beside = [
        (run["price"], run["wall_s"] - took, _all_cpu(run) - run["cpu_s"]) for run, took in zip(runs, jobs, strict=True)
    ]
    wall, cpu = (sum(price * max(0.0, seconds[i]) for price, *seconds in beside) for i in range(2))
    return dict(zip(FIXED, (wall, cpu), strict=True))


def _all_cpu(row: Row) -> float:
    """Of tasks, driver and Python: in a local session the JVM runs the tasks, too."""
    return float(row["jvm_s"] + row["python_s"])


def summarised(rows: Sequence[Row], batch: Sequence[Row]) -> Row:
    """What is wrong and what failed; per set of methods, the ratios and how long planning took; and the planner's choices. ``large``:
    ratios and choices of queries whose recomputation takes two CPU seconds or more."""
    ratios = ratios_of(rows, batch)
    large = [row for row in ratios if row["recompute_s"] >= LARGE]
    sets = dict.fromkeys(row["methods"] for row in ratios)
    return {
        "queries": len({row["query"] for row in rows}),
        "wrong": [f"{row['query']} {row['methods']}" for row in rows if row["equal"] is False],
        "failed": {f"{row['query']} {row['methods']}": row["error"] for row in rows if row["error"]},
        "methods": {
            asked: _counted(ratios, asked) | _planning(rows, asked) | {"large": _counted(large, asked)}
            for asked in sets
        },
        **_choices(ratios),
        "wrong_choices": wrong_choices(ratios),
        "large": _choices(large),
        "ratios": ratios,
    }


def _counted(ratios: Sequence[Row], asked: str) -> Row:
    own = [row for row in ratios if row["methods"] == asked]
    return {"n": len(own)} | {name: _spread([row[name] for row in own]) for name in RATIOS} | _fixed_of_all(own)


def _fixed_of_all(own: Sequence[Row]) -> Row:
    """``fixed``: mean and median over the queries of which it is known; nothing where it is of none."""
    told = [row for row in own if all(name in row for name in FIXED)]
    if not told:
        return {}
    seconds = {name: [row[name] for row in told] for name in FIXED}
    return {
        "fixed": {name: {"mean": round(fmean(of), 3), "median": round(median(of), 3)} for name, of in seconds.items()}
    }


def _planning(rows: Sequence[Row], asked: str) -> Row:
    """``planning``: of the measured runs, in how many seconds half of them were planned, and which share in less than :data:`QUICK`;
    nothing where none tells it, as in older files."""
    runs = (row for row in rows if row["methods"] == asked and row["measured"] is not None)
    took = [seconds for row in runs if (seconds := row.get("phases", {}).get(PLANNING)) is not None]
    if not took:
        return {}
    share = sum(seconds < QUICK for seconds in took) / len(took)
    return {PLANNING: {"runs": len(took), "median": round(median(took), 3), f"under_{QUICK:g}_s": round(share, 3)}}


def _spread(values: Sequence[float]) -> Row:
    if not values:
        return {"geomean": None, "median": None, "above_1_05": 0}
    mean = exp(fmean(log(max(value, _LEAST)) for value in values))
    above = sum(value > ABOVE for value in values)
    return {"geomean": round(mean, 3), "median": round(median(values), 3), "above_1_05": above}


def _choices(ratios: Sequence[Row]) -> Row:
    """The share of right choices; how estimates rank plans, over all queries, and within a query on average."""
    by_query = _grouped(ratios, "query").values()
    right = [verdict for rows in by_query if (verdict := is_right(rows)) is not None]
    within = [found for rows in by_query if (found := _ranked(rows)) is not None]
    means = [round(fmean(values), 3) if values else None for values in (right, within)]
    return dict(zip(CHOICES, (means[0], _ranked(ratios), means[1]), strict=True))


def is_right(rows: Sequence[Row]) -> bool | None:
    """Whether the plan chosen of all methods is close to the best one of a query; None where there is no choice to judge."""
    costs = {row["methods"]: row["measured_s"] for row in rows}
    if "all" not in costs or len(costs) < 2:
        return None
    best = min(costs.values())
    return bool(costs["all"] <= best + max(CLOSE * best, CLOSE_SECONDS))


def wrong_choices(ratios: Sequence[Row]) -> list[Row]:
    """Queries whose plan of all methods is not close to the best one: the ``best`` set of methods, by how much it takes less, and whether
    that went by the ``same`` steps: then two measurements of one plan differ, and not two plans."""
    found = []
    for rows in _grouped(ratios, "query").values():
        if is_right(rows) is False:
            chosen = next(row for row in rows if row["methods"] == "all")
            best = min(rows, key=lambda row: float(row["measured_s"]))
            times = round(_divided(chosen["measured_s"], best["measured_s"]), 2)
            same = _are_known(chosen) and chosen["steps"] == best["steps"]
            found.append({"query": chosen["query"], "best": best["methods"], "times": times, "same": same})
    return found


def _are_known(row: Row) -> bool:
    """Whether a row tells its steps: of runs that did something, and of measurements since these are told."""
    return any(step for steps in row.get("steps", ()) for step in steps)


def _ranked(rows: Sequence[Row]) -> float | None:
    found = rank_correlation([row["estimated_s"] for row in rows], [row["measured_s"] for row in rows])
    return None if found is None else round(found, 3)


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Spearman's: the correlation of ranks, equal values sharing theirs. None when a side does not vary."""
    try:
        return correlation(_ranks(left), _ranks(right))
    except StatisticsError:
        return None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(values)
    # The mean of the places that equal values take.
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def _is_right_answer(rows: Sequence[Row]) -> bool:
    verdicts = [row["equal"] for row in rows]
    return True in verdicts and False not in verdicts and not any(row["error"] for row in rows)


def _divided(value: float, by: float) -> float:
    return value / max(by, _LEAST)


def _grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in names)].append(row)
    return dict(found)


def _rounded(values: Mapping[str, float]) -> Row:
    return {name: round(value, 4) for name, value in values.items()}
