"""Catalyst's logical operators as relations of the algebra."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count

from pyspark.sql import SparkSession

from tempura.algebra.expand import Expand
from tempura.algebra.generate import GENERATORS, Generate
from tempura.algebra.rel import Filter, Join, JoinKind, Opaque, Project, Rel, Scan, TopK, Union, Values, empty, keep
from tempura.algebra.scalar import Call, Column, Expr, Literal, Output, Ref, SortKey, conjunction, conjuncts
from tempura.algebra.window import Window
from tempura.errors import Reason
from tempura.frontend.aggregates import Names, lift_aggregate, over_columns, project
from tempura.frontend.catalyst import JavaObject, jvm_of
from tempura.frontend.compiled import compiled
from tempura.frontend.literals import NoPythonValueError, python_value
from tempura.frontend.narrow import why_unusable
from tempura.frontend.opaque import Recompute, take_out, whole
from tempura.frontend.scalars import ScalarLifter
from tempura.frontend.subqueries import Subqueries
from tempura.frontend.tree import Node, Tree
from tempura.frontend.unliftable import NotLiftableError
from tempura.frontend.windows import lift_functions

_JOINS: dict[str, JoinKind] = {
    "Inner": "inner", "Cross": "inner", "LeftOuter": "left", "RightOuter": "left", "FullOuter": "full",
    "LeftSemi": "semi", "LeftAnti": "anti", "ExistenceJoin": "exists", "LeftSingle": "single",
}  # fmt: skip

_REASONS = {
    "Sample": ("SAMPLE", "TABLESAMPLE"),
    "Offset": ("OFFSET", "OFFSET"),
    "Tail": ("TAIL", "the last rows"),
    "Range": ("RANGE", "the table function range"),
    "WithCTE": ("CTE", "a common table expression that cannot be inlined"),
    "CTERelationRef": ("CTE", "a common table expression that cannot be inlined"),
    "UnionLoop": ("RECURSION", "a recursive query"),
    "LateralJoin": ("LATERAL", "a lateral join"),
    "AsOfJoin": ("AS_OF_JOIN", "an AS OF join"),
    "LocalLimit": ("LOCAL_LIMIT", "a limit per partition"),
}
_TRANSPARENT = (
    "SubqueryAlias", "View", "Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint", "Subquery",
    "ReturnAnswer",
)  # fmt: skip
_BELOW_ORDER = ("WithCTE", "Project", "Filter", "GlobalLimit", "LocalLimit", "Offset", "SubqueryAlias")
_ORDER_HIDDEN = "ORDER_HIDDEN"
_NUMBERING = "RowNumber"


@dataclass(frozen=True, slots=True)
class Part:
    """A lifted operator. Its output is the first ``len(ids)`` columns of ``rel``, with Catalyst's expression ids
    ``ids``; more columns are there only because ``order`` (the order in which the rows are, if any) reads them. ``hides_order``: whether
    they are in an order of values that it does not have."""

    rel: Rel
    ids: tuple[int, ...]
    order: tuple[SortKey, ...] = ()
    hides_order: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the output."""
        return self.rel.columns[: len(self.ids)]

    @property
    def scope(self) -> dict[int, Column]:
        """Columns by expression id; a column that is there twice counts once."""
        return dict(zip(reversed(self.ids), reversed(self.columns), strict=True))

    def exact(self) -> "Part":
        """Without order, and without any column that is not part of the output."""
        return Part(keep(self.rel, self.columns), self.ids)

    def without_order(self) -> "Part":
        """Without order and its columns; when only the number of rows matters, with any columns."""
        return self.exact() if self.ids else Part(self.rel, ())

    def check_order(self, reader: str) -> None:
        """Raises NotLiftableError when the order is hidden that a ``reader`` of these rows depends on."""
        if self.hides_order:
            raise NotLiftableError(
                _ORDER_HIDDEN, f"{reader} of rows ordered by values that are not among their columns"
            )


