"""Garbage collection: what killed processes left behind, and results and states that nobody will read again."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival
from tempura.warehouse.batches.content import content, last_reset
from tempura.warehouse.commits.ledger import attempt, whole
from tempura.warehouse.commits.locks import HeldError
from tempura.warehouse.commits.reads import table_of
from tempura.warehouse.declared.declare import DeclarationFile
from tempura.warehouse.declared.kinds import is_whole
from tempura.warehouse.paces.segments import past_lives, stored_paths, stored_segments
from tempura.warehouse.query import Query
from tempura.warehouse.tables.site import Site
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.times.history import History
from tempura.warehouse.times.steps import StepManifest, last_with_states


@dataclass(frozen=True, slots=True)
class Sweep:
    """How garbage is collected: ``keep`` is the number of last results of each query that stay; ``dry_run`` removes nothing; ``runs`` is
    the number of last runs of which its history tells, None for all."""

    keep: int = 2
    dry_run: bool = False
    runs: int | None = None

    def check(self) -> None:
        """Raises TempuraError BAD_NUMBER."""
        if not is_whole(self.keep) or self.keep < 1:
            raise TempuraError("BAD_NUMBER", f"{self.keep!r} results cannot be kept.", "Keep at least the last one.")
        if self.runs is not None and (not is_whole(self.runs) or self.runs < FEWEST_RUNS):
            what = f"To remember {self.runs!r} runs is too few: plans go by what the last ones took."
            raise TempuraError("BAD_NUMBER", what, f"Remember at least {FEWEST_RUNS}.")


FEWEST_RUNS = 100
"""So many of the last runs of a query are never forgotten."""


LEFT_BEHIND = "left behind"


class Removed(tuple[str, ...]):
    """The paths that were removed, or would be, relative to the warehouse. ``bytes`` of their files by what they were: results,
    states, rows (copies of arrivals that are stored together), ledger (manifests that others repeat), or left behind by work that
    was interrupted."""

    bytes: Mapping[str, int]

    def __new__(cls, paths: Iterable[str], bytes: Mapping[str, int]) -> "Removed":
        """Paths and bytes."""
        made = super().__new__(cls, paths)
        made.bytes = dict(bytes)
        return made


class Bin:
    """What is removed, or would be."""

    def __init__(self, site: Site, sweep: Sweep) -> None:
        self.site = site
        self.sweep = sweep
        self._paths: list[Path] = []
        self._bytes = Counter[str]()

    def put(self, paths: Iterable[Path], kind: Callable[[Path], str]) -> None:
        """Remove files and folders; ``kind`` says what a file was. What another process, which collects as well, removes meanwhile is
        left to it."""
        for path in filter(os.path.lexists, paths):
            for file in _files_at(path):
                with suppress(FileNotFoundError):
                    self._bytes[kind(file)] += file.stat().st_size
            self._paths.append(path)
            if not self.sweep.dry_run:
                self._remove(path)

    def _remove(self, path: Path) -> None:
        while path.is_dir() and not path.is_symlink():
            with suppress(FileNotFoundError):
                self.site.files.remove_tree(path)
                return
        self.site.files.remove(path)

    def put_locks(self, locks: Iterable[Path]) -> None:
        """Remove the locks that no process holds."""
        files = self.site.files
        for lock in filter(Path.exists, locks):
            if not files.is_locked(lock) if self.sweep.dry_run else files.remove_lock(lock):
                self._paths.append(lock)

    def report(self) -> Removed:
        """All of it."""
        return Removed((os.path.relpath(path, self.site.root) for path in self._paths), self._bytes)


def _files_at(path: Path) -> list[Path]:
    """The file there, or all in the folder."""
    if not path.is_dir():
        return [path]
    return [file for folder, _, names in os.walk(path) for file in map(Path(folder).joinpath, names) if file.is_file()]


def collect(
    site: Site, queries: Iterable[Query], tables: Iterable[Arrivals], declarations: DeclarationFile, sweep: Sweep
) -> Removed:
    """Remove garbage. Raises TempuraError BAD_NUMBER.

    Locks are looked at first, manifests afterwards: work whose lock is free has either been committed by then, or never will be.
    """
    sweep.check()
    bin, queries = Bin(site, sweep), tuple(queries)
    segments = {query: stored_segments(site, query) for query in queries}
    readers = [reader for query in queries for reader in (query, *segments[query])]
    for table in tables:
        _collect_table(bin, table, readers)
        _collect_held(bin, table, readers)
    for query in queries:
        for path in stored_paths(site, query):
            _collect_table(bin, path, (query, *segments[query]))
        for reader in (query, *segments[query]):
            _collect_query(bin, reader)
        bin.put(past_lives(site, query), lambda file: "states")
        bin.put_locks([_lock(site, query)])
    _collect_attempts(bin)
    _collect_edits(bin, declarations)
    return bin.report()


def _lock(site: Site, query: Query) -> Path:
    return site.root / "queries" / query.name / "run.lock"


# --- tables -----------------------------------------------------------------------------------------------------------


def _collect_table(bin: Bin, table: Arrivals, queries: Sequence[Query]) -> None:
    running = any(bin.site.files.is_locked(_lock(bin.site, query)) for query in queries)
    idle, idle_beside = _idle(bin.site, table.shelf.copies), _idle(bin.site, table.aside.folder)
    if not bin.sweep.dry_run:
        _settle(table)
    arrivals, blocks = table.committed(), table.blocks
    plane = blocks.now()
    # A run may be reading any version since the last one that was committed.
    left = plane if running else plane.giving_up(_versions(table.name, len(arrivals), queries, bin.sweep.keep))
    if not bin.sweep.dry_run:
        for span in sorted(left.sole - plane.sole):
            with attempt(bin.site.files, bin.site.attempts) as work:
                blocks.give_up(work, span)
    known = _folders(table, (*arrivals, *blocks.kept(plane, ())))
    since = last_reset(arrivals)
    used = _folders(table, blocks.kept(left, arrivals, since))
    bin.put((*blocks.freed(left, since), *table.ledger.superseded()), lambda file: "ledger")
    superfluous = (folder for folder in idle if folder.name not in used)
    bin.put(superfluous, lambda file: "rows" if known & set(file.parts) else LEFT_BEHIND)
    # What was set aside stays as long as its arrival counts, wherever the rows are stored by now.
    beside = {Path(f.path).parts[0] for a in arrivals for f in a.aside}
    bin.put((folder for folder in idle_beside if folder.name not in beside), lambda file: LEFT_BEHIND)


def _collect_held(bin: Bin, table: Arrivals, queries: Sequence[Query]) -> None:
    """Second names of files whose rows no result that stays and no state was computed from."""
    site, arrivals = bin.site, table.committed()
    read = [version for version in _versions(table.name, len(arrivals), queries, bin.sweep.keep) if version]
    since = max(min(read, default=len(arrivals)), last_reset(arrivals))
    later = [f for a in arrivals[since:] for f in (*(a.whole or ()), *(() if a.copied else a.inserted))]
    left = table.shelf.held.without((*(file for file, _ in content(arrivals[:since]).in_place), *later))
    if any(site.files.is_locked(site.attempts / name) for name in site.files.names(site.attempts)):
        # An arrival at work may give a name that nothing is known of yet.
        return
    bin.put(left, lambda file: "rows")


def _settle(table: Arrivals) -> None:
    """Transactions whose process is gone never count: their rows may be removed."""
    try:
        table.recorded.settled()
    except TempuraError as error:
        if error.code != "COMMIT_LOST":
            raise


def _folders(table: Arrivals, arrivals: Iterable[Arrival]) -> set[str]:
    kept = (a for a in arrivals if table.shelf.home_of(a) == table.shelf.copies)
    return {Path(f.path).parts[0] for a in kept for f in (*a.inserted, *a.deleted)}


def _versions(name: str, last: int, queries: Iterable[Query], keep: int) -> tuple[int, ...]:
    """The versions of a table between which rows may be asked for: those that results and states are of, none, and all."""
    found = {0, last}
    for query in queries:
        history = query.committed()
        steps = (*history.outputs[-keep:], *filter(None, (_past(history), history.last)))
        found |= {version for step in steps for use, version in step.inputs.items() if table_of(use) == name}
    return tuple(sorted(version for version in found if version <= last))


# --- queries ----------------------------------------------------------------------------------------------------------


def _collect_query(bin: Bin, query: Query) -> None:
    site = bin.site
    home = query.folder / "attempts"
    idle = _idle(site, home)
    history = query.committed()
    needed = _needed(history, bin.sweep.keep) | {path for s in query.compared() if s.output for path in s.output.paths}
    written = (site.root / path for run in history.runs for path in run.paths)
    attempts = {run.attempt for run in history.runs} | {path.relative_to(home).parts[0] for path in written}
    for folder in idle:
        parts = [site.root / path for path in needed if (site.root / path).is_relative_to(folder)]
        bin.put(_unneeded(site, folder, parts), lambda file: _kind(file.relative_to(home), attempts))
    forgotten = _forgotten(bin, query, history)
    if forgotten and not bin.sweep.dry_run:
        with attempt(site.files, site.attempts) as work:
            query.ledger.forget(work, forgotten)
    bin.put(query.ledger.superseded(forgotten), lambda file: "ledger")
    bin.put((path for ledger in query.ledgers[1:] for path in ledger.superseded()), lambda file: "ledger")


def _forgotten(bin: Bin, query: Query, history: History) -> int:
    """How many of the first entries of a query are to be forgotten: none that is asked for, or that the next run or anything that is kept
    goes by. A flush of a query at paces is told by steps of several ledgers, which are not forgotten."""
    if bin.sweep.runs is None or query.schedule.kind == "paced" or len(history.runs) <= bin.sweep.runs:
        return 0
    asked = history.runs[-bin.sweep.runs]
    needed = (asked, *history.outputs[-bin.sweep.keep :], *query.published(), *filter(None, [_past(history)]))
    return whole(min(step.n for step in needed) - 1)


def _kind(file: Path, attempts: Set[str]) -> str:
    """What a file below the folder of a query's attempts was."""
    if file.parts[0] not in attempts:
        return LEFT_BEHIND
    return "results" if file.parts[1] == "output" else "states"


