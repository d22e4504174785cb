"""What a query must not contain, found on the analysed plan, before constants are folded; and the tables that it
reads."""

from collections.abc import Iterator

from pyspark.sql import SparkSession

from tempura.errors import TempuraError
from tempura.frontend.catalyst import JavaObject, class_of, contains, items
from tempura.frontend.marker import marked_table

_CONSTANT_LEAVES = ("OneRowRelation", "LocalRelation", "Range", "CTERelationRef", "UnionLoopRef", "ResolvedInlineTable")


def refuse_unrepeatable(spark: SparkSession, analysed: JavaObject) -> None:
    """Raise TempuraError RUN_DEPENDENT for expressions such as ``current_date()``, NONDETERMINISTIC for such as
    ``rand()``.

    Order-sensitive aggregates (FIRST, COLLECT_LIST) are no error: the query is recomputed as a whole.
    """
    if contains(spark, analysed, "CURRENT_LIKE"):
        found = next(_current_like(spark, analysed), None)
        raise TempuraError(
            "RUN_DEPENDENT",
            f"The query's answer depends on when or by whom it is run: {_sql(found)}.",
            "Write a literal in its place, for instance DATE'2025-01-31'.",
        )
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


def _expressions(analysed: JavaObject) -> Iterator[JavaObject]:
    """Every expression node of a plan and its sub-queries."""
    for plan in plans(analysed):
        stack = [plan]
        while stack:
            node = stack.pop()
            stack.extend(items(node.children()))
            for expression in items(node.expressions()):
                yield from _below(expression)


def _below(expression: JavaObject) -> Iterator[JavaObject]:
    yield expression
    for child in items(expression.children()):
        yield from _below(child)


def _current_like(spark: SparkSession, analysed: JavaObject) -> Iterator[JavaObject]:
    for node in _expressions(analysed):
        below = any(contains(spark, child, "CURRENT_LIKE") for child in items(node.children()))
        if contains(spark, node, "CURRENT_LIKE") and not below and not _holds_plan(node):
            yield node


def _nondeterministic(analysed: JavaObject) -> Iterator[JavaObject]:
    for node in _expressions(analysed):
        own = not node.deterministic() and all(child.deterministic() for child in items(node.children()))
        # A sub-query's own expressions come up by themselves; aggregates are judged when they are lifted.
        if own and ".aggregate." not in node.getClass().getName() and not _holds_plan(node):
            yield node


def _holds_plan(node: JavaObject) -> bool:
    """Whether an expression holds a plan."""
    return class_of(node) in ("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery")


def _sql(node: JavaObject | None) -> str:
    return "an expression" if node is None else str(node.sql())