class PlanLifter:
    """Lifts one plan. What the algebra cannot express becomes an ``Opaque``, with its reason: the operator itself, over inputs that are
    lifted. ``text`` is the query's, and distinguishes these from those of other queries; without one nothing is recomputed.
    ``comparable``: nor may a column of the result have values that cannot be compared."""

    def __init__(self, spark: SparkSession, text: str | None = None, comparable: bool = False) -> None:
        self.names = Names()
        self._spark = spark
        self._text = text
        self._comparable = comparable
        self._opaque = count(1)
        self._tree = Tree(spark)
        self._known: dict[Node, Part] = {}
        self._scalars = ScalarLifter()
        self._subqueries = Subqueries(spark, self.names, lambda plan: self.lift(self.node(plan)).exact().rel)
        self._operators: dict[str, Callable[[Node], Part]] = {
            "Project": self._project, "Filter": self._filter, "Join": self._join, "Aggregate": self._aggregate,
            "Union": self._union, "Sort": self._sort, "GlobalLimit": self._limit, "LocalRelation": self._values,
            "OneRowRelation": self._one_row, "Expand": self._expand, "Window": self._window, "Generate": self._generate,
        }  # fmt: skip

    def node(self, plan: JavaObject) -> Node:
        """A plan of Catalyst's as it can be lifted."""
        return self._tree.node(plan)

    def lift(self, node: Node) -> Part:
        """The relation of a plan. Raises NotLiftableError."""
        unusable = self._unusable_input(node) if self._comparable else None
        if unusable:
            return self.recomputed(node, unusable)
        try:
            part = self._lift(node)
        except NotLiftableError as error:
            if self._text is None or error.reason.code == "CORRELATED":
                raise  # a reference to a plan elsewhere: no part of what has been rewritten so far can be run by itself
            if error.reason.code == _ORDER_HIDDEN:
                return self.recomputed(node, error.reason)
            handle, below = take_out(self._spark, self._tree, node)
            part = self._as_it_is(node, handle, [self._lifted_before(plan) for plan in below], error.reason)
        self._known[node] = part
        return part

    def _lifted_before(self, node: Node) -> Part:
        """The relation of a plan, which an attempt to lift the operator above it may have found already."""
        return self._known.get(node) or self.lift(node)

    def recomputed(self, node: Node, why: Reason) -> Part:
        """A plan that is recomputed from its tables."""
        handle = whole(self._spark, node.handle.get())
        return self._as_it_is(node, handle, [self._lift(self.node(leaf)) for leaf in handle.inputs], why)

    def _unusable_input(self, node: Node) -> Reason | None:
        """Why an operator cannot read relations of the algebra: a column that it gets has a type that those cannot have."""
        types = compiled(self._spark, "Walk").typesRead(node.handle.get())
        return next((why for type in types if (why := why_unusable(jvm_of(self._spark), type))), None)

    def _as_it_is(self, node: Node, handle: Recompute, inputs: list[Part], why: Reason) -> Part:
        """An ``Opaque`` over its lifted inputs, with the order that it has inside as far as its columns say it."""
        attributes = self._tree.output(node)
        key = f"{self._text}\n-- {next(self._opaque)}"
        rel = Opaque(tuple(part.exact().rel for part in inputs), self._columns(attributes), key, why, handle)
        part = Part(rel, _ids(attributes))
        try:
            return replace(part, order=self.order_of(node, part))
        except NotLiftableError:
            return replace(part, hides_order=True)

    def _lift(self, node: Node) -> Part:
        if node.name in _TRANSPARENT:
            return self.lift(node.child)
        if node.name in self._operators:
            return self._operators[node.name](node)
        if node.known("table"):
            return self.scan(node, node.known("table"))
        code, text = _REASONS.get(node.name, ("UNKNOWN_OPERATOR", f"the operator {node.name}"))
        raise NotLiftableError(code, text)

    def order_of(self, node: Node, part: Part) -> tuple[SortKey, ...]:
        """The ORDER BY at the top of an analysed plan, over the columns of ``part``. Raises NotLiftableError when it
        reads others."""
        sort = sort_of(node)
        return tuple(self._sort_key(key, part.scope) for key in sort.nodes("order")) if sort else ()

    # --- leaves -----------------------------------------------------------------------------------------------------

    def scan(self, node: Node, table: str) -> Part:
        """A leaf that carries the marker."""
        attributes = node.nodes("output")
        fields = tuple(attribute.label for attribute in attributes)
        return Part(Scan(table, fields, self._columns(attributes)), _ids(attributes))

    def _values(self, node: Node) -> Part:
        attributes = node.nodes("output")
        columns = self._columns(attributes)
        rows = tuple(_row(row, columns) for row in node.rows())
        return Part(Values(columns, rows), _ids(attributes))

    def _one_row(self, node: Node) -> Part:
        return Part(Values((), ((),)), ())

    def _columns(self, attributes: list[Node]) -> tuple[Column, ...]:
        return tuple(self.names.column(a.label, a.type) for a in attributes)

    # --- operators --------------------------------------------------------------------------------------------------

    def _project(self, node: Node) -> Part:
        part = self.lift(node.child)
        nodes = node.nodes("projectList")
        if not nodes:
            return Part(part.rel, ())
        values = self._subqueries.values(nodes)
        scope = part.scope | values.scope
        results = [(n.label, self._scalars.lift(n, scope)) for n in nodes]
        return _keep_order(part, project(values.beside(part.rel), results, self.names), _ids(nodes))

    def _filter(self, node: Node) -> Part:
        part = self.lift(node.child)
        values = self._subqueries.values([node["condition"]])
        condition = self._scalars.lift(node["condition"], part.scope | values.scope)
        if not values.relations:
            return replace(part, rel=Filter(part.rel, condition))
        # What reads no sub-query is decided first, on the smaller relation.
        plain = [p for p in conjuncts(condition) if p.reads_only(part.rel.columns)]
        rest = [p for p in conjuncts(condition) if p not in plain]
        input = Filter(part.rel, conjunction(*plain)) if plain else part.rel
        return replace(part, rel=keep(Filter(values.beside(input), conjunction(*rest)), part.rel.columns))

    def _join(self, node: Node) -> Part:
        kind = node["joinType"].name
        if kind not in _JOINS:
            raise NotLiftableError("JOIN_KIND", f"a join of kind {kind}")
        left, right = (self.lift(side).exact() for side in node.children)
        condition = node.optional("condition")
        conditions = [condition] if condition else []
        values = self._subqueries.values(conditions)
        scope = left.scope | right.scope | values.scope
        on = conjunction(*(self._scalars.lift(c, scope) for c in conditions))
        left_rel = values.beside(left.rel)
        if kind == "RightOuter":
            exchanged = Join(right.rel, left_rel, "left", on)
            return Part(keep(exchanged, left.columns + right.columns), left.ids + right.ids)
        if kind == "ExistenceJoin":
            answer = node["joinType"]["exists"]
            marker = self.names.column("exists", "boolean")
            found = Join(left_rel, right.rel, "exists", on, marker)
            return Part(keep(found, (*left.columns, marker)), (*left.ids, *_ids([answer])))
        alone = kind in ("LeftSemi", "LeftAnti")
        joined = Join(left_rel, right.rel, _JOINS[kind], on)
        columns = left.columns if alone else left.columns + right.columns
        return Part(keep(joined, columns), left.ids if alone else left.ids + right.ids)

    def _aggregate(self, node: Node) -> Part:
        part = self.lift(node.child).without_order()
        results = node.nodes("aggregateExpressions")
        below, above = self._subqueries.of_aggregation(node.nodes("groupingExpressions"), results)
        scope = part.scope | below.scope
        rel = below.beside(part.rel)
        lifted = lift_aggregate(node, rel, scope, self.names, self._scalars, above.scope, above.beside)
        return Part(lifted, _ids(results))

    def _window(self, node: Node) -> Part:
        ordered = self.lift(node.child)
        part = ordered.without_order()
        partition = tuple(self._scalars.lift(e, part.scope) for e in node.nodes("partitionSpec"))
        order = tuple(self._sort_key(key, part.scope) for key in node.nodes("orderSpec"))
        functions, results = lift_functions(node, part.scope, self.names, self._scalars)
        if functions and not order and all(f.call.function == _NUMBERING for f in functions):
            # Catalyst numbers ordered rows where it makes a limit in a correlated sub-query one for each outer row.
            ordered.check_order("the numbers")
            part, order = ordered, ordered.order
        rel = Window(part.rel, partition, order, functions)
        ids = part.ids + _ids(node.nodes("windowExpressions"))
        outputs = (*(Output(c, Ref(c)) for c in part.columns), *(Output(c, e) for c, e in results))
        same = all(isinstance(e, Ref) and e.column == c for c, e in results)
        return Part(keep(rel, tuple(o.column for o in outputs)) if same else Project(rel, outputs), ids)

    def _expand(self, node: Node) -> Part:
        part = self.lift(node.child).without_order()
        projections = node["projections"]
        values = self._subqueries.values(expr for projection in projections for expr in projection)
        scope = part.scope | values.scope
        attributes = node.nodes("output")
        columns = self._columns(attributes)
        lifted = ([self._scalars.lift(expr, scope) for expr in projection] for projection in projections)
        outputs = tuple(tuple(map(Output, columns, exprs)) for exprs in lifted)
        return Part(Expand(values.beside(part.rel), outputs), _ids(attributes))

    def _generate(self, node: Node) -> Part:
        part, function = self.lift(node.child).without_order(), node["generator"]
        if function.name not in GENERATORS:
            raise NotLiftableError("GENERATE", f"not known to make rows of each row by itself: {function.sql()}")
        operands, type = self._scalars.operands(function, part.scope), function.known("elements")
        call = Call(function.name, operands, type, self._scalars.detail(function), handle=function.handle)
        attributes = node.nodes("generatorOutput")
        made = self._columns(attributes)
        ids = _ids(node.nodes("kept"))
        kept = tuple(part.scope[id] for id in ids)
        return Part(keep(Generate(part.rel, call, made, node["outer"]), kept + made), ids + _ids(attributes))

    def _union(self, node: Node) -> Part:
        parts = [self.lift(child).without_order() for child in node.children]
        columns = tuple(self.names.column(c.name, c.type) for c in parts[0].columns)
        if not columns:
            # Only the number of rows matters: a constant column, hidden because it has no expression id, keeps it.
            columns = (self.names.column("one", "int"),)
            return Part(Union(tuple(Project(p.rel, (Output(columns[0], Literal(1, "int")),)) for p in parts)), ())
        return Part(Union(tuple(_renamed(p, columns) for p in parts)), parts[0].ids)

    def _sort(self, node: Node) -> Part:
        part = self.lift(node.child)
        if not node["global"]:
            return part.exact()
        keys = node.nodes("order")
        values = self._subqueries.values(keys)
        scope = part.scope | values.scope
        order = tuple(self._sort_key(key, scope) for key in keys)
        return Part(values.beside(part.rel), part.ids, order)

    def _sort_key(self, node: Node, scope: dict[int, Column]) -> SortKey:
        ascending, nulls_first = node["direction"] == "Ascending", node["nullOrdering"] == "NullsFirst"
        return SortKey(self._scalars.lift(node.child, scope), ascending, nulls_first)

    def _limit(self, node: Node) -> Part:
        local = node.child
        if local.name != "LocalLimit":
            raise NotLiftableError(
                "OFFSET" if local.name == "Offset" else "LIMIT",
                "a limit over something else than its own local limit",
            )
        limit = min(_constant(node["limitExpr"]), _constant(local["limitExpr"]))
        part = self.lift(local.child)
        if limit <= 0:
            return Part(empty(part.columns), part.ids)
        part.check_order("the first")
        return replace(part, rel=TopK(part.rel, part.order, limit))


