"""What SQL says about a result whose rows depend on ties, by Spark's own plan of the query as it was written.

:mod:`~tempura.warehouse.spark.determined` says the same of a relation of the algebra. A check that went by that alone would take for open
what the relation has lost: an order, of which a limit takes the first rows. This walks the analysed plan, and knows nothing of how queries
are lifted. Columns are told by Catalyst's ids of expressions.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pyspark.sql import SparkSession

from tempura.algebra.scalar import AggregateCall
from tempura.algebra.window import BY_PEERS, ENDS, RANKS
from tempura.frontend.catalyst import JavaObject
from tempura.frontend.tree import Node, Some, Tree
from tempura.rules.helpers import picks_by_order

Ids = frozenset[int]

_NOTHING: Ids = frozenset()
_OPEN: Ids = frozenset((-1,))
"""What an expression reads whose value is open itself: no column, so that no set has it."""

_SAME_ROWS = ("SubqueryAlias", "View", "ResolvedHint", "ReturnAnswer", "Subquery")
_OTHER_ORDER = ("Repartition", "RepartitionByExpression", "RebalancePartitions")
_TAKES_BY_ORDER = ("GlobalLimit", "LocalLimit", "Offset", "Tail")
_KEEPS_LEFT = ("LeftSemi", "LeftAnti")


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Columns of ordered rows that are determined as a bag, and those of them that the order goes by: these are determined of the first
    rows, too."""

    bag: Ids
    keys: Ids


def determined_places(session: SparkSession, plan: JavaObject) -> tuple[frozenset[int], ...]:
    """Sets of columns of a plan, by their places, each so that the bag projected to it (to none: the number of rows) is determined."""
    walk = _Walk(Tree(session))
    node = walk.tree.node(plan)
    output, sets = walk.output(node), walk.sets(node)
    return tuple(dict.fromkeys(frozenset(i for i, id in enumerate(output) if id in ids) for ids in sets))


def is_determined_plan(session: SparkSession, plan: JavaObject) -> bool:
    """Whether all columns of a plan are determined together."""
    width = plan.output().size()
    return frozenset(range(width)) in determined_places(session, plan)


