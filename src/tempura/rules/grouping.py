"""Aggregation before a join, once and for all: what the literature calls invariant grouping (Chaudhuri and Shim, VLDB 1994; Yan and Larson,
VLDB 1995). Where all rows of a group meet one row of a relation, or none, that relation may come after the aggregation.

In contrast to a split (``rules/eager.py``) nothing is added up twice, so there need be no room for that, and the state is that of the one
aggregation, without what the relation has to say about its groups.
"""

from dataclasses import dataclass
from functools import cached_property

from tempura.algebra.equalities import equated
from tempura.algebra.failing import call_can_fail, can_fail
from tempura.algebra.multi_join import connects
from tempura.algebra.scalar import TRUE, AggregateOutput, Column, Expr, Output, Ref, conjunction, conjuncts
from tempura.algebra.sql_order import equality_is_identity
from tempura.algebra.states import has_exact_state
from tempura.rules.dsl import LOGICAL, Aggs, Always, Expected, Keys, OnAll, Rewrite, Rule, Sides, rewrite, rule
from tempura.rules.helpers import joined, read_by
from tempura.rules.parts import repeats_do_not_count
from tempura.tvr.tvr import Tvr


@dataclass(frozen=True)
class Grouped:
    """An aggregation above the join of T with others, as one of the ``rest`` by the columns of it that are read above, which T then joins
    ``by`` a condition."""

    T: Tvr
    others: tuple[Tvr, ...]
    by: Expr
    on: Expr
    keys: tuple[Output, ...]
    aggs: tuple[AggregateOutput, ...]

    @staticmethod
    def of(
        T: Tvr, others: tuple[Tvr, ...], on: Expr, keys: tuple[Output, ...], aggs: tuple[AggregateOutput, ...]
    ) -> "Grouped":
        reads_T = [not part.columns.isdisjoint(T.columns) for part in conjuncts(on)]
        by, rest = (
            conjunction(*(part for part, reads in zip(conjuncts(on), reads_T, strict=True) if reads == whose))
            for whose in (True, False)
        )
        return Grouped(T, others, by, rest, keys, aggs)

    @cached_property
    def rest(self) -> Tvr:
        if len(self.others) > 1:
            return joined(self.others, self.on)
        return self.others[0] if self.on == TRUE else self.others[0].filter(self.on)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        read = self.by.columns | read_by(self.keys)
        return tuple(column for other in self.others for column in other.columns if column in read)

    @cached_property
    def pairs(self) -> list[tuple[Column, Column]]:
        """The columns of T and of the rest that are equal where a row of T is met."""
        found = (pair for part in conjuncts(self.by) if (pair := equated(part)))
        return [pair for pair in found if len(set(pair) & set(self.T.columns)) == 1]

    @property
    def matched(self) -> tuple[Column, ...]:
        """The columns of T by whose values its row is found."""
        return tuple(c for c in self.T.columns if any(c in pair for pair in self.pairs))

    @cached_property
    def of_one(self) -> dict[Column, Expr]:
        """The aggregates of T, as values of its one row."""
        read = ((a, a.call) for a in self.aggs if a.call.columns and a.call.columns <= frozenset(self.T.columns))
        return {
            a.column: call.operands[0]
            for a, call in read
            if repeats_do_not_count(call) and call.filter is None and call.operands[0].type == call.type
        }

    @cached_property
    def own(self) -> tuple[AggregateOutput, ...]:
        return tuple(a for a in self.aggs if a.column not in self.of_one)

    def before_join(self) -> Tvr:
        """The groups of the rest, and then T."""
        groups = self.rest.aggregate(tuple(Output(c, Ref(c)) for c in self.columns), self.own)
        values = tuple(Output(a.column, self.of_one.get(a.column, Ref(a.column))) for a in self.aggs)
        return joined((groups, self.T), self.by).project(self.keys + values)

    def is_the_same(self, always: Always) -> bool:
        """Whether groups of the rest are groups of the whole: what they are by is among the keys, or equal to a key that T has, and each
        meets at most one row of T."""
        by_key = {key.expr.column for key in self.keys if isinstance(key.expr, Ref)}
        by_key |= {c for pair in self.pairs for c in pair if not by_key.isdisjoint(pair)}
        return (
            bool(self.columns)
            and by_key.issuperset(self.columns)
            and all(equality_is_identity(c.type) for c in (*self.columns, *(key.column for key in self.keys)))
            and always.is_unique(self.T, self.matched)
        )

    def is_safe(self) -> bool:
        """Whether aggregates are of the rest and have one value, and nothing fails for rows that T or a condition takes out."""
        rest = frozenset(self.rest.columns)
        return not (can_fail(self.by) or can_fail(self.on)) and all(
            a.call.columns <= rest and has_exact_state(a.call) and not call_can_fail(a.call) for a in self.own
        )

    def is_connected(self) -> bool:
        """Whether conditions join the rest without T."""
        parts, known, left = conjuncts(self.on), frozenset(self.others[0].columns), list(self.others[1:])
        while found := next((other for other in left if connects(parts, known, frozenset(other.columns))), None):
            known |= frozenset(found.columns)
            left.remove(found)
        return not left


@rule(LOGICAL, cite=(5,))
def group_before_join(
    T: Tvr, others: Sides, on: OnAll, keys: Keys, aggs: Aggs, always: Always, expected: Expected
) -> Rewrite:
    """aggregate(T ⋈ R ⋈ S ⋈ ...) = project(aggregate'(R ⋈ S ⋈ ...) ⋈ T)      where a group meets at most one row of T

    aggregate' is by what the keys and conditions on T read of R ⋈ S ⋈ ..., all of which are keys or equal to keys. MIN and MAX of T are
    its values then. Only when far fewer groups than rows are expected, and conditions join R ⋈ S ⋈ ... without T.
    """
    grouped = Grouped.of(T, others, on, keys, aggs)
    return rewrite(
        joined((T, *others), on).aggregate(keys, aggs),
        grouped.before_join(),
        where=grouped.is_connected()
        and grouped.is_the_same(always)
        and grouped.is_safe()
        and expected.shrinks(grouped.rest, grouped.columns),
    )


GROUPING: tuple[Rule, ...] = (group_before_join,)
