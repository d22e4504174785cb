"""References between tables as they are declared: ``{"l_orderkey": "orders.o_orderkey"}``, or of several columns
``{"l_partkey, l_suppkey": "partsupp(ps_partkey, ps_suppkey)"}``; the same in ``tempura.toml``."""

import re
from collections.abc import Mapping

from pyspark.sql.types import StructType

from tempura.algebra.sql_order import equality_is_identity
from tempura.errors import TempuraError
from tempura.memo.references import Reference

_PARTNER = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\.([^(),.]+)|\(([^()]+)\))\s*")
_FORM = 'Write {"column": "table.key"}, or {"column, column": "table(key, key)"}.'


def declared(table: str, given: object) -> dict[str, str]:
    """References in the one spelling that is kept. Raises TempuraError BAD_REFERENCES."""
    if not isinstance(given, Mapping):
        raise bad(table, f"references is {given!r}", _FORM)
    found: dict[str, str] = {}
    for reference in (_read(table, columns, partner) for columns, partner in given.items()):
        columns, partner = written(reference)
        if columns in found:
            raise bad(table, f"{columns} refers to two tables", "Declare one of them.")
        found[columns] = partner
    return found


def written(reference: Reference) -> tuple[str, str]:
    """A reference as it is declared: its columns, and its partner."""
    key = ", ".join(reference.key)
    partner = f"{reference.table}({key})" if len(reference.key) > 1 else f"{reference.table}.{key}"
    return ", ".join(reference.columns), partner


def references_of(table: str, given: Mapping[str, str]) -> tuple[Reference, ...]:
    """What declared references mean. Raises TempuraError BAD_REFERENCES."""
    return tuple(_read(table, columns, partner) for columns, partner in given.items())


def _read(table: str, columns: object, partner: object) -> Reference:
    match = _PARTNER.fullmatch(partner) if isinstance(partner, str) else None
    if match is None or not isinstance(columns, str):
        raise bad(table, f"{columns!r} refers to {partner!r}", _FORM)
    own, key = _names(columns), _names(match[2] or match[3])
    if not all(own) or not all(key) or len(set(own)) < len(own) or len(set(key)) < len(key):
        raise bad(table, f"{columns!r} refers to {partner!r}, where a column is missing or named twice", _FORM)
    if len(own) != len(key):
        raise bad(table, f"{len(own)} columns ({columns}) refer to {len(key)} ({partner})", _FORM)
    return Reference(own, match[1], key)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def check_reference(
    table: str, reference: Reference, own: StructType, partner: StructType | None, keys: tuple[str, ...]
) -> None:
    """Whether a reference can be kept: columns of one type, to the key of another table with such columns and ``keys``; None when there is
    no such table. Raises TempuraError BAD_REFERENCES."""
    columns, to = written(reference)
    where = f"{columns} refers to {to}"
    if partner is None:
        raise bad(table, f"{where}, and there is no table {reference.table}", "Declare that table first.")
    for name, schema, of in (
        *((name, own, table) for name in reference.columns),
        *((name, partner, reference.table) for name in reference.key),
    ):
        if name not in schema.names:
            raise bad(table, f"{where}, and table {of} has no column {name}", f"It has {', '.join(schema.names)}.")
    if set(reference.key) != set(keys):
        told = f"its key is {', '.join(keys)}" if keys else "it has none"
        remedy = f'Declare keys = ["{", ".join(reference.key)}"] of {reference.table}, or refer to its key.'
        raise bad(table, f"{where}, which is not the key of {reference.table}: {told}", remedy)
    for name, other in zip(reference.columns, reference.key, strict=True):
        types = own[name].dataType.simpleString(), partner[other].dataType.simpleString()
        if types[0] != types[1]:
            raise bad(table, f"{where}: {name} is {types[0]}, and {other} is {types[1]}", "Give both the same type.")
        if not equality_is_identity(types[0]):
            what = f"{where}: {name} is {types[0]}, of which different values are equal"
            raise bad(table, what, "Refer by numbers that are exact, dates or plain texts.")


def bad(table: str, what: str, remedy: str) -> TempuraError:
    """The error of a reference that cannot be."""
    return TempuraError("BAD_REFERENCES", f"Table {table}: {what}.", remedy)