def sort_of(node: Node) -> Node | None:
    """The operator that orders the rows of a plan."""
    while node.name in _BELOW_ORDER:
        node = node["plan"] if node.name == "WithCTE" else node.child
    return node if node.name == "Sort" else None


def _keep_order(part: Part, rel: Rel, ids: tuple[int, ...]) -> Part:
    """``rel`` is a projection of ``part``: carry its order over, with hidden columns for what the order reads and the
    projection drops."""
    if not part.order or not isinstance(rel, Project):
        return replace(part, rel=rel, ids=ids)
    known: dict[Expr, Column] = {o.expr: o.column for o in rel.outputs if not isinstance(o.expr, Literal)}
    order = tuple(replace(key, expr=over_columns(key.expr, known)) for key in part.order)
    read = frozenset(column for key in order for column in key.expr.columns) - rel.column_set
    hidden = tuple(Output(c, Ref(c)) for c in part.rel.columns if c in read)
    return replace(part, rel=replace(rel, outputs=rel.outputs + hidden), ids=ids, order=order)


def _ids(nodes: Iterable[Node]) -> tuple[int, ...]:
    return tuple(node.id for node in nodes)


def _renamed(part: Part, columns: tuple[Column, ...]) -> Rel:
    """The rows of ``part`` as ``columns``."""
    if isinstance(part.rel, Project):
        expressions = tuple(output.expr for output in part.rel.outputs[: len(part.ids)])
        return Project(part.rel.input, tuple(Output(c, e) for c, e in zip(columns, expressions, strict=True)))
    return Project(part.rel, tuple(Output(c, Ref(o)) for c, o in zip(columns, part.columns, strict=True)))


def _constant(node: Node) -> int:
    if node.name != "Literal":
        raise NotLiftableError("LIMIT", f"a limit that is not a constant: {node.sql()}")
    return int(node["value"])


def _row(row: list[object], columns: tuple[Column, ...]) -> tuple[object, ...]:
    try:
        return tuple(python_value(value, column.type) for value, column in zip(row, columns, strict=True))
    except NoPythonValueError as error:
        raise NotLiftableError("VALUES_TYPE", f"constant rows with values of type {error}") from error
