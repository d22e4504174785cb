"""The places where a query's results are published: what can be seen there, and bringing it up to date."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tempura.execute.contract import StoredOutput
from tempura.warehouse.declared.declare import OutputSpec
from tempura.warehouse.declared.places import check_output_place
from tempura.warehouse.engine import Progress
from tempura.warehouse.runs.publish import Publication, Result
from tempura.warehouse.tables.site import Site
from tempura.warehouse.times.history import History
from tempura.warehouse.times.steps import StepManifest


@dataclass(frozen=True)
class Outputs:
    """The outputs of a query in a folder. ``committed`` gives what is committed of it, ``result`` the result of a run, to be published, and
    ``kept`` that of a run which was published, if it is still there."""

    site: Site
    query: str
    folder: Path
    committed: Callable[[], History]
    result: Callable[[StepManifest], Result]
    kept: Callable[[StepManifest | None], StoredOutput | None]

    def publish(self, specs: Sequence[OutputSpec], progress: Progress | None = None) -> tuple[Path, ...]:
        """Publish the last result at some outputs, unless it is there. Returns the paths that changed. Raises TempuraError OUTPUT_TAKEN,
        DUPLICATE_KEY, OUTPUT_LOST."""
        declared = self.site.declarations.read()
        for publication in self._publications(specs):
            check_output_place(self.site.root, self.query, publication.spec, declared)
            publication.published()
        outputs = self.committed().outputs
        if not outputs or all(p.shows(outputs[-1]) for p in self._publications(specs)):
            return ()
        with self.site.files.lock(self.folder / "outputs.lock"):
            result = self.result(self.committed().outputs[-1])
            return tuple(p.path for p in self._publications(specs) if self._published(p, result, progress))

    def _published(self, publication: Publication, result: Result, progress: Progress | None) -> bool:
        before = publication.published()
        if progress and before != result.step:
            progress(f"publishing {publication.path}")
        return publication.publish(result, self.kept(before))

    def compared(self, specs: Sequence[OutputSpec]) -> tuple[StepManifest, ...]:
        """The runs with whose results the next ones are compared when they are published."""
        return self.published([spec for spec in specs if spec.mode == "changes"])

    def published(self, specs: Sequence[OutputSpec]) -> tuple[StepManifest, ...]:
        """The runs whose results can be read at some outputs. Raises TempuraError OUTPUT_TAKEN."""
        found = (publication.published() for publication in self._publications(specs))
        return tuple(step for step in found if step)

    def _publications(self, specs: Sequence[OutputSpec]) -> list[Publication]:
        by_attempt = {step.attempt: step for step in self.committed().runs}
        return [Publication(self.site, self.query, spec, by_attempt) for spec in specs]
