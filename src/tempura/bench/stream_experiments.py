"""The experiments of *Adaptive Caching for Continuous Queries*, section 7, each as rows of a benchmark's file.

M: pipelines without caches, ordered by A-Greedy. X: the best tree of joins of two, by trying all. P: caches with the prefix invariant.
G: globally consistent caches as well. C: a given cache.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from statistics import mean, median
from typing import Any

from tempura.bench.stream_inputs import (
    TABLE_2,
    batches_of,
    n_way_batches,
    on_one_attribute,
    three_way,
    three_way_batches,
)
from tempura.bench.stream_instances import random_problem
from tempura.bench.stream_trial import best_tree, feed, medians, name_of, race, rows_in, without_collector
from tempura.streams.adaptive import AdaptiveJoin
from tempura.streams.approximation import greedy, rounded
from tempura.streams.candidates import Orders, candidate
from tempura.streams.execution import Batch, CachedJoin, ContinuousJoin
from tempura.streams.query import JoinQuery, LastRows
from tempura.streams.selection import exhaustive, recursive
from tempura.streams.settings import Settings

Row = dict[str, Any]
SHORT = 100
"""The rows of R's and S's windows where every row of S is compared."""

CHAIN: Orders = ((1, 2), (0, 2), (1, 0))
"""R: S, T. S: R, T. T: S, R. The cache R ⋈ S in T has the prefix invariant."""


@dataclass(frozen=True)
class Scale:
    """How much is measured: rows of each point, rounds, the rows of windows, the interval between re-optimisations in changes of rows, and
    which of the sample points."""

    rows: int = 40_000
    rounds: int = 9
    window: int = 1000
    interval: int = 200_000
    points: tuple[str, ...] = tuple(TABLE_2)


def sample_points(scale: Scale) -> Iterator[Row]:
    """Figure 11: M, X, P and G at the points of table 2; and what G's last plan does when nothing is profiled (``static``)."""
    for name in scale.points:
        point = TABLE_2[name]
        query = on_one_attribute("RSTU", scale.window)
        warm = batches_of(point, int(scale.window * sum(point.rates) / min(point.rates)), 1)
        settings = {
            "M": Settings(scale.interval, caching=False),
            "P": Settings(scale.interval, quota=0),
            "G": Settings(scale.interval),
        }
        joins: dict[str, ContinuousJoin] = {kind: AdaptiveJoin(query, settings=s) for kind, s in settings.items()}
        settle = batches_of(point, scale.rows // 2, 3)
        with without_collector():
            for join in joins.values():
                feed(join, [*warm, *settle])
        x = best_tree(query, warm, settle)
        g = joins["G"]
        assert isinstance(g, AdaptiveJoin)
        static = CachedJoin(query, g.orders, g.used)
        feed(static, [*warm, *settle])
        joins |= {"X": x, "static": static}
        rates = medians(found := race(joins, batches_of(point, scale.rows, 2), scale.rounds))
        overhead = 1 - median(one / other for one, other in zip(found["G"], found["static"], strict=True))
        yield {
            "point": name,
            **{k: rates[k] for k in "MXPG"},
            "static": rates["static"],
            "overhead": round(overhead, 4),
        } | {
            "tree": name_of(x),
            "caches": {k: [g.events.cache(c) for c in j.used] for k, j in joins.items() if isinstance(j, AdaptiveJoin)},
        }


def _forced(query: JoinQuery, warm: list[Batch], batches: list[Batch], rounds: int) -> Row:
    """M against the plan with the cache R ⋈ S in T, of the same orders."""
    m, c = CachedJoin(query, CHAIN), CachedJoin(query, CHAIN, [candidate(query, CHAIN, 2, 0, 2)])
    with without_collector():
        feed(m, warm)
        feed(c, warm)
    (cache,) = c.caches.values()
    cache.take_counts()
    rates = medians(race({"M": m, "C": c}, batches, rounds))
    probes, misses = cache.take_counts()
    return {**rates, "ratio": round(rates["M"] / rates["C"], 3), "hits": round(1 - misses / max(1, probes), 3)}


def hit_probability(scale: Scale) -> Iterator[Row]:
    """Figure 6: the multiplicity of T.B. Values do not come again, so a key misses once and then hits, while its rows come and go."""
    for r in (1, 2, 3, 5, 10):
        yield {"multiplicity": r, **_three_way(scale, r, (1, 1, r), 1, domain=10**9)}


def selectivity(scale: Scale) -> Iterator[Row]:
    """Figure 7: how many tuples of R ⋈ S a row of T meets."""
    for fanout in (1, 2, 3, 5, 10):
        yield {"tuples": fanout, **_three_way(scale, 5, (1, 1, 5), fanout)}


def update_rate(scale: Scale) -> Iterator[Row]:
    """Figure 8: updates of R ⋈ S per probe."""
    for rate in (0.5, 1, 2.5, 5, 10):
        yield {"updates_per_probe": 2 * rate / 5, **_three_way(scale, 5, (rate, rate, 5), 1)}


def join_cost(scale: Scale) -> Iterator[Row]:
    """Figure 10: no index on S.B, and windows of several lengths."""
    for window in (50, 100, 200, 400):
        short = Scale(max(500, scale.rows * 20 // window), scale.rounds, window)
        yield {"window": window, **_three_way(short, 5, (1, 1, 5), 1, without_index="b")}


def _three_way(
    scale: Scale, r: int, rates: tuple[float, float, float], fanout: int, without_index: str = "", domain: int = 0
) -> Row:
    """R ⋈ S ⋈ T with its windows full; values come from as many as R's window has rows, unless ``domain`` says otherwise."""
    query = three_way(scale.window, r, without_index)
    before = int(scale.window * r * sum(rates) / min(rates)) + 1000
    batches = three_way_batches(before + scale.rows, rates, domain or scale.window, r, 1, fanout)
    begin = len(batches) * before // (before + scale.rows)
    return _forced(query, batches[:begin], batches[begin:], scale.rounds)


def number_of_joins(scale: Scale) -> Iterator[Row]:
    """Figure 9: n-way joins on one attribute, where half of the streams have each value once and half five times. Eight streams and
    more give over 600 rows of the result for each that arrives, and measure nothing but that."""
    for n in range(3, 8):
        multiplicity = [1] * (n // 2) + [5] * (n - n // 2)
        query = on_one_attribute([f"R{i}" for i in range(1, n + 1)], 100)
        inputs = tuple(
            type(i)(i.name, i.columns, LastRows(100 * m)) for i, m in zip(query.inputs, multiplicity, strict=True)
        )
        query = JoinQuery(inputs, query.on)
        rows = scale.rows if n < 7 else scale.rows // 8
        settled = max(8000, 2 * rows) if n < 7 else 3000
        settings = {
            "M": Settings(scale.interval, caching=False),
            "P": Settings(scale.interval, quota=0),
            "G": Settings(scale.interval),
        }
        joins: dict[str, ContinuousJoin] = {kind: AdaptiveJoin(query, settings=s) for kind, s in settings.items()}
        with without_collector():
            for join in joins.values():
                feed(join, n_way_batches(multiplicity, settled, 100, 1))
        rates = medians(race(joins, n_way_batches(multiplicity, rows, 100, 2), scale.rounds))
        used = {k: len(j.used) for k, j in joins.items() if isinstance(j, AdaptiveJoin)}
        yield {"streams": n, **rates, "ratio": round(rates["M"] / rates["G"], 3), "caches": used}


def burst(scale: Scale) -> Iterator[Row]:
    """Figure 12: after 2.5 rows of S for each of ``rows`` (100,000 of 40,000) R becomes twenty times as fast; two fixed plans, and the
    adaptive one. S has no index: with indexes neither cache pays here. ``chosen``: after how many changes caches were selected last."""
    query = three_way(SHORT, 5, "ab")
    mirror: Orders = ((1, 2), (2, 0), (1, 0))
    joins: dict[str, ContinuousJoin] = {
        "T ⋈ (R ⋈ S)": CachedJoin(query, CHAIN, [candidate(query, CHAIN, 2, 0, 2)]),
        "R ⋈ (T ⋈ S)": CachedJoin(query, mirror, [candidate(query, mirror, 0, 0, 2)]),
        "adaptive": AdaptiveJoin(query, settings=Settings(interval=10_000)),
    }
    adaptive = joins["adaptive"]
    assert isinstance(adaptive, AdaptiveJoin)
    s_rows = scale.rows * 5 // 2
    calm = three_way_batches(s_rows * 7, (1, 1, 5), SHORT, 5, 1)
    storm = three_way_batches(s_rows * 26 // 4, (20, 1, 5), SHORT, 5, 2)
    at = 0
    for phase, batches, parts in (("calm", calm, 20), ("burst", storm, 60)):
        length = len(batches) // parts
        for n in range(parts):
            part = batches[n * length : (n + 1) * length]
            at += sum(len(b.inserts) for b in part if b.input == 1)
            rates = medians(race(joins, part, 1))
            used = [adaptive.events.cache(c) for c in adaptive.used]
            yield {
                "s_rows": at,
                "phase": phase,
                "rows": rows_in(part),
                **rates,
                "processed": adaptive.processed,
                "used": used,
                "chosen": max((e.at for e in adaptive.events.all if e.kind == "select"), default=0),
            }


def memory(scale: Scale) -> Iterator[Row]:
    """Figure 13: the memory that caches may take, from nothing to more than they need. S has no index, as in the burst."""
    query, rates = three_way(SHORT, 5, "ab"), (1, 1, 5)
    warm = three_way_batches(SHORT * 100, rates, SHORT, 5, 1)
    batches = three_way_batches(scale.rows, rates, SHORT, 5, 2)
    budgets = [0, *(n * 4096 for n in range(1, 12))]
    joins: dict[str, ContinuousJoin] = {str(b): AdaptiveJoin(query, b, Settings(scale.interval // 10)) for b in budgets}
    joins["M"] = AdaptiveJoin(query, settings=Settings(scale.interval // 10, caching=False))
    with without_collector():
        for join in joins.values():
            feed(join, warm)
    found = medians(race(joins, batches, scale.rounds))
    for budget in budgets:
        join = joins[str(budget)]
        assert isinstance(join, AdaptiveJoin)
        used = [join.events.cache(c) for c in join.used]
        yield {
            "budget": budget,
            "used_bytes": join.bytes_used,
            "G": found[str(budget)],
            "M": found["M"],
            "caches": used,
        }


def selection(scale: Scale) -> Iterator[Row]:
    """Section 4.4: what each algorithm chooses costs, relative to the optimum: the mean over random instances with shared caches, the
    worst of them, and how many are optimal. One instance for each hundred rows."""
    instances = max(20, scale.rows // 100)
    algorithms = ("recursive", "greedy", "rounded")
    for n in range(4, 8):
        ratios: dict[str, list[float]] = {name: [] for name in algorithms}
        for seed in range(instances):
            rng = Random(seed)
            problem = random_problem(rng, n, shared=True)
            best = problem.total(exhaustive(problem))
            for name, chosen in zip(
                algorithms, (recursive(problem), greedy(problem), rounded(problem, rng)), strict=True
            ):
                ratios[name].append(problem.total(chosen) / best)
        yield {
            "streams": n,
            "instances": instances,
            **{name: round(mean(found), 4) for name, found in ratios.items()},
            **{f"{name}_worst": round(max(found), 3) for name, found in ratios.items()},
            **{f"{name}_optimal": sum(ratio < 1 + 1e-9 for ratio in found) for name, found in ratios.items()},
        }


EXPERIMENTS: Mapping[str, Callable[[Scale], Iterator[Row]]] = {
    "d1-d8": sample_points,
    "hit": hit_probability,
    "selectivity": selectivity,
    "updates": update_rate,
    "joins": number_of_joins,
    "cost": join_cost,
    "burst": burst,
    "memory": memory,
    "selection": selection,
}
