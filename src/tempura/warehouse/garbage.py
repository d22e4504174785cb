"""Garbage collection: what killed processes left behind, and results and states that nobody will read again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tempura.errors import TempuraError
from tempura.warehouse.declare import DeclarationFile
from tempura.warehouse.history import History
from tempura.warehouse.query import Query
from tempura.warehouse.table import Arrivals, Site


@dataclass(frozen=True, slots=True)
class Sweep:
    """How garbage is collected: ``keep`` is the number of last results of each query that stay; ``dry_run`` removes nothing."""

    keep: int = 2
    dry_run: bool = False


def collect(
    site: Site, queries: Iterable[Query], tables: Iterable[Arrivals], declarations: DeclarationFile, sweep: Sweep
) -> tuple[str, ...]:
    """Remove garbage. Returns the removed paths, relative to the warehouse. Raises TempuraError BAD_NUMBER.

    Locks are looked at first, manifests afterwards: work whose lock is free has either been committed by then, or never will be.
    """
    if sweep.keep < 1:
        raise TempuraError("BAD_NUMBER", f"{sweep.keep} results cannot be kept.", "Keep at least the last one.")
    removed: list[Path] = []
    for table in tables:
        removed += _collect_table(site, table, sweep)
    for query in queries:
        removed += _collect_query(site, query, sweep)
        removed += _free_locks(site, [site.root / "queries" / query.name / "run.lock"], sweep)
    removed += _collect_attempts(site, sweep)
    removed += _collect_edits(site, declarations, sweep)
    return tuple(str(path.relative_to(site.root)) for path in removed)


def _collect_table(site: Site, table: Arrivals, sweep: Sweep) -> list[Path]:
    idle = _idle(site, table.copies)
    kept = (a for a in table.committed() if table.home_of(a) == table.copies)
    used = {Path(f.path).parts[0] for a in kept for f in (*a.inserted, *a.deleted)}
    return _remove(site, (folder for folder in idle if folder.name not in used), sweep)


def _collect_query(site: Site, query: Query, sweep: Sweep) -> list[Path]:
    idle = _idle(site, site.root / "queries" / query.name / "attempts")
    needed = _needed(query.committed(), sweep.keep) | {s.output.path for s in query.compared() if s.output}
    removed = []
    for folder in idle:
        parts = [site.root / path for path in needed if (site.root / path).is_relative_to(folder)]
        removed += _remove(site, _unneeded(site, folder, parts), sweep)
    return removed


def _needed(history: History, keep: int) -> set[str]:
    """The paths of the last results and of the states that the next run could load."""
    steps = history.loadable
    outputs = [step.output.path for step in history.outputs if step.output][-keep:]
    past = next((step for step in reversed(steps) if step.states), None)
    states = past.states if past else ()
    return {*outputs, *(part.path for state in states for part in state.stored.parts)}


def _unneeded(site: Site, folder: Path, needed: Sequence[Path]) -> list[Path]:
    """The largest folders below ``folder``, itself included, that hold nothing of what is needed."""
    if not needed:
        return [folder]
    if folder in needed:
        return []
    inner = [folder / name for name in site.files.names(folder) if (folder / name).is_dir()]
    return [p for f in inner for p in _unneeded(site, f, [n for n in needed if n.is_relative_to(f)])]


def _collect_attempts(site: Site, sweep: Sweep) -> list[Path]:
    """The traces of attempts without a living owner: their files first, then the locks that told who owned them."""
    paths = [site.attempts / name for name in site.files.names(site.attempts)]
    files = [path for path in paths if path.suffix != ".lock"]
    left = [path for path in files if not site.files.is_locked(path.with_suffix(".lock"))]
    for path in left if not sweep.dry_run else ():
        site.files.remove(path)
    return left + _free_locks(site, [path for path in paths if path.suffix == ".lock"], sweep)


def _free_locks(site: Site, locks: Iterable[Path], sweep: Sweep) -> list[Path]:
    if sweep.dry_run:
        return [lock for lock in locks if lock.exists() and not site.files.is_locked(lock)]
    return [lock for lock in locks if lock.exists() and site.files.remove_lock(lock)]


def _collect_edits(site: Site, declarations: DeclarationFile, sweep: Sweep) -> list[Path]:
    if sweep.dry_run:
        # To take the lock would sign it.
        return [] if site.files.is_locked(declarations.lock) else _edits(site, declarations)
    with site.files.lock(declarations.lock):
        left = _edits(site, declarations)
        for path in left:
            site.files.remove(path)
    return left


def _edits(site: Site, declarations: DeclarationFile) -> list[Path]:
    prefix = f".{declarations.path.name}."
    return [site.root / n for n in site.files.names(site.root) if n.startswith(prefix) and n.endswith(".tmp")]


def _idle(site: Site, folder: Path) -> list[Path]:
    """The folders of attempts that no process works on."""
    names = site.files.names(folder)
    return [folder / name for name in names if not site.files.is_locked(site.attempts / f"{name}.lock")]


def _remove(site: Site, folders: Iterable[Path], sweep: Sweep) -> list[Path]:
    removed = list(folders)
    for folder in removed if not sweep.dry_run else ():
        site.files.remove_tree(folder)
    return removed
