"""The file of a sweep: complete after each query, so that a run that is stopped keeps its rows and can be continued."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tempura.errors import TempuraError

Row = dict[str, Any]
_KEY = ("query", "pattern", "scenario")


class Record:
    """``{"meta": …, "runs": […], "summary": …}`` in a file that is replaced as a whole."""

    def __init__(self, file: Path, meta: Mapping[str, Any], resume: bool = False) -> None:
        """Begin a file, or go on with it. Raises TempuraError FILE_EXISTS, and OTHER_BENCHMARK for a file of other settings."""
        self.file = file
        self.meta = dict(meta)
        self.rows: list[Row] = []
        if file.exists():
            self._continue(resume)

    def _continue(self, resume: bool) -> None:
        if not resume:
            raise TempuraError(
                "FILE_EXISTS", f"{self.file} exists.", "Continue it with --resume, or name another file."
            )
        found = json.loads(self.file.read_text(encoding="utf-8"))
        options, before = self.meta.get("options"), found["meta"].get("options")
        if options != before:
            what = f"{self.file} was made with {before}, not with {options}."
            raise TempuraError("OTHER_BENCHMARK", what, "Repeat those options, or name another file.")
        self.rows = found["runs"]

    def has(self, query: str, pattern: str, scenario: str) -> bool:
        """Whether the rows of a query are there."""
        return any(tuple(row[k] for k in _KEY) == (query, pattern, scenario) for row in self.rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Add the rows of a query and write the file."""
        self.rows.extend(rows)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_name(f".{self.file.name}.part")
        content = {"meta": self.meta, "runs": self.rows, "summary": summarised(self.rows)}
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(part, self.file)


def summarised(rows: Sequence[Row]) -> list[Row]:
    """Per pattern and scenario: how many queries are equal at every output, which are wrong, which failed and how."""
    kinds = dict.fromkeys((row["pattern"], row["scenario"]) for row in rows)
    return [_summary(p, s, [r for r in rows if (r["pattern"], r["scenario"]) == (p, s)]) for p, s in kinds]


def _summary(pattern: str, scenario: str, rows: Sequence[Row]) -> Row:
    queries = list(dict.fromkeys(row["query"] for row in rows))
    wrong = [q for q in queries if any(r["query"] == q and r["equal"] is False for r in rows)]
    failed = {row["query"]: row["error"] for row in rows if row["error"]}
    fallbacks: dict[str, list[str]] = {}
    for row in rows:
        for code in dict.fromkeys(reason.split(":")[0] for reason in row["fallbacks"]):
            fallbacks.setdefault(code, [])
            fallbacks[code] += [] if row["query"] in fallbacks[code] else [row["query"]]
    return {
        "pattern": pattern,
        "scenario": scenario,
        "queries": len(queries),
        "equal": len(queries) - len(wrong) - len(failed),
        "wrong": wrong,
        "failed": failed,
        "nontrivial": sum(bool(row["nontrivial"]) for row in rows),
        "fallbacks": fallbacks,
        "maintained_whole": len(queries) - len({q for names in fallbacks.values() for q in names} | set(failed)),
        "plan_s": round(sum(row["plan_s"] for row in rows), 1),
        "cpu_s": round(sum(row["cpu_s"] for row in rows), 1),
        "wall_s": round(sum(row["wall_s"] for row in rows), 1),
    }
