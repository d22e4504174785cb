"""Publishing results into folders that anything can read: whoever reads sees the last committed result whole, never half of one.

``replace`` and ``upsert``: the path is a symbolic link to a folder with one version of the result. A new version is written beside
the old, then the link is replaced by a rename, which is atomic. The version before stays for those who still read it. Files that are in
both are not written again, but get a second name: of a result that only got rows all those of the version before.
``changes``: the path is a folder, to which each result adds a folder ``step=N`` with what it changed, by a rename.

The names of versions say which step they show, so nothing else has to be committed: a publication that was interrupted is done
again from the start.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.types import StringType, StructField, StructType

from tempura.errors import TempuraError
from tempura.execute.contract import StoredOutput
from tempura.frontend.lift import Lifted
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.batches.parquet import inspect
from tempura.warehouse.declared.declare import OutputSpec
from tempura.warehouse.declared.places import versions_beside
from tempura.warehouse.declared.text import CHANGE
from tempura.warehouse.engine import Source
from tempura.warehouse.sources.folder import data_files
from tempura.warehouse.tables.site import Site
from tempura.warehouse.times.steps import StepManifest

_NOTE = "_tempura.json"


@dataclass(frozen=True, slots=True)
class Result:
    """A committed result to be published."""

    step: StepManifest
    stored: StoredOutput
    lifted: Lifted
    schema: StructType


@dataclass(frozen=True, slots=True)
class Publication:
    """An output of a query. ``steps`` are the committed runs of the query by the id of their attempts."""

    site: Site
    query: str
    spec: OutputSpec
    steps: dict[str, StepManifest]

    @property
    def path(self) -> Path:
        """What is read."""
        return self.site.root / self.spec.path

    def published(self) -> StepManifest | None:
        """The run whose result can be read; None before the first. Raises TempuraError OUTPUT_TAKEN for what is not ours."""
        found = self._last_change() if self.spec.mode == "changes" else self._version()
        if found is None:
            return None
        if found not in self.steps:
            raise self._taken("was published by another query, or by a warehouse that is gone")
        return self.steps[found]

    def shows(self, step: StepManifest) -> bool:
        """Whether the result of a run can be read. Raises as :meth:`published` does."""
        last = self.published()
        return last is not None and last.attempt == step.attempt

    def publish(self, result: Result, before: StoredOutput | None) -> bool:
        """Publish a result unless it is published. ``before`` is the result that was published last, if it is kept. Returns whether
        it was done.

        The caller holds the lock of the query's outputs. Raises TempuraError OUTPUT_TAKEN, DUPLICATE_KEY, OUTPUT_LOST.
        """
        last = self.published()
        if self.shows(result.step):
            return False
        if self.spec.mode == "changes":
            self._add_changes(result, last, before)
        else:
            self._switch(result, last, before)
        return True

    # --- replace and upsert -----------------------------------------------------------------------------------------

    @property
    def _versions(self) -> Path:
        return versions_beside(self.path)

    def _version(self) -> str | None:
        if self.path.is_symlink() and self.path.readlink().parent.name == self._versions.name:
            return self.path.readlink().name.split("-")[-1]
        if self.path.is_symlink() or self.path.exists():
            raise self._taken("is there already")
        return None

    def _folder(self, step: StepManifest) -> Path:
        return self._versions / f"{step.n:06d}-{step.attempt}"

    def _switch(self, result: Result, last: StepManifest | None, before: StoredOutput | None) -> None:
        files, folder = self.site.files, self._folder(result.step)
        self._clean({self._folder(last).name} if last else set())
        files.make_folder(self._versions)
        self._write_version(result, folder, self._folder(last) if last else None, before)
        files.sync_tree(folder)
        link = self.path.with_name(f"{self._versions.name}.link")
        files.remove(link)
        files.symlink(f"{self._versions.name}/{folder.name}", link)
        files.replace(link, self.path)
        files.sync_folder(self.path.parent)

    def _clean(self, kept: set[str]) -> None:
        """Remove versions that nobody is told of, and what an interrupted publication left."""
        for name in self.site.files.names(self._versions):
            if name not in kept:
                self.site.files.remove_tree(self._versions / name)

    def _write_version(self, result: Result, folder: Path, last: Path | None, before: StoredOutput | None) -> None:
        engine, shown = self.site.engine, _alike(_paths(last), result.schema) if last else ()
        if self.spec.mode == "replace":
            stays = bool(shown) and before is not None and not result.lifted.order and result.stored.extends(before)
            rows = result.stored.beside(before) if before and stays else result.stored
            engine.write(engine.result(rows, result.lifted), result.schema, folder, self.query)
            self._link(shown if stays else (), folder)
            return
        present = Source(result.schema, Rows(shown))
        changes = engine.delta(present, result.stored, result.lifted)
        rows, kept = engine.merge(changes, present, self.spec.keys)
        engine.write(rows, result.schema, folder, self.query)
        self._check_keys(result.schema, kept, _paths(folder))
        self._link(kept, folder)

    def _link(self, kept: Iterable[str], folder: Path) -> None:
        """Files of the version before, in the new one."""
        for file in map(Path, kept):
            self.site.files.link(file, folder / file.name)

    def _check_keys(self, schema: StructType, kept: Sequence[str], written: Sequence[str]) -> None:
        found = self.site.engine.duplicate(Source(schema, Rows(tuple(kept))), Rows(tuple(written)), self.spec.keys)
        if found is not None:
            what = f"Output {self.path}: more than one row of the result has the key {found}."
            raise TempuraError("DUPLICATE_KEY", what, "The last output stays. Name keys that are unique in the result.")

    # --- changes ----------------------------------------------------------------------------------------------------

    def _last_change(self) -> str | None:
        if not self.path.exists():
            return None
        added = {int(p.name[5:]): p for p in self._visible() if p.name[:5] == "step=" and p.name[5:].isdigit()}
        if len(added) < len(list(self._visible())) or not self.path.is_dir():
            raise self._taken("holds something else")
        try:
            return str(json.loads((added[max(added)] / _NOTE).read_bytes())["attempt"]) if added else None
        except (OSError, ValueError, KeyError) as error:
            raise self._taken(f"cannot be understood ({error})") from error

    def _visible(self) -> Iterator[Path]:
        return (self.path / n for n in self.site.files.names(self.path) if not n.startswith((".", "_")))

    def _add_changes(self, result: Result, last: StepManifest | None, before: StoredOutput | None) -> None:
        if last and (before is None or before.types != result.stored.types):
            what = f"Output {self.path}: the result of run {last.n}, which was published last, is gone or has other columns."
            raise TempuraError("OUTPUT_LOST", what, "Remove the folder; all rows will be published as inserts.")
        files = self.site.files
        files.make_folder(self.path)
        for name in files.names(self.path):
            if name.startswith(".step="):
                files.remove_tree(self.path / name)
        folder = self.path / f".step={result.step.n}"
        delta = self.site.engine.delta(before if last else None, result.stored, result.lifted)
        schema = StructType([*result.schema.fields, StructField(CHANGE, StringType())])
        self.site.engine.write(delta, schema, folder, self.query)
        files.write(folder / _NOTE, json.dumps({"query": self.query, "attempt": result.step.attempt}).encode())
        files.sync_tree(folder)
        files.replace(folder, self.path / folder.name[1:])
        files.sync_folder(self.path)

    def _taken(self, why: str) -> TempuraError:
        what = f"Query {self.query} cannot be published at {self.path}: it {why}."
        return TempuraError("OUTPUT_TAKEN", what, "Remove it, or publish at another path.")


def _paths(folder: Path) -> tuple[str, ...]:
    return tuple(map(str, data_files(folder)))


def _alike(paths: tuple[str, ...], schema: StructType) -> tuple[str, ...]:
    """The files, none when the query had other columns then: all is written anew."""
    try:
        for path in paths:
            inspect(Path(path), schema)
    except TempuraError:
        return ()
    return paths
