"""What a query must not contain, found on the analysed plan, before constants are folded; and the tables that it
reads."""

import re
from collections.abc import Iterator

from pyspark.sql import SparkSession

from tempura.errors import TempuraError
from tempura.frontend.catalyst import JavaObject, class_of, contains, items, jvm_of
from tempura.frontend.marker import marked_table

_CONSTANT_LEAVES = ("OneRowRelation", "LocalRelation", "Range", "CTERelationRef", "UnionLoopRef", "ResolvedInlineTable")

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_WORDS = r"\s*(?:now|today|tomorrow|yesterday)\b"
_WORD = re.compile(_WORDS, re.IGNORECASE)
_WORD_AS_TIME = re.compile(rf"\b(?:date|timestamp(?:_ntz|_ltz)?)\s*r?(['\"]){_WORDS}[^'\"]*\1", re.IGNORECASE)
"""A typed literal whose text is a word, such as ``DATE'today'``: the parser puts the day in its place."""


def refuse_unrepeatable(spark: SparkSession, analysed: JavaObject, text: str = "") -> None:
    """Raise TempuraError RUN_DEPENDENT for expressions such as ``current_user()``, and those for the time that no clock shows;
    NONDETERMINISTIC for such as ``rand()``. ``text`` is the query's, if it has one.

    Order-sensitive aggregates (FIRST, COLLECT_LIST) are no error: the query is recomputed as a whole.
    """
    said = next(_run_dependent(spark, analysed, text), None)
    if said:
        what = f"The query's answer depends on when or by whom it is run: {said}."
        raise TempuraError("RUN_DEPENDENT", what, "Write current_date() or current_timestamp(), or a literal.")
    if not analysed.deterministic():
        for node in _nondeterministic(analysed):
            raise TempuraError(
                "NONDETERMINISTIC",
                f"The query gives another answer each time it is run: {_sql(node)}.",
                "Compute such values when rows arrive and store them in a table.",
            )


def tables_read(analysed: JavaObject) -> dict[str, JavaObject]:
    """The tables that a plan and its sub-queries read, each with one leaf, in order of first occurrence.

    Raises TempuraError UNKNOWN_SOURCE for a source that is not a table of the warehouse: changes of it would go
    unnoticed.
    """
    found: dict[str, JavaObject] = {}
    for plan in plans(analysed):
        for leaf in items(plan.collectLeaves()):
            table = marked_table(leaf)
            if table is not None:
                found.setdefault(table, leaf)
            elif class_of(leaf) not in _CONSTANT_LEAVES:
                raise TempuraError(
                    "UNKNOWN_SOURCE",
                    f"The query reads {leaf.simpleString(25)}, which is not a table of the warehouse.",
                    "Add it as a table, and build DataFrame queries from wh.table(...).df().",
                )
    return found


def plans(analysed: JavaObject) -> Iterator[JavaObject]:
    """A plan and those of its sub-queries."""
    yield analysed
    yield from items(analysed.subqueriesAll())


def expressions(analysed: JavaObject) -> Iterator[JavaObject]:
    """Every expression node of a plan and its sub-queries."""
    for plan in plans(analysed):
        for node in _operators(plan):
            for expression in items(node.expressions()):
                yield from _below(expression)


def _operators(plan: JavaObject) -> Iterator[JavaObject]:
    stack = [plan]
    while stack:
        node = stack.pop()
        stack.extend(items(node.children()))
        yield node


def _below(expression: JavaObject) -> Iterator[JavaObject]:
    yield expression
    for child in items(expression.children()):
        yield from _below(child)


def time_dependent(spark: SparkSession, analysed: JavaObject) -> Iterator[JavaObject]:
    """The expressions of a plan and its sub-queries that mean when, by whom or in which session it is run."""
    for node in expressions(analysed):
        below = any(contains(spark, child, "CURRENT_LIKE") for child in items(node.children()))
        if contains(spark, node, "CURRENT_LIKE") and not below and not _holds_plan(node):
            yield node


def _run_dependent(spark: SparkSession, analysed: JavaObject, text: str) -> Iterator[str]:
    """What depends on the run, as SQL: expressions, and words in the place of a time, which Spark reads when it parses or optimises."""
    if contains(spark, analysed, "CURRENT_LIKE"):
        yield _sql(next(time_dependent(spark, analysed), None))
    for source in (text, *_view_texts(analysed)):
        yield from (found[0] for found in _WORD_AS_TIME.finditer(source))
    rule = getattr(jvm_of(spark), f"{_OPTIMIZER}.SpecialDatetimeValues$").__getattr__("MODULE$")
    if any(not rule.apply(plan).fastEquals(plan) for plan in plans(analysed)):
        casts = (node for node in expressions(analysed) if class_of(node) == "Cast" and node.child().foldable())
        yield from (_sql(node) for node in casts if _WORD.match(str(node.child().eval(None))))


def _view_texts(analysed: JavaObject) -> Iterator[str]:
    for plan in plans(analysed):
        for node in _operators(plan):
            if class_of(node) == "View" and node.desc().viewText().isDefined():
                yield str(node.desc().viewText().get())


def _nondeterministic(analysed: JavaObject) -> Iterator[JavaObject]:
    for node in expressions(analysed):
        own = not node.deterministic() and all(child.deterministic() for child in items(node.children()))
        # A sub-query's own expressions come up by themselves; aggregates are judged when they are lifted.
        if own and ".aggregate." not in node.getClass().getName() and not _holds_plan(node):
            yield node


def _holds_plan(node: JavaObject) -> bool:
    """Whether an expression holds a plan."""
    return class_of(node) in ("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery")


def _sql(node: JavaObject | None) -> str:
    return "an expression" if node is None else str(node.sql())
