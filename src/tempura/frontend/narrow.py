"""Scans that read only the columns that the query uses."""

import json
import re
from dataclasses import replace
from typing import Any

from tempura.algebra.rel import Opaque, Project, Rel, Scan, Values
from tempura.algebra.scalar import Column, Ref, substitute
from tempura.errors import Reason
from tempura.frontend.catalyst import JavaObject
from tempura.frontend.literals import jvm_type

_UNCOMPARABLE = re.compile(r"(?:^|[<:,])(map<|variant(?![\w:])|interval(?![\w: ]))")
_UNKEPT = re.compile(r"(?:^|[<:,])(struct<>|time\(\d\)|geometry\(\w+\)|geography\(\w+\))")


def narrow(rel: Rel) -> Rel:
    """The same relation: scans without unused columns, and no projection that changes nothing. A scan keeps one column
    at least."""
    used = rel.column_set.union(*(_read(r) for r in rel.walk()))
    return _narrow(rel, used)


def _narrow(rel: Rel, used: frozenset[Column]) -> Rel:
    if isinstance(rel, Scan):
        kept = [(f, c) for f, c in zip(rel.fields, rel.outputs, strict=True) if c in used]
        # Formats without columns exist (Parquet is none): a relation has one at least.
        kept = kept or [(rel.fields[0], rel.outputs[0])]
        return replace(rel, fields=tuple(f for f, _ in kept), outputs=tuple(c for _, c in kept))
    if isinstance(rel, Values):
        positions = [i for i, c in enumerate(rel.outputs) if c in used]
        return Values(
            tuple(rel.outputs[i] for i in positions), tuple(tuple(row[i] for i in positions) for row in rel.rows)
        )
    result = rel.with_inputs(*(_narrow(input, used) for input in rel.inputs))
    return _collapse(result) if isinstance(result, Project) else result


def _collapse(rel: Project) -> Rel:
    """A projection without one below that only moves columns; its input when it changes nothing."""
    below = rel.input
    if isinstance(below, Project) and all(isinstance(o.expr, Ref) for o in below.outputs):
        moved = {o.column: o.expr for o in below.outputs}
        outputs = tuple(replace(o, expr=substitute(o.expr, moved)) for o in rel.outputs)
        return _collapse(Project(below.input, outputs))
    same = all(isinstance(o.expr, Ref) and o.expr.column == o.column for o in rel.outputs)
    return below if same and rel.columns == below.columns else rel


def _read(rel: Rel) -> frozenset[Column]:
    """The columns that an operator's own expressions read."""
    if isinstance(rel, Opaque):
        return frozenset().union(*(i.columns for i in rel.inputs))
    return frozenset().union(*(expr.columns for expr in rel.computed))


def why_not_storable(jvm: JavaObject, rel: Rel) -> Reason | None:
    """Why a relation cannot be maintained: a column's type. Tables are exempt that Spark alone reads."""
    inside = {i for r in rel.walk() if isinstance(r, Opaque) for i in r.inputs if isinstance(i, Scan)}
    types = sorted({column.type for r in rel.walk() if r not in inside for column in r.columns})
    return next((why for type in types if (why := why_unusable(jvm, type))), None)


def why_unusable(jvm: JavaObject, type: str) -> Reason | None:
    """Why the algebra has no columns of a type: values cannot be compared, or the type has no text that Spark reads back."""
    if _UNCOMPARABLE.search(type):
        return Reason("UNCOMPARABLE_TYPE", f"values of type {type} cannot be compared or grouped")
    if unkept(type):
        return Reason("UNSUPPORTED_TYPE", f"values of type {unkept(type)} are kept in no file")
    if "<" in type and not _is_readable(jvm, type):
        return Reason("TYPE_TEXT", f"the type {type} has field names that its text cannot spell")
    if "struct<" in type and fields_alike(json.loads(jvm_type(jvm, type).json())):
        return Reason("FIELDS_ALIKE", f"the type {type} has a struct with two fields of one name, which no file keeps")
    return None


def unkept(type: str) -> str | None:
    """The type in a type of which Spark keeps no values in files, or none that Tempura reads back; None when there is none."""
    found = _UNKEPT.search(type)
    return found[1] if found else None


def fields_alike(type: Any) -> str | None:
    """The name that two fields of a struct have in a type, as Spark tells it in JSON, but for upper and lower case; None when there is
    none. Spark cannot read from a file what it has written of it."""
    match type:
        case {"type": "struct", "fields": fields}:
            seen: set[str] = set()
            for name in (str(field["name"]).lower() for field in fields):
                if name in seen:
                    return name
                seen.add(name)
            return next(filter(None, (fields_alike(field["type"]) for field in fields)), None)
        case {"type": "array", "elementType": element}:
            return fields_alike(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return fields_alike(key) or fields_alike(value)
    return None


def _is_readable(jvm: JavaObject, type: str) -> bool:
    try:
        return bool(jvm_type(jvm, type).catalogString() == type)
    except Exception:  # Spark's parse error, whichever class it has in this version
        return False
