"""Removing and renaming tables and queries: who needs them, which names are free, and what is left over of one that somebody has taken
out of ``tempura.toml``."""

from collections.abc import Collection
from pathlib import Path

from tempura.errors import TempuraError
from tempura.warehouse.catalog import Catalog
from tempura.warehouse.declared.declare import check_name
from tempura.warehouse.runs.run import alone
from tempura.warehouse.tables.moves import Move

_KINDS = {"tables": "table", "queries": "query"}
"""What a section of ``tempura.toml`` declares."""


def remove_table(catalog: Catalog, name: str) -> None:
    """Raises TempuraError as :meth:`Warehouse.remove_table` does."""
    if not _is_left_over(catalog, "tables", name):
        _check_unused(catalog, name, "removed", "remove", "Remove them first")
        _check_unreferenced(catalog, name, "removed")
    Move("tables", name).carry_out(catalog.site)


def rename_table(catalog: Catalog, name: str, new: str) -> None:
    """Raises TempuraError as :meth:`Warehouse.rename_table` does."""
    if not _is_left_over(catalog, "tables", name):
        _check_unused(catalog, name, "renamed", "replace", "Replace them by queries that do not read it")
        _check_unreferenced(catalog, name, "renamed")
    _check_free(catalog, "tables", name, new)
    Move("tables", name, new).carry_out(catalog.site)


def remove_query(catalog: Catalog, name: str) -> tuple[Path, ...]:
    """Returns the paths at which the query was published. Raises TempuraError as :meth:`Warehouse.remove_query` does."""
    declared, root = catalog.declared, catalog.site.root
    if not _is_left_over(catalog, "queries", name):
        catalog.query_spec(name)
    taking = [table for table, spec in declared.tables.items() if spec.query == name]
    if taking:
        what = f"Query {name} cannot be removed: its results are the rows of {', '.join(taking)}."
        calls = ("Remove them first: remove_table.", "Remove them first: tempura table remove …")
        raise TempuraError("QUERY_IN_USE", what, *calls)
    _move_query(catalog, name)
    spec = declared.queries.get(name)
    return tuple(root / output.path for output in spec.outputs) if spec else ()


def rename_query(catalog: Catalog, name: str, new: str) -> None:
    """Raises TempuraError as :meth:`Warehouse.rename_query` does."""
    if not _is_left_over(catalog, "queries", name):
        catalog.query_spec(name)
    _check_free(catalog, "queries", name, new)
    _move_query(catalog, name, new)


def _move_query(catalog: Catalog, name: str, new: str | None = None) -> None:
    """Give a query a new name, or none, while nobody runs it."""
    with alone(catalog.site.files, catalog.site.root / "queries" / name):
        Move("queries", name, new).carry_out(catalog.site)
    catalog.forget(name, new)


# --- who needs a table ------------------------------------------------------------------------------------------------


def _check_unused(catalog: Catalog, name: str, what: str, verb: str, way: str) -> None:
    """Raises TempuraError TABLE_IN_USE while queries read a table, UNKNOWN_TABLE."""
    readers = catalog.readers(catalog.table(name).name)
    if readers:
        message = f"Table {name} cannot be {what}: it is read by {', '.join(readers)}."
        raise TempuraError("TABLE_IN_USE", message, f"{way}: {verb}_query.", f"{way}: tempura query {verb} …")


def _check_unreferenced(catalog: Catalog, name: str, what: str) -> None:
    """Raises TempuraError TABLE_IN_USE while other tables refer to one."""
    others = [n for n, spec in catalog.declared.tables.items() if n != name and name in spec.partners]
    if others:
        message = f"Table {name} cannot be {what}: {', '.join(others)} refers to it."
        way = "Take the reference back first"
        command = f"{way}: tempura table alter {others[0]} --no-references."
        raise TempuraError("TABLE_IN_USE", message, f"{way}: alter_table(…, references=…).", command)


# --- names ------------------------------------------------------------------------------------------------------------


def _check_free(catalog: Catalog, section: str, old: str, new: str) -> None:
    """Raises TempuraError BAD_NAME, and NAME_TAKEN for a name that is declared, or under which something is stored."""
    declared = _declared(catalog, section)
    check_name(_KINDS[section], new, set(declared) - {old})
    taken = new in declared and not _is_left_over(catalog, section, old)
    if taken or (catalog.site.root / section / new).exists():
        what = f"The name {new} is taken: {'it is declared' if taken else f'there is a folder {section}/{new}'}."
        raise TempuraError("NAME_TAKEN", what, "Use another name, or remove what has it.")


def _declared(catalog: Catalog, section: str) -> Collection[str]:
    declared = catalog.declared
    return declared.tables if section == "tables" else declared.queries


def _is_left_over(catalog: Catalog, section: str, name: str) -> bool:
    """Whether something is stored under a name that ``tempura.toml`` does not declare any more."""
    check_name(_KINDS[section], name)
    return name not in _declared(catalog, section) and (catalog.site.root / section / name).is_dir()
