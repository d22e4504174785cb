"""The file of a benchmark: complete after each query, so that a run that is stopped keeps its rows and can be continued."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tempura.errors import TempuraError

Row = dict[str, Any]
Summarise = Callable[[Sequence[Row], Sequence[Row]], Row]
_KEY = ("query", "pattern", "scenario")


class Record:
    """``{"meta": …, "runs": […], "batch": […], "summary": …}`` in a file that is replaced as a whole. ``runs`` are Tempura's,
    ``batch`` tells of the queries computed at once by another engine."""

    def __init__(
        self, file: Path, meta: Mapping[str, Any], resume: bool = False, summarise: Summarise | None = None
    ) -> None:
        """Begin a file, or go on with it. ``summarise`` makes the summary of ``runs`` and ``batch``, :func:`summarised` unless given.
        Raises TempuraError FILE_EXISTS, and OTHER_BENCHMARK for a file of other settings."""
        self.file = file
        self.meta = dict(meta)
        self._summarise = summarise or summarised
        self.rows: list[Row] = []
        self.batch: list[Row] = []
        if file.exists():
            self._continue(resume)

    def _continue(self, resume: bool) -> None:
        if not resume:
            raise TempuraError(
                "FILE_EXISTS", f"{self.file} exists.", "Continue it with --resume, or name another file."
            )
        found = json.loads(self.file.read_text(encoding="utf-8"))
        options, before = self.meta.get("options"), found["meta"].get("options")
        if _given(options) != _given(before):
            what = f"{self.file} was made with {before}, not with {options}."
            raise TempuraError("OTHER_BENCHMARK", what, "Repeat those options, or name another file.")
        self.rows, self.batch = found["runs"], found["batch"]

    def has(self, query: str, pattern: str, scenario: str) -> bool:
        """Whether the rows of a query are there, none of them wrong or failed: what is not right is run again."""
        found = [row for row in self.rows if _key(row) == (query, pattern, scenario)]
        return bool(found) and not any(row["error"] or row["equal"] is False for row in found)

    def has_batch(self, query: str) -> bool:
        """Whether there is something of a query in ``batch``."""
        return any(row["query"] == query for row in self.batch)

    def add(self, rows: Sequence[Row] = (), batch: Sequence[Row] = ()) -> None:
        """Add the rows of a query, in the place of older ones, and write the file."""
        again, batches = {_key(row) for row in rows}, {row["query"] for row in batch}
        self.rows = [row for row in self.rows if _key(row) not in again] + list(rows)
        self.batch = [row for row in self.batch if row["query"] not in batches] + list(batch)
        self._write()

    @property
    def summary(self) -> Row:
        """What the rows say together."""
        return self._summarise(self.rows, self.batch)

    def _write(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_name(f".{self.file.name}.part")
        content = {"meta": self.meta, "runs": self.rows, "batch": self.batch, "summary": self.summary}
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(part, self.file)


def summarised(rows: Sequence[Row], batch: Sequence[Row] = ()) -> Row:
    """How many queries are equal at every output of every pattern, which are wrong, which failed and how, what is recomputed in
    which query and why, and what it took; the same per pattern and scenario."""
    kinds = dict.fromkeys((row["pattern"], row["scenario"]) for row in rows)
    patterns = [
        {"pattern": p, "scenario": s, **_counted([r for r in rows if (r["pattern"], r["scenario"]) == (p, s)])}
        for p, s in kinds
    ]
    differing = {row["query"]: row["cause"] for row in batch if not row["equal"]}
    duckdb = {"queries": len(batch), "equal": len(batch) - len(differing), "different": differing}
    return _counted(rows) | {"patterns": patterns, "duckdb": duckdb}


def _counted(rows: Sequence[Row]) -> Row:
    queries = {name: [row for row in rows if row["query"] == name] for name in _names(rows)}
    wrong = _names(row for row in rows if row["equal"] is False)
    failed = {row["query"]: row["error"] for row in rows if row["error"]}
    fallbacks = {name: found for name, own in queries.items() if (found := codes(own))}
    return {
        "queries": len(queries),
        "runs": len(rows),
        "equal": len(queries.keys() - set(wrong) - set(failed)),
        "wrong": wrong,
        "failed": failed,
        "nontrivial": len(_names(row for row in rows if row["nontrivial"])),
        "maintained_whole": len(queries.keys() - set(fallbacks) - set(failed)),
        "fallbacks": fallbacks,
        "covered": {name: mean for name, own in queries.items() if (mean := covered(own)) is not None},
        **{name: round(sum(row[name] for row in rows), 1) for name in ("cpu_s", "wall_s", "overhead_s")},
    }


def codes(rows: Iterable[Row]) -> list[str]:
    """The codes of what is recomputed, each once."""
    return list(dict.fromkeys(reason.split(":")[0] for row in rows for reason in row["fallbacks"]))


def covered(rows: Iterable[Row]) -> float | None:
    """The share of a query's operators that is maintained, on average over the runs in which something changed."""
    shares = [row["covered"] for row in rows if row.get("covered") is not None]
    return round(fmean(shares), 3) if shares else None


def _names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["query"] for row in rows))


def _given(options: Mapping[str, Any] | None) -> Row:
    """The options without those that were left open: a later version may have more of them."""
    return {name: value for name, value in (options or {}).items() if value is not None}


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[k] for k in _KEY)
