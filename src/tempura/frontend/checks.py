"""What a query must not contain, found on the analysed plan, before constants are folded."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from tempura.errors import TempuraError
from tempura.frontend.catalyst import JavaObject, analyse_sql, class_of, contains
from tempura.frontend.compiled import compiled
from tempura.frontend.java import each, listed
from tempura.frontend.marker import MARKER
from tempura.frontend.narrow import fields_alike, unkept

_CONSTANT_LEAVES = ("OneRowRelation", "LocalRelation", "Range", "CTERelationRef", "UnionLoopRef", "ResolvedInlineTable")

_WORDS = r"\s*(?:now|today|tomorrow|yesterday)\b"
_WORD = re.compile(_WORDS, re.IGNORECASE)
_WORD_AS_TIME = re.compile(rf"\b(?:date|timestamp(?:_ntz|_ltz)?)\s*r?(['\"]){_WORDS}[^'\"]*\1", re.IGNORECASE)
"""A typed literal whose text is a word, such as ``DATE'today'``: the parser puts the day in its place."""


def refuse_unrepeatable(spark: SparkSession, analysed: JavaObject, text: str = "") -> None:
    """Raise TempuraError RUN_DEPENDENT for expressions such as ``current_user()``, and those for the time that no clock shows;
    NONDETERMINISTIC for such as ``rand()``, and for samples. ``text`` is the query's, if it has one.

    Order-sensitive aggregates (FIRST, COLLECT_LIST) are no error: the query is recomputed as a whole.
    """
    said = next(_run_dependent(spark, analysed, text), None)
    if said:
        what = f"The query's answer depends on when or by whom it is run: {said}."
        raise TempuraError("RUN_DEPENDENT", what, "Write current_date() or current_timestamp(), or a literal.")
    if compiled(spark, "Walk").sample(analysed) is not None:
        # Spark draws by the place of a row in the files and partitions that it happens to read, REPEATABLE or not.
        raise _another_answer(
            "TABLESAMPLE, or sample() of a DataFrame, takes other rows whenever they lie in other files"
        )
    if not analysed.deterministic():
        for node in _nondeterministic(spark, analysed):
            raise _another_answer(_sql(node))


def _another_answer(why: str) -> TempuraError:
    return TempuraError(
        "NONDETERMINISTIC",
        f"The query gives another answer each time it is run: {why}.",
        "Compute such values when rows arrive and store them in a table.",
    )


def refuse_variable(spark: SparkSession, error: TempuraError) -> None:
    """Raise TempuraError RUN_DEPENDENT where a query's ``error`` is that it names a column that is not there, and the user's session has a
    variable of that name. Copies of the session, in which queries are read, have none: a query is kept, and asked by other processes, and
    a variable has a value in one session, as long as that lasts."""
    cause = error.__cause__
    if error.code != "UNKNOWN_COLUMN" or not isinstance(cause, PySparkException):
        return
    name = (cause.getMessageParameters() or {}).get("objectName")
    if name and _is_variable(spark, name):
        what = f"The query's answer depends on when or by whom it is run: {name} is a variable of the session."
        remedy = (
            "Write its value as a literal; or keep the value in a table of one row, whose changes the query follows."
        )
        raise TempuraError("RUN_DEPENDENT", what, remedy) from error


def _is_variable(spark: SparkSession, name: str) -> bool:
    """Whether a name, as SQL spells it, is that of a variable: where there is no table, no column has it."""
    try:
        return bool(expressions(spark, analyse_sql(spark, f"SELECT {name}"), ("VariableReference",)))
    except TempuraError:
        return False


def refuse_other_sources(spark: SparkSession, analysed: JavaObject) -> None:
    """Raise TempuraError UNKNOWN_SOURCE for a source that is not a table of the warehouse: changes of it would go unnoticed."""
    leaf = compiled(spark, "Walk").otherSource(analysed, MARKER, "\n".join(_CONSTANT_LEAVES))
    if leaf is not None:
        raise TempuraError(
            "UNKNOWN_SOURCE",
            f"The query reads {leaf.simpleString(25)}, which is not a table of the warehouse.",
            "Add it as a table, and build DataFrame queries from wh.table(...).df().",
        )


def refuse_unreadable(schema: Mapping[str, Any]) -> None:
    """Raise TempuraError FIELDS_ALIKE for a result, by its schema in JSON, that Spark would write into files and not read from them."""
    for column in schema["fields"]:
        if alike := fields_alike(column["type"]):
            what = f"Column {column['name']} of the result has a struct with two fields {alike}, but for upper and lower case: it could not"
            # Functions such as arrays_zip name fields themselves, by what they are given.
            remedy = f"Name them apart: CAST(… AS {_named_apart(StructField.fromJson(dict(column)).dataType)})."
            raise TempuraError("FIELDS_ALIKE", f"{what} be read from files.", remedy)


def _named_apart(type: DataType) -> str:
    """The text of a type in which no two fields of a struct have one name, of the same values."""
    match type:
        case StructType():
            fields: dict[str, str] = {}
            for field in type.fields:
                name, n = field.name, 1
                while name.lower() in fields:
                    n += 1
                    name = f"{field.name}_{n}"
                quoted = name if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) else f"`{name.replace('`', '``')}`"
                fields[name.lower()] = f"{quoted}: {_named_apart(field.dataType)}"
            return f"STRUCT<{', '.join(fields.values())}>"
        case ArrayType():
            return f"ARRAY<{_named_apart(type.elementType)}>"
        case MapType():
            return f"MAP<{_named_apart(type.keyType)}, {_named_apart(type.valueType)}>"
    return type.simpleString().upper()


def refuse_unkept(names: Sequence[str], types: Sequence[str]) -> None:
    """Raise TempuraError UNSUPPORTED_TYPE for a result with a column of which no values are kept."""
    for name, type in zip(names, types, strict=True):
        if found := unkept(type):
            what = f"Column {name} of the result is of type {type}: values of {found} are kept in no file."
            raise TempuraError("UNSUPPORTED_TYPE", what, "Cast it: CAST(… AS STRING).")


def leaves(spark: SparkSession, analysed: JavaObject) -> list[JavaObject]:
    """The leaves of a plan and of its sub-queries."""
    return listed(compiled(spark, "Walk").leaves(analysed))


def expressions(spark: SparkSession, analysed: JavaObject, classes: Sequence[str] = ()) -> list[JavaObject]:
    """The expression nodes of a plan and its sub-queries; those of some classes, by their simple names."""
    walk = compiled(spark, "Walk")
    return listed(walk.expressions(analysed, "\n".join(classes)) if classes else walk.expressions(analysed))


def time_dependent(spark: SparkSession, analysed: JavaObject) -> Iterator[JavaObject]:
    """The expressions of a plan and its sub-queries that mean when, by whom or in which session it is run."""
    found = listed(compiled(spark, "Walk").innermost(analysed, "CURRENT_LIKE"))
    return (node for node in found if not _holds_plan(node))


def _run_dependent(spark: SparkSession, analysed: JavaObject, text: str) -> Iterator[str]:
    """What depends on the run, as SQL: expressions, and words in the place of a time, which Spark reads when it parses or optimises."""
    if contains(spark, analysed, "CURRENT_LIKE"):
        yield _sql(next(time_dependent(spark, analysed), None))
    for source in (text, *listed(compiled(spark, "Walk").viewTexts(analysed))):
        yield from (found[0] for found in _WORD_AS_TIME.finditer(source))
    if compiled(spark, "Walk").hasTimeWords(analysed):
        casts = (node for node in expressions(spark, analysed, ("Cast",)) if node.child().foldable())
        yield from (_sql(node) for node in casts if _WORD.match(str(node.child().eval(None))))


def _nondeterministic(spark: SparkSession, analysed: JavaObject) -> Iterator[JavaObject]:
    for node in expressions(spark, analysed):
        own = not node.deterministic() and all(child.deterministic() for child in each(node.children()))
        # A sub-query's own expressions come up by themselves; aggregates are judged when they are lifted.
        if own and ".aggregate." not in node.getClass().getName() and not _holds_plan(node):
            yield node


def _holds_plan(node: JavaObject) -> bool:
    """Whether an expression holds a plan."""
    return class_of(node) in ("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery")


def _sql(node: JavaObject | None) -> str:
    return "an expression" if node is None else str(node.sql())
