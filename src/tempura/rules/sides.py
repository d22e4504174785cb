"""The sides of a join that an aggregation reads: as they are, or aggregated by what the join and the keys read of them.

A row of such a join stands for as many rows of the join that was given as the product of the counts of its aggregated sides (*views*), and
adds to each slot of a state (``algebra.states``) a sum of products of counts and sums.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce

from tempura.algebra.failing import can_fail
from tempura.algebra.scalar import (
    TRUE,
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    conjunction,
    conjuncts,
)
from tempura.algebra.sql_order import equality_is_identity
from tempura.algebra.states import Slot, decimal_of
from tempura.rules.parts import sum_type
from tempura.rules.products import Case, as_decimal, cases_of, plus, present, times, with_nulls
from tempura.tvr.tvr import Tvr

_NONE, _ONE = Literal(0, "bigint"), Literal(1, "bigint")


@dataclass
class SideView:
    """A side that is aggregated by ``columns``: the counts and sums that are asked of it. ``padded``: where no group matches, the join has
    NULLs, and all of them are 0."""

    side: Tvr
    columns: tuple[Column, ...]
    padded: bool = False
    calls: dict[AggregateCall, Column] = field(default_factory=dict)

    @property
    def aggregated(self) -> Tvr:
        """One row per group."""
        outputs = tuple(AggregateOutput(column, call) for call, column in self.calls.items())
        return self.side.aggregate(tuple(Output(c, Ref(c)) for c in self.columns), outputs)

    @property
    def number(self) -> Expr:
        """How many rows a group has; NULL where none matches."""
        return self._result(AggregateCall("Count", (), "bigint"))

    def count(self, tests: tuple[Expr, ...]) -> Expr:
        """How many rows of the group satisfy all tests. In those that are left by the ones with a value, it is NULL."""
        match tests:
            case ():
                return self._or_none(self.number)
            case (Call(function="IsNotNull", operands=operands),):
                return self._or_none(self._result(AggregateCall("Count", operands, "bigint")))
            case (Call(function="IsNull", operands=operands),):
                others = self.count((Call("IsNotNull", operands, "boolean"),))
                return Call("Subtract", (self.count(()), others), "bigint", "legacy")
        return self._or_none(self._result(AggregateCall("Count", (), "bigint", filter=conjunction(*tests))))

    def total(self, factor: Expr, tests: tuple[Expr, ...]) -> Expr:
        """The sum of a factor over those rows; it leaves out NULLs anyway."""
        asked = conjunction(*(test for test in tests if test not in present(factor)))
        filter = None if asked == TRUE else asked
        call = AggregateCall("Sum", (factor,), sum_type(factor.type), filter=filter, detail="ansi")
        return Call("Coalesce", (self._result(call), _zero(call.type)), call.type)

    def _or_none(self, count: Expr) -> Expr:
        return Call("Coalesce", (count, _NONE), "bigint") if self.padded else count

    def _result(self, call: AggregateCall) -> Expr:
        made = self.columns[0].derived(f"view{len(self.calls)}", call.type)
        return Ref(self.calls.setdefault(call, made))


def _zero(type: str) -> Literal:
    digits = decimal_of(type)
    return Literal(Decimal(0).scaleb(-digits[1]) if digits else 0, type)


@dataclass(frozen=True)
class SidesOfJoin:
    """The views among the sides of a join; every other column is read as it is."""

    views: tuple[SideView, ...]

    @staticmethod
    def of(sides: Iterable[Tvr], read: Collection[Column], padded: Tvr | None = None) -> "SidesOfJoin":
        """Those sides as views that can be grouped by the columns that are ``read`` of them: there are some, and equal values of theirs are
        the same."""
        grouped = [(side, tuple(column for column in side.columns if column in read)) for side in sides]
        fit = [(side, by) for side, by in grouped if by and all(equality_is_identity(column.type) for column in by)]
        return SidesOfJoin(tuple(SideView(side, by, side is padded) for side, by in fit))

    def is_one_sided(self, expr: Expr) -> bool:
        """Whether an expression reads one side, where all that stay as they are count as one."""
        return len({self._view_of(column) for column in expr.columns}) <= 1

    def _view_of(self, column: Column) -> int | None:
        return next((i for i, view in enumerate(self.views) if column in view.side.columns), None)

    def can_compute(self, expr: Expr) -> bool:
        """Whether rows of the join have all columns that an expression reads."""
        return all(column not in v.side.columns or column in v.columns for column in expr.columns for v in self.views)

    def addend(self, slot: Slot) -> Expr | None:
        """What a row adds to a slot of counts or totals; None where views do not tell."""
        read = conjunction(*(part for part in (slot.arg, slot.filter) if part))
        if not any(self._view_of(column) is not None for column in read.columns):
            return self._at_once(slot)
        split = self._by_cases(slot)
        return split if split is not None or not self.can_compute(read) else self._at_once(slot)

    # --- of rows as they are ---

    def _at_once(self, slot: Slot) -> Expr | None:
        """The value of a row, as often as it stands for one. It is not asked of a row for which the filter is not TRUE: it may fail."""
        value = _wide(slot.arg) if slot.arg and slot.kind == "total" else _ONE
        known = _taken(value, present(slot.arg) if slot.arg else ())
        taken = _taken(known, (slot.filter,) if slot.filter else ())
        return _product(taken, *(self._as_often(view) for view in self.views))

    def _as_often(self, view: SideView) -> Expr:
        return Call("Coalesce", (view.number, _ONE), "bigint") if view.padded else view.number

    # --- by counts and sums of the sides ---

    def _by_cases(self, slot: Slot) -> Expr | None:
        """The sum over the cases of the rows that match; and of those that match nothing, with NULLs for what they match."""
        matched = self._sum(slot, slot.arg, slot.filter)
        padded = self._padded()
        if padded is None or matched is None:
            return matched
        arg, filter = (with_nulls(part, padded.side.columns) if part else None for part in (slot.arg, slot.filter))
        alone = self._sum(slot, arg, filter, padded)
        return alone and _sum((matched, False), (alone, False))

    def _padded(self) -> SideView | None:
        return next((view for view in self.views if view.padded), None)

    def _sum(self, slot: Slot, arg: Expr | None, filter: Expr | None, without: SideView | None = None) -> Expr | None:
        """``without``: of the rows that match no group of a view."""
        tests = conjuncts(filter) if filter else ()
        cases = cases_of(arg, self.is_one_sided) if arg else (Case((), ()),)
        if cases is None or any(can_fail(test) or not self.is_one_sided(test) for test in tests):
            return None
        if slot.kind == "total":
            terms = [
                (self._term((*tests, *c.tests), p.factors, without), p.negative) for c in cases for p in c.products
            ]
        else:
            terms = [(self._term((*tests, *c.tests), (), without), False) for c in cases]
        known = [(term, negative) for term, negative in terms if term is not None]
        return _sum(*known) if len(known) == len(terms) else None

    def _term(self, tests: tuple[Expr, ...], factors: tuple[Expr, ...], without: SideView | None) -> Expr | None:
        """A product of what each side gives: the sum of its own factor over the rows with its own tests, or their number."""
        found: list[Expr] = []
        for i, view in ((None, None), *enumerate(self.views)):
            own = tuple(dict.fromkeys(test for test in tests if self._side_of(test) == i))
            values = [_wide(value) for value in factors if self._side_of(value) == i]
            factor = _product(*values) if values else None
            if values and factor is None:
                return None
            if view is None:
                found.append(_taken(_ONE if factor is None else factor, own))
            elif view is without:
                found.append(_taken(_ONE, (Call("IsNull", (view.number,), "boolean"),)))
            else:
                found.append(view.count(own) if factor is None else view.total(factor, own))
        return _product(*found)

    def _side_of(self, expr: Expr) -> int | None:
        return next((self._view_of(column) for column in expr.columns), None)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _taken(value: Expr, tests: tuple[Expr, ...]) -> Expr:
    """A value for rows for which all tests are TRUE, else 0."""
    return Call("If", (conjunction(*tests), value, _zero(value.type)), value.type) if tests else value


def _wide(value: Expr) -> Expr:
    """A value that is added or multiplied: 64 bits are not enough for a total of 64-bit integers."""
    return as_decimal(value) if value.type == "bigint" else value


def _product(first: Expr, *others: Expr) -> Expr | None:
    """The product of counts, which has room in 64 bits as the number of rows has, or of exact numbers; None where a type would round."""
    proper = [factor for factor in (first, *others) if factor != _ONE]
    if all(factor.type == "bigint" for factor in proper):
        return reduce(lambda a, b: Call("Multiply", (a, b), "bigint", "legacy"), proper) if proper else _ONE
    made: Expr | None = proper[0]
    for factor in proper[1:]:
        made = times(made, factor) if made is not None else None
    return made


def _sum(first: tuple[Expr, bool], *others: tuple[Expr, bool]) -> Expr | None:
    """The sum of exact numbers; those marked are taken away."""
    made: Expr | None
    made, negative = first
    if negative:
        made = plus(_zero(made.type), made, negative=True)
    for number, negative in others:
        made = plus(made, number, negative) if made is not None else None
    return made
