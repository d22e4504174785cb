"""Declaring a table, and changing what is declared of one."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.warehouse.catalog import Catalog
from tempura.warehouse.declared.declare import TableSpec, check_keys, check_name, declared_path
from tempura.warehouse.declared.kinds import TABLE, check_given, listed
from tempura.warehouse.declared.references import check_reference, references_of
from tempura.warehouse.declared.references import declared as declared_references
from tempura.warehouse.declaring.sources import check_of_files, check_source, reading, topic_of, with_columns
from tempura.warehouse.sources.topic import check_topic
from tempura.warehouse.sources.widening import add_columns, check_new_columns
from tempura.warehouse.tables.refresh import check_moved, refresh_times
from tempura.warehouse.times.forecast import check_expect


def spec_given(name: str, optional: Mapping[str, Any], **values: Any) -> TableSpec:
    """A declaration of what a program gives, each of the kind that ``tempura.toml`` takes; of what is ``optional``, what is not None. The
    schema is for others to read. Raises TempuraError BAD_SCHEMA, BAD_KEYS, BAD_OPTION, BAD_SOURCE, UNSUPPORTED_FORMAT."""
    given = {key: value for key, value in optional.items() if value is not None} | values
    if isinstance(given.get("schema"), StructType):
        del given["schema"]
    if isinstance(given.get("path"), Path):
        given["path"] = str(given["path"])
    if isinstance(given.get("options"), Mapping):
        given["options"] = {option: _as_text(value) for option, value in given["options"].items()}
    given["keys"] = listed(given["keys"])
    check_given(f"Table {name}", TABLE, given)
    return TableSpec(**given | {"schema": "", "keys": tuple(given["keys"]), "settle": float(given["settle"])})


def _as_text(value: object) -> object:
    """An option's value as Spark takes it, who reads ``True`` and numbers from texts."""
    return str(value) if isinstance(value, bool | int | float) else value


def add(
    catalog: Catalog,
    name: str,
    given: TableSpec,
    schema: str | StructType | None,
    expect: str | int | None,
    references: Mapping[str, str],
) -> None:
    """Declare a table as it is ``given``, with paths, options and a topic as somebody has said them; the same declaration again changes
    nothing. Raises TempuraError as :meth:`Warehouse.add_table` does."""
    site, tables = catalog.site, catalog.declared.tables
    check_name("table", name, tables)
    if given.query is not None and (given.path is not None or schema is not None):
        what = f"Table {name} takes its rows and columns from query {given.query}."
        raise TempuraError("BAD_SOURCE", what, "Give no path and no schema with it.")
    known = tables.get(name)
    folder = declared_path(site.root, given.path) if given.path is not None else None
    spec = replace(given, path=folder, kafka=topic_of(name, given))
    spec = replace(spec, options=reading(site.engine, spec, known), expect=check_expect(name, expect))
    check_of_files(name, given)
    check_topic(name, spec)
    check_new_columns(name, spec)
    if not known:
        check_source(catalog, name, spec)
    spec = with_columns(catalog, name, spec, schema, known)
    check_keys(name, spec.keys, site.engine.parse_schema(spec.schema))
    spec = replace(spec, references=declared_references(name, references))
    _check_references(catalog, name, spec)
    if known and known != spec:
        what = f"Table {name} is declared otherwise in {site.declarations.path}."
        raise TempuraError("TABLE_EXISTS", what, "Edit the file, or use another name.")
    if not known:
        site.declarations.put_table(name, spec)


def alter(
    catalog: Catalog,
    name: str,
    path: str | Path | None,
    columns: str | StructType | None,
    references: Mapping[str, str] | None,
) -> None:
    """Change what is declared of a table. Raises TempuraError as :meth:`Warehouse.alter_table` does."""
    site, known = catalog.site, catalog.table(name).spec
    if path is not None:
        known = _move(catalog, name, known, path)
    if columns is not None:
        wanted = site.engine.given_schema(columns)
        add_columns(site.declarations, site.engine, name, known, wanted.fields)
    if references is not None:
        known = catalog.table(name).spec
        referring = replace(known, references=declared_references(name, references))
        _check_references(catalog, name, referring)
        if referring != known:
            site.declarations.change_table(name, known, referring)


def _move(catalog: Catalog, name: str, known: TableSpec, path: str | Path) -> TableSpec:
    """Declare that the files of a table lie at another path now."""
    site = catalog.site
    if known.path is None:
        what = f"Table {name} takes no rows from a folder."
        raise TempuraError("BAD_SOURCE", what, "Add a table of another name for the folder.")
    moved = replace(known, path=declared_path(site.root, path))
    check_source(catalog, name, moved)
    arrivals = catalog.arrivals(name, moved)
    check_moved(arrivals)
    site.declarations.change_table(name, known, moved)
    refresh_times(arrivals)
    return moved


def _check_references(catalog: Catalog, name: str, spec: TableSpec) -> None:
    known, parse = {**catalog.declared.tables, name: spec}, catalog.site.engine.parse_schema
    for reference in references_of(name, spec.references):
        partner = known.get(reference.table)
        schema, keys = (parse(partner.schema), partner.keys) if partner else (None, ())
        check_reference(name, reference, parse(spec.schema), schema, keys)
