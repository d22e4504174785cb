"""Scalar sub-queries inside expressions: the relation of each is put beside the operator's input, and the expression reads its
column. Correlated ones have become joins in Catalyst before."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from tempura.algebra.canonical import canonical_text
from tempura.algebra.one import beside, one
from tempura.algebra.rel import Project, Rel
from tempura.algebra.scalar import Column, Output, Ref
from tempura.frontend.aggregates import Names
from tempura.frontend.catalyst import JavaObject, optimise
from tempura.frontend.tree import Node

_FUNCTION, _SUBQUERY = "AggregateExpression", "ScalarSubquery"

LiftPlan = Callable[[JavaObject], Rel]
"""The relation of an optimised plan, with exactly the columns of its output."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values that some expressions read: relations of one row, and the column of each sub-query by its expression id."""

    relations: tuple[Rel, ...] = ()
    scope: dict[int, Column] = field(default_factory=dict)

    def beside(self, rel: Rel) -> Rel:
        """``rel`` with the columns of all values."""
        for value in self.relations:
            rel = beside(rel, value)
        return rel


class Subqueries:
    """Lifts the sub-queries of one plan. Equal ones share one relation, under new columns for each operator that reads it."""

    def __init__(self, spark: SparkSession, names: Names, lift: LiftPlan) -> None:
        self._spark = spark
        self._names = names
        self._lift = lift
        self._known: dict[str, Rel] = {}

    def values(self, nodes: Iterable[Node]) -> Values:
        """What the expressions of one operator read. Raises NotLiftableError."""
        return self._values(found for node in nodes for found in self._in(node))

    def of_aggregation(self, keys: Iterable[Node], results: Iterable[Node]) -> tuple[Values, Values]:
        """What is read below an aggregation, by its keys and by the arguments of its functions; and above, by results beside its
        functions."""
        found = [inner for node in results for inner in self._in(node, stop=_FUNCTION)]
        functions = [node for node in found if node.name == _FUNCTION]
        return self.values([*keys, *functions]), self._values(node for node in found if node.name != _FUNCTION)

    def _values(self, subqueries: Iterable[Node]) -> Values:
        relations: dict[Rel, Rel] = {}
        scope: dict[int, Column] = {}
        for subquery in subqueries:
            if subquery.id not in scope:
                rel = self._relation(subquery)
                if rel not in relations:
                    relations[rel] = self._renamed(rel)
                scope[subquery.id] = relations[rel].columns[0]
        return Values(tuple(relations.values()), scope)

    def _relation(self, subquery: Node) -> Rel:
        rel = one(self._lift(optimise(self._spark, subquery.handle.get().plan())))
        return self._known.setdefault(canonical_text(rel), rel)

    def _renamed(self, rel: Rel) -> Rel:
        (column,) = rel.columns
        return Project(rel, (Output(self._names.column(column.name, column.type), Ref(column)),))

    def _in(self, node: Node, stop: str = "") -> Iterator[Node]:
        """The sub-queries in an expression, and the outermost expressions of class ``stop`` that hold some, as they are."""
        if node.name == _SUBQUERY or (node.name == stop and node.holds(_SUBQUERY)):
            yield node
        else:
            for child in node.children:
                yield from self._in(child, stop)