def _needed(history: History, keep: int) -> set[str]:
    """The paths of the last results and of the states that the next run could load."""
    outputs = [path for step in history.outputs[-keep:] if step.output for path in step.output.paths]
    past = _past(history)
    states = past.states if past else ()
    return {*outputs, *(part.path for state in states for part in state.stored.parts)}


def _past(history: History) -> StepManifest | None:
    """The last run that left states."""
    return last_with_states(history.loadable)


def _unneeded(site: Site, folder: Path, needed: Sequence[Path]) -> list[Path]:
    """The largest folders below ``folder``, itself included, that hold nothing of what is needed."""
    if not needed:
        return [folder]
    if folder in needed:
        return []
    inner = [folder / name for name in site.files.names(folder) if (folder / name).is_dir()]
    return [p for f in inner for p in _unneeded(site, f, [n for n in needed if n.is_relative_to(f)])]


# --- work that was interrupted ----------------------------------------------------------------------------------------


def _collect_attempts(bin: Bin) -> None:
    """The traces of attempts without a living owner: their files first, then the locks that told who owned them."""
    site = bin.site
    paths = [site.attempts / name for name in site.files.names(site.attempts)]
    files = [path for path in paths if path.suffix != ".lock"]
    left = [path for path in files if not site.files.is_locked(path.with_suffix(".lock"))]
    bin.put(left, lambda file: LEFT_BEHIND)
    bin.put_locks([path for path in paths if path.suffix == ".lock"])


def _collect_edits(bin: Bin, declarations: DeclarationFile) -> None:
    site = bin.site
    if bin.sweep.dry_run:
        # To take the lock would sign it.
        bin.put([] if site.files.is_locked(declarations.lock) else declarations.left_behind(), lambda file: LEFT_BEHIND)
        return
    # While the file is edited they are left to the next sweep. To have the lock alone would sign it, for which a full disk, which a
    # sweep is to make room on, has no space; others who share it make no such files.
    with suppress(HeldError), site.files.share(declarations.lock, wait=False):
        bin.put(declarations.left_behind(), lambda file: LEFT_BEHIND)


def _idle(site: Site, folder: Path) -> list[Path]:
    """The folders of attempts that no process works on."""
    names = site.files.names(folder)
    return [folder / name for name in names if not site.files.is_locked(site.attempts / f"{name}.lock")]
