"""Paces under statistics that are off and under bursts (Thrifty Query Execution via Incrementability, 5.4, Figures 9 and 10): several
settings, several draws, and what lies between them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from tempura.bench.paces import Paces, Row
from tempura.bench.panels import Panel, Point, panels
from tempura.errors import TempuraError

SETTINGS = ("bias", "spike")


def settings(asked: Paces, biases: Sequence[float], spikes: Sequence[float], draws: int) -> list[Paces]:
    """One per bias and spike. Where nothing is drawn one draw is enough, if anything is drawn under another. Raises TempuraError
    BAD_BENCHMARK."""
    found = [replace(asked, bias=bias, spike=spike) for bias in biases for spike in spikes]
    some = any(one.is_random for one in found)
    return [replace(one, draws=draws if one.is_random or not some else 1) for one in found]


def spread(rows: Sequence[Row]) -> Iterator[Row]:
    """Per query, setting, constraint and strategy the additional and the final work ÷ the batch's, ``mean``, ``min`` and ``max`` over the
    draws, and the share of draws within the bound."""
    for row in rows:
        by: dict[tuple[float, str], list[Row]] = {}
        for case in row["cases"]:
            if not case["error"]:
                by.setdefault((case["constraint"], case["strategy"]), []).append(case)
        for (bound, strategy), cases in by.items():
            yield {
                "query": row["query"],
                **{name: row[name] for name in SETTINGS},
                "constraint": bound,
                "strategy": strategy,
                "draws": len(cases),
                "additional": _between([case["additional_share"] for case in cases]),
                "final": _between([case["final_share"] for case in cases]),
                "met": round(fmean(case["met"] for case in cases), 3),
            }


def _between(values: Sequence[float]) -> dict[str, float]:
    return {"mean": round(fmean(values), 5), "min": min(values), "max": max(values)}


def require_one_varies(biases: Sequence[float], spikes: Sequence[float]) -> str:
    """What of the two varies, which is what a figure shows. Raises TempuraError BAD_BENCHMARK unless it is one of them."""
    varied = [name for name, values in zip(SETTINGS, (biases, spikes), strict=True) if len(set(values)) > 1]
    if len(varied) != 1:
        what = "A figure shows what varies, and that is not one of --bias and --spike."
        raise TempuraError("BAD_BENCHMARK", what, "Give several of one of them, such as --bias 0.2,0.5,2,5.")
    return varied[0]


def pictured(found: Sequence[Row]) -> str:
    """Two panels per query and constraint, the additional and the final work by what varies. Raises TempuraError BAD_BENCHMARK unless one
    of bias and spike does."""
    by = require_one_varies([row["bias"] for row in found], [row["spike"] for row in found])
    drawn = []
    for query, bound in dict.fromkeys((row["query"], row["constraint"]) for row in found):
        own = [row for row in found if (row["query"], row["constraint"]) == (query, bound)]
        for kind, line in (("additional", None), ("final", bound)):
            title = f"{query}, bound {bound:g}: {kind} work ÷ batch"
            drawn.append(
                Panel(title, by, [f"{x:g}" for x in dict.fromkeys(row[by] for row in own)], _series(own, kind), line)
            )
    return panels(drawn)


def _series(rows: Sequence[dict[str, Any]], kind: str) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for row in rows:
        found.setdefault(row["strategy"], []).append((row[kind]["mean"], row[kind]["min"], row[kind]["max"]))
    return found
