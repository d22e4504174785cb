"""What SQL can say of a column beside its type, and no row of a table is held to: NOT NULL, and how long a text may be."""

import re
from collections.abc import Iterator

from pyspark.sql.types import ArrayType, CharType, DataType, MapType, StructType, VarcharType

from tempura.errors import TempuraError

_SAYS = re.compile(r"\bNOT\s+NULL\b|\b(?:VAR)?CHAR(?:ACTER)?\s*\(", re.IGNORECASE)


def may_limit(ddl: str) -> bool:
    """Whether a text of columns may say such a thing. Spark is asked about those that do, and about no others: a command that only looks
    starts none."""
    return bool(_SAYS.search(ddl))


def refuse_limits(schema: StructType, written: bool, plain: str) -> None:
    """Raise TempuraError BAD_SCHEMA for columns with limits; ``plain`` is what they are without. That a column is not NULL counts only
    where somebody has ``written`` it: of a DataFrame's schema it says what its rows happen to be."""
    found = list(_limits(schema, "", written))
    if found:
        what = f"Rows are held to no {', '.join(found)}: any column may be NULL, and texts are of any length."
        raise TempuraError("BAD_SCHEMA", what, f"Write {plain}, and look at rows before they arrive, or in the query.")


def _limits(type: DataType, name: str, nulls: bool) -> Iterator[str]:
    match type:
        case StructType():
            for field in type.fields:
                inner = f"{name}.{field.name}".lstrip(".")
                if nulls and not field.nullable:
                    yield f"NOT NULL ({inner})"
                yield from _limits(field.dataType, inner, nulls)
        case ArrayType():
            yield from _limits(type.elementType, name, nulls)
        case MapType():
            yield from _limits(type.keyType, name, nulls)
            yield from _limits(type.valueType, name, nulls)
        case CharType() | VarcharType():
            yield f"{type.simpleString().upper()} ({name})"
