"""Measuring what plain Spark takes to recompute a result: noted in a ledger of the query, for savings to be told by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tempura.frontend.clock import is_clock
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.commits.ledger import Ledger, attempt, discarding
from tempura.warehouse.engine import Progress, Settings, Source, WholeQuery
from tempura.warehouse.runs.savings import Recomputation
from tempura.warehouse.sources.folder import data_files
from tempura.warehouse.tables.site import Site

_LONG, _SAME = 60.0, 0.9
"""A recomputation is done again, while all of them together took fewer seconds, until one takes nearly as long as the fastest: by then the
session is warm."""


@dataclass(frozen=True, slots=True)
class Recomputations:
    """The measured recomputations of the query in a folder."""

    site: Site
    folder: Path

    @property
    def ledger(self) -> Ledger:
        """Where they are noted."""
        return Ledger(self.folder / "recomputed", self.site.files)

    def of(self, fingerprint: str) -> tuple[Recomputation, ...]:
        """Those of the query as it is now, oldest first."""
        found = (Recomputation.from_json(entry) for entry in self.ledger.entries() if entry)
        return tuple(measured for measured in found if measured.fingerprint == fingerprint)

    def measure(self, query: WholeQuery, settings: Settings, about: Recomputation, progress: Progress) -> Recomputation:
        """Let Spark alone compute a query until that takes no less time, and note what it took at best beside what is known ``about`` it.
        Raises TempuraError COMMIT_LOST when another process has measured meanwhile, and what Spark says of the query."""
        ledger, files = self.ledger, self.site.files
        n = ledger.last() + 1
        with attempt(files, self.site.attempts) as work:
            folder = self.folder / "attempts" / work.id
            with discarding(files, folder):
                files.make_folder(folder)
                asked = replace(query, tables=self._without_deleted(query.tables, folder, progress))
                measured = self._fastest(asked, settings, folder, about, progress)
                files.remove_tree(folder)
            ledger.append(work, n, measured.to_json())
        return measured

    def _fastest(
        self, query: WholeQuery, settings: Settings, folder: Path, about: Recomputation, progress: Progress
    ) -> Recomputation:
        found: list[Recomputation] = []
        while not found or self._may_be_faster([run.wall_seconds for run in found]):
            progress(f"recomputing by plain Spark, {len(found) + 1}")
            usage, rows = self.site.engine.recompute(query, settings, folder / str(len(found)))
            tasks, driver, passed = usage.cpu_seconds, usage.driver_seconds, usage.wall_seconds
            found.append(replace(about, rows=rows, cpu_seconds=tasks, driver_seconds=driver, wall_seconds=passed))
        return replace(min(found, key=lambda run: run.wall_seconds), runs=len(found))

    @staticmethod
    def _may_be_faster(walls: Sequence[float]) -> bool:
        *before, last = walls
        return sum(walls) < _LONG and (not before or last < _SAME * min(before))

    def _without_deleted(self, tables: Mapping[str, Source], folder: Path, progress: Progress) -> dict[str, Source]:
        """The tables, those with deletions written anew without the rows that are deleted: who recomputes by plain Spark would read these,
        and not set deletions off each time."""

        def plain(n: int, name: str, source: Source) -> Source:
            if is_clock(name) or not source.rows.signed:
                return source
            progress(f"writing {name} without what was deleted")
            target, engine = folder / f"rows{n}", self.site.engine
            engine.write(engine.frame(source, name), source.schema, target, name)
            return Source(source.schema, Rows(tuple(map(str, data_files(target)))))

        return {name: plain(n, name, source) for n, (name, source) in enumerate(tables.items())}
