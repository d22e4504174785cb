"""Places that must not overlap: the warehouse's own folders, the sources of tables, the outputs of queries. Compared by real paths."""

from collections.abc import Iterator
from pathlib import Path

from tempura.errors import TempuraError
from tempura.warehouse.declared.declare import Declarations, OutputSpec

OWN = (".tempura", "tables", "queries")
"""The folders of a warehouse in which only Tempura writes."""

Places = frozenset[Path]


def check_output_place(root: Path, query: str, spec: OutputSpec, declared: Declarations) -> None:
    """Raises TempuraError OUTPUT_TAKEN when an output would lie in a place that is another's, or hold it."""
    wanted = _of_output(root, spec.path)
    for places, whose in _taken(root, query, spec, declared):
        if _overlap(wanted, places):
            what = f"Query {query} cannot be published at {root / spec.path}: that is, lies in or holds {whose}."
            raise TempuraError("OUTPUT_TAKEN", what, "Publish at another path.")


def check_source_place(root: Path, table: str, path: str, declared: Declarations) -> None:
    """Raises TempuraError BAD_SOURCE when the folder of a table would be a place at which a query is published, lie in it or hold it."""
    for query, outputs in ((name, spec.outputs) for name, spec in declared.queries.items()):
        if any(_overlap(_of_source(root, path), _of_output(root, output.path)) for output in outputs):
            what = f"The folder of table {table}, {root / path}, is, lies in or holds the place where query {query} is published."
            program = f'Let the table hold the results of that query: query="{query}".'
            command = f"Let the table hold the results of that query: --from-query {query}"
            raise TempuraError("BAD_SOURCE", what, program, command)


def _taken(root: Path, query: str, spec: OutputSpec, declared: Declarations) -> Iterator[tuple[Places, str]]:
    for name in OWN:
        yield frozenset((root / name, (root / name).resolve())), f"the warehouse's own folder {root / name}"
    for table, path in ((name, spec.path) for name, spec in declared.tables.items() if spec.path is not None):
        yield _of_source(root, path), f"the folder of table {table}, {root / path}"
    for other, outputs in ((name, spec.outputs) for name, spec in declared.queries.items()):
        for output in (o for o in outputs if (other, o.path) != (query, spec.path)):
            yield _of_output(root, output.path), f"the place where query {other} is published, {root / output.path}"


def _of_source(root: Path, path: str) -> Places:
    """What is read: also when the folder is a link, perhaps to the version of an output."""
    return frozenset(((root / path).resolve(), _real(root / path)))


def _of_output(root: Path, path: str) -> Places:
    """What is written: the path, what a link there leads to, and the folder of versions beside it."""
    real = _real(root / path)
    beside = (versions_beside(real),) if real.name else ()
    return frozenset((real, (root / path).resolve(), *beside))


def versions_beside(path: Path) -> Path:
    """The folder that holds the versions of an output at a path."""
    return path.with_name(f".{path.name}.tempura")


def _real(path: Path) -> Path:
    """The place that has a path, not what a link there leads to."""
    return path.resolve() if path.name in ("", "..") else path.parent.resolve() / path.name


def _overlap(some: Places, others: Places) -> bool:
    return any(a.is_relative_to(b) or b.is_relative_to(a) for a in some for b in others)