@dataclass(frozen=True, slots=True)
class _Walk:
    """The sets of the operators of some plans; what is not known is determined if all that it reads is."""

    tree: Tree
    _definitions: dict[int, tuple[list[int], list[Ids]]] = field(default_factory=dict)
    _known: dict[Node, list[Ids]] = field(default_factory=dict)

    def output(self, node: Node) -> list[int]:
        """The columns that an operator gives."""
        return [attribute.id for attribute in self.tree.output(node)]

    def sets(self, node: Node) -> list[Ids]:
        """The sets of an operator's result: none where not even the number of rows is determined."""
        if node not in self._known:
            self._known[node] = _largest(self._sets(node))
        return self._known[node]

    def _sets(self, node: Node) -> Iterable[Ids]:
        of: dict[str, Callable[[Node], Iterable[Ids]]] = {
            "Project": self._project, "Filter": self._filter, "Join": self._join, "Union": self._union, "Aggregate": self._aggregate,
            "Expand": self._expand, "Window": self._window, "Generate": self._generate, "WithCTE": self._with,
            "CTERelationRef": self._reference, "CTERelationDef": lambda n: self.sets(n.child),
        }  # fmt: skip
        if node.name in _TAKES_BY_ORDER:
            return [rows.keys for rows in self._ordered(node.child)]
        if node.name in (*_SAME_ROWS, *_OTHER_ORDER, "Sort"):
            return self.sets(node.child)
        return of.get(node.name, self._other)(node)

    def _ordered(self, node: Node) -> list[_Ordered]:
        """The sets of ordered rows, with what their order goes by: that of a sort, which a limit above it reads."""
        match node.name:
            case "Sort" if node["global"]:
                order = [key.child for key in node.nodes("order")]
                keys = self._with_values_of(node.child, _plain(order))
                return [_Ordered(bag, keys & bag) for bag in self.sets(node.child) if self._read(*order) <= bag]
            case "Project":
                results = [(result.id, self._read(result)) for result in node.nodes("projectList")]
                return [
                    _Ordered(*(frozenset(id for id, read in results if read <= ids) for ids in (rows.bag, rows.keys)))
                    for rows in self._ordered(node.child)
                ]
            case "Filter":
                read = self._read(node["condition"])
                return [rows for rows in self._ordered(node.child) if read <= rows.bag]
            case name if name in _TAKES_BY_ORDER:
                return [_Ordered(rows.keys, rows.keys) for rows in self._ordered(node.child)]
            case name if name in _SAME_ROWS:
                return self._ordered(node.child)
        return [_Ordered(bag, _NOTHING) for bag in self.sets(node)]

    def _with_values_of(self, node: Node, keys: Ids) -> Ids:
        """Columns of rows, and those that are computed of them alone: what is sorted by and selected under another name is there twice."""
        while node.name in _SAME_ROWS:
            node = node.child
        if node.name != "Project":
            return keys
        results = node.nodes("projectList")
        same = _plain(results) & keys
        return keys | frozenset(result.id for result in results if self._read(result) <= same)

    # --- operators --------------------------------------------------------------------------------------------------

    def _project(self, node: Node) -> Iterator[Ids]:
        results = [(result.id, self._read(result)) for result in node.nodes("projectList")]
        for bag in self.sets(node.child):
            yield frozenset(id for id, read in results if read <= bag)

    def _filter(self, node: Node) -> list[Ids]:
        read = self._read(node["condition"])
        return [bag for bag in self.sets(node.child) if read <= bag]

    def _join(self, node: Node) -> Iterator[Ids]:
        condition = node.optional("condition")
        read = self._read(condition) if condition else _NOTHING
        for left, right in product(*map(self.sets, node.children)):
            if read <= left | right:
                yield left if node["joinType"].name in _KEEPS_LEFT else left | right

    def _union(self, node: Node) -> Iterator[Ids]:
        output, inputs = self.output(node), [self.output(child) for child in node.children]
        for bags in product(*map(self.sets, node.children)):
            alike = (all(ids[i] in bag for ids, bag in zip(inputs, bags, strict=True)) for i, _ in enumerate(output))
            yield frozenset(id for id, is_known in zip(output, alike, strict=True) if is_known)

    def _aggregate(self, node: Node) -> Iterator[Ids]:
        groups = self._read(*node.nodes("groupingExpressions"))
        results = [(result.id, self._read(result)) for result in node.nodes("aggregateExpressions")]
        for bag in self.sets(node.child):
            if groups <= bag:
                yield frozenset(id for id, read in results if read <= bag)

    def _expand(self, node: Node) -> Iterator[Ids]:
        columns = list(zip(*node["projections"], strict=True))
        results = [(a.id, self._read(*exprs)) for a, exprs in zip(node.nodes("output"), columns, strict=True)]
        for bag in self.sets(node.child):
            yield frozenset(id for id, read in results if read <= bag)

    def _window(self, node: Node) -> Iterator[Ids]:
        """All but what depends on ties; or what is a function of the sort keys and the place of a row, whichever row it is."""
        order = [*node.nodes("partitionSpec"), *(key.child for key in node.nodes("orderSpec"))]
        results = [(result.id, self._read(result)) for result in node.nodes("windowExpressions")]
        places = frozenset(result.id for result in node.nodes("windowExpressions") if _is_place(result))
        for bag in self.sets(node.child):
            if self._read(*order) <= bag:
                free = frozenset(id for id, read in results if read <= bag)
                yield bag | free
                yield _plain(order) | free | places

    def _generate(self, node: Node) -> Iterator[Ids]:
        read, made = self._read(node["generator"]), frozenset(a.id for a in node.nodes("generatorOutput"))
        return (bag | made for bag in self.sets(node.child) if read <= bag)

    def _with(self, node: Node) -> list[Ids]:
        *definitions, query = node.children
        for definition in definitions:
            self._definitions[definition["id"]] = self.output(definition.child), self.sets(definition.child)
        return self.sets(query)

    def _reference(self, node: Node) -> Iterator[Ids]:
        own = self.output(node)
        output, sets = self._definitions.get(node["cteId"], (own, [frozenset(own)]))
        return (frozenset(id for id, at in zip(own, output, strict=True) if at in bag) for bag in sets)

    def _other(self, node: Node) -> list[Ids]:
        whole = all(self._is_whole(child) for child in node.children)
        below = {id(child) for child in node.children}
        exprs = [found for found in _nodes_of(node) if id(found) not in below]
        return [frozenset(self.output(node))] if whole and not self._read(*exprs) & _OPEN else []

    def _is_whole(self, node: Node) -> bool:
        output = frozenset(self.output(node))
        return any(output <= bag for bag in self.sets(node))

    # --- expressions ------------------------------------------------------------------------------------------------

    def _read(self, *exprs: Node) -> Ids:
        """The columns that expressions read."""
        return _NOTHING.union(*map(self._read_by, exprs))

    def _read_by(self, expr: Node) -> Ids:
        below = self._read(*expr.children)
        if "PlanExpression" in expr.form.traits:
            plan = self.tree.node(expr.handle.get().plan())
            # Whether there is a row says their number; all else is in the columns.
            is_known = bool(self.sets(plan)) if expr.name == "Exists" else self._is_whole(plan)
            return below if is_known else below | _OPEN
        match expr.name:
            case "AttributeReference":
                return below | {expr.id}
            case "AggregateExpression" if _picks(expr["aggregateFunction"]):
                return below | _OPEN
            case "WindowExpression" if _depends_on_ties(expr):
                return below | _OPEN
        return below


def _plain(exprs: Iterable[Node]) -> Ids:
    """The expressions that are columns as they are. Which of several collated values that compare as equal comes is open."""
    return frozenset(e.id for e in exprs if e.name == "AttributeReference" and " collate " not in e.type)


def _picks(function: Node) -> bool:
    return picks_by_order(AggregateCall(function.name, (), "double"))


def _depends_on_ties(expr: Node) -> bool:
    """Whether a window function's value depends on the order of rows that ORDER BY cannot tell apart."""
    function, frame = expr["windowFunction"], expr["windowSpec"]["frameSpecification"]
    if function.name != "AggregateExpression":
        return function.name not in BY_PEERS
    if function["aggregateFunction"].name in ENDS or _picks(function["aggregateFunction"]):
        return True
    is_whole = (frame["lower"].name, frame["upper"].name) == ("UnboundedPreceding", "UnboundedFollowing")
    return frame["frameType"] == "RowFrame" and not is_whole


def _is_place(result: Node) -> bool:
    """Whether a column of a window is the place of a row."""
    return result.child.name == "WindowExpression" and result.child["windowFunction"].name in RANKS


def _nodes_of(node: Node) -> Iterator[Node]:
    """The nodes among an operator's arguments."""
    for argument in node.form.arguments:
        yield from _nodes_in(node[argument])


def _nodes_in(value: Any) -> Iterator[Node]:
    match value:
        case Node():
            yield value
        case Some(value=inner):
            yield from _nodes_in(inner)
        case list():
            for element in value:
                yield from _nodes_in(element)


def _largest(found: Iterable[Ids]) -> list[Ids]:
    """Without those that are part of others."""
    distinct = list(dict.fromkeys(found))
    return [a for a in distinct if not any(a < b for b in distinct)]
