"""What the algebra cannot express, as part of a query: operators of Catalyst's that Spark runs as they are, over the rows of inputs
that are relations of the algebra."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from tempura.frontend.catalyst import PLANS, JavaObject, class_of, contains, jvm_of
from tempura.frontend.checks import expressions, leaves
from tempura.frontend.compiled import compiled
from tempura.frontend.java import each
from tempura.frontend.marker import marked_table
from tempura.frontend.tree import Node, Tree
from tempura.frontend.udf import USER_DEFINED, user_function

_READ_ORDER = ("Offset", "Tail", "GlobalLimit", "LocalLimit")
_KEEP_ORDER = (*_READ_ORDER, "Project", "Filter")
_AS_A_WHOLE = ("WithCTE", "UnionLoop", "LateralJoin")


@dataclass(frozen=True, slots=True)
class Recompute:
    """The handle of an ``Opaque``: a plan of Catalyst's. ``inputs`` are those of its leaves in whose place rows have to be put, each an
    input of the Opaque, whose columns are the leaf's attributes in order; ``tables`` the table that each input is, of a plan over
    tables."""

    plan: JavaObject = field(compare=False, repr=False)
    inputs: tuple[JavaObject, ...] = field(compare=False, repr=False)
    tables: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def answer(self, session: SparkSession, rows: Sequence[JavaObject]) -> JavaObject:
        """The plan of what Spark answers when the inputs have the rows of these plans, column by column.

        Leaves are replaced, also those of views and sub-queries: a temporary view that the user made of a DataFrame keeps the
        files that the table had then, and must not be asked.
        """
        return compiled(session, "Answers").over(session._jsparkSession, self.plan, [*self.inputs], [*rows])


def below_order(jvm: JavaObject, plan: JavaObject, limited: bool) -> JavaObject | None:
    """A plan without the ORDER BY at its top, and if ``limited`` without the limit above that. None when there is no limit at its top."""
    if class_of(plan) == "WithCTE":
        *definitions, query = each(plan.children())
        below = below_order(jvm, query, limited)
        return plan.withNewChildren(jvm.PythonUtils.toSeq([*definitions, below])) if below else None
    if limited and class_of(plan) != "GlobalLimit":
        return None
    below = plan.child().child() if limited else plan
    return below.child() if class_of(below) == "Sort" else below


# --- what is recomputed -----------------------------------------------------------------------------------------------


def whole(spark: SparkSession, node: JavaObject) -> Recompute:
    """A plan over its tables: leaves of it and of the plans in its expressions."""
    found = [(leaf, table) for leaf in leaves(spark, node) if (table := marked_table(spark, leaf))]
    return Recompute(node, tuple(leaf for leaf, _ in found), tuple(table for _, table in found))


def text_of(spark: SparkSession, plan: JavaObject) -> str:
    """A text of a plan over tables, without one of the user's: equal plans in all processes have the same, others have another. The
    session is free to be changed.

    Spark's own text leaves out details such as the mode of arithmetic, which its hash has, and constant rows. Its hash of a
    user's function is another in each process; the function's code stands in for it.
    """
    spark.conf.set("spark.sql.debug.maxToStringFields", str(2**31 - 1))
    cut, tables, rows = _Cut(spark), [], []
    replaced = getattr(jvm_of(spark), "scala.collection.immutable.HashMap")()
    for leaf in leaves(spark, plan):
        if marked_table(spark, leaf):
            tables.append(f"{marked_table(spark, leaf)} {[a.name() for a in each(leaf.output())]}")
            replaced = replaced.updated(leaf, cut.leaf(leaf))
        elif class_of(leaf) == "LocalRelation":
            rows += [row.toString() for row in each(leaf.data())]
    same = plan.transformUpWithSubqueries(replaced).canonicalized()
    functions = [user_function(e) for e in expressions(spark, plan, USER_DEFINED)]
    return "\n".join((same.toString(), *tables, *rows, *(functions or [str(same.semanticHash())])))


def take_out(spark: SparkSession, tree: Tree, node: Node) -> tuple[Recompute, list[Node]]:
    """An operator by itself, and the plans that give its inputs, which can be lifted on their own. What must stay together does: a sort
    and the limit that reads it, a recursion, an operator and the sub-queries in its expressions."""
    operator = node.handle.get()
    together = node.name in _AS_A_WHOLE or any(
        contains(spark, e, "PLAN_EXPRESSION") for e in each(operator.expressions())
    )
    if not together and node.name in _READ_ORDER:
        together = contains(spark, operator, "PLAN_EXPRESSION")
    cut = _Cut(spark)
    plan = operator if together else cut.operator(node)
    if together or not cut.inputs or not all(tree.output(input) for input in cut.below):
        made = whole(spark, operator)
        return made, [tree.node(leaf) for leaf in made.inputs]
    return Recompute(plan, tuple(cut.inputs)), cut.below


class _Cut:
    """Cuts plans off below an operator: ``below`` are the plans, ``inputs`` the leaves that stand for them."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = jvm_of(spark)
        self.below: list[Node] = []
        self.inputs: list[JavaObject] = []

    def operator(self, node: Node) -> JavaObject:
        """The operator over leaves; with the order of its input, if it reads that."""
        cut = self._ordered if node.name in _READ_ORDER else self._input
        return self._over(node, [cut(child) for child in node.children])

    def _ordered(self, node: Node) -> JavaObject:
        if node.name != "Sort" and node.name not in _KEEP_ORDER:
            return self._input(node)
        return self._over(node, [(self._input if node.name == "Sort" else self._ordered)(node.child)])

    def _input(self, node: Node) -> JavaObject:
        self.below.append(node)
        plan = node.handle.get()
        self.inputs.append(self.leaf(plan) if node.children else plan)
        return self.inputs[-1]

    def leaf(self, node: JavaObject) -> JavaObject:
        """A leaf with the columns of a plan."""
        no_rows, no_stream = self._jvm.PythonUtils.toSeq([]), self._jvm.static("scala.Option", "empty")()
        return getattr(self._jvm, f"{PLANS}.LocalRelation")(node.output(), no_rows, False, no_stream)

    def _over(self, node: Node, children: list[JavaObject]) -> JavaObject:
        plan = node.handle.get()
        return plan.withNewChildren(self._jvm.PythonUtils.toSeq(children)) if children else plan
