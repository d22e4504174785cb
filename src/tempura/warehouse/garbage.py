"""Garbage collection: what killed processes left behind, and results and states that nobody will read again."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tempura.warehouse.declare import DeclarationFile
from tempura.warehouse.query import Query
from tempura.warehouse.steps import StepManifest, states_at
from tempura.warehouse.table import Arrivals, Site

_RESULTS_KEPT = 2


def collect(
    site: Site, queries: Iterable[Query], tables: Iterable[Arrivals], declarations: DeclarationFile
) -> tuple[str, ...]:
    """Remove garbage. Returns the removed paths, relative to the warehouse.

    Locks are looked at first, manifests afterwards: work whose lock is free has either been committed by then, or never will be.
    """
    removed: list[Path] = []
    for table in tables:
        removed += _collect_table(site, table)
    for query in queries:
        removed += _collect_query(site, query)
    removed += _collect_attempts(site)
    removed += _collect_edits(site, declarations)
    return tuple(str(path.relative_to(site.root)) for path in removed)


def _collect_table(site: Site, table: Arrivals) -> list[Path]:
    idle = _idle(site, table.copies)
    kept = (a for a in table.committed() if table.home_of(a) == table.copies)
    used = {Path(f.path).parts[0] for a in kept for f in (*a.inserted, *a.deleted)}
    return _remove(site, (folder for folder in idle if folder.name not in used))


def _collect_query(site: Site, query: Query) -> list[Path]:
    idle = _idle(site, site.root / "queries" / query.name / "attempts")
    needed = _needed(query.steps())
    removed = []
    for folder in idle:
        parts = [site.root / path for path in needed if (site.root / path).is_relative_to(folder)]
        removed += _remove(site, _unneeded(site, folder, parts))
    return removed


def _needed(steps: Sequence[StepManifest]) -> set[str]:
    """The paths of the last results and of the states that the next run could load."""
    outputs = [step.output.path for step in steps if step.output][-_RESULTS_KEPT:]
    past = next((step for step in reversed(steps) if step.states), None)
    states = states_at(steps, past).values() if past else ()
    return {*outputs, *(part.path for state in states for part in state.stored.parts)}


def _unneeded(site: Site, folder: Path, needed: Sequence[Path]) -> list[Path]:
    """The largest folders below ``folder``, itself included, that hold nothing of what is needed."""
    if not needed:
        return [folder]
    if folder in needed:
        return []
    inner = [folder / name for name in site.files.names(folder) if (folder / name).is_dir()]
    return [p for f in inner for p in _unneeded(site, f, [n for n in needed if n.is_relative_to(f)])]


def _collect_attempts(site: Site) -> list[Path]:
    removed = []
    names = site.files.names(site.attempts)
    for name in names:
        lock = site.attempts / f"{Path(name).stem}.lock"
        path = site.attempts / name
        if path == lock:
            removed += [path] if site.files.remove_lock(lock) else []
        elif not site.files.is_locked(lock):
            site.files.remove(path)
            removed.append(path)
    return removed


def _collect_edits(site: Site, declarations: DeclarationFile) -> list[Path]:
    with site.files.lock(declarations.lock):
        prefix = f".{declarations.path.name}."
        left = [site.root / n for n in site.files.names(site.root) if n.startswith(prefix) and n.endswith(".tmp")]
        for path in left:
            site.files.remove(path)
    return left


def _idle(site: Site, folder: Path) -> list[Path]:
    """The folders of attempts that no process works on."""
    names = site.files.names(folder)
    return [folder / name for name in names if not site.files.is_locked(site.attempts / f"{name}.lock")]


def _remove(site: Site, folders: Iterable[Path]) -> list[Path]:
    removed = list(folders)
    for folder in removed:
        site.files.remove_tree(folder)
    return removed
