"""Guards that random cases seldom need: without the guard a law is refuted by the cases below, and with it it does not apply to them."""

from dataclasses import dataclass

import pytest

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.rel import Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Expr, Literal, Output, Ref, equal
from tempura.laws.cases import Case
from tempura.laws.check import check
from tempura.rules import delta_aggregate, delta_join, distinct, eager, hov
from tempura.rules.dsl import Rule
from tempura.tvr.tvr import Tvr
from tests.laws import hov_mutants, open_mutants

Tables = dict[str, list[SignedBag]]


def _table(name: str, *types: str) -> Tvr:
    fields = tuple(f"c{i}" for i in range(len(types)))
    columns = (Column(f"{name}.{field}", field, type) for field, type in zip(fields, types, strict=True))
    return Tvr(Scan(name, fields, tuple(columns)))


def _history(*times: list[Row]) -> list[SignedBag]:
    return [SignedBag.of(rows) for rows in times]


def _inverse(number: Expr) -> Expr:
    """1.0 / number: fails for 0."""
    divisor = Call("Cast", (number,), "double", "legacy")
    return Call("Divide", (Literal(1.0, "double"), divisor), "double", "ansi")


def _count(arg: Expr, filter: Expr | None = None, distinct: bool = False) -> tuple[AggregateOutput, ...]:
    call = AggregateCall("Count", (arg,), "bigint", distinct, filter)
    return (AggregateOutput(Column("a0", "a0", "bigint"), call),)


@dataclass(frozen=True)
class Guarded:
    """A law, the same without its guard, and what to check it on."""

    law: Rule
    mutant: Rule
    tables: tuple[Tables, ...]
    bindings: dict[str, object]

    def verdicts(self, rule: Rule) -> set[tuple[str, str]]:
        """What the cases say of a rule."""
        bound = {name: value for name, value in self.bindings.items() if name in rule.parameters}
        found = [check(rule, Case(tables, bound)) for tables in self.tables]
        return {(verdict.kind, verdict.why if verdict.kind == "vacuous" else "") for verdict in found}


X, PAIRS = _table("X", "int", "double"), _table("X", "int", "int")
L, R = _table("L", "int", "int"), _table("R", "int")
KEY = (Output(Column("k0", "k0", "int"), Ref(X.columns[0])),)
LEAST = (AggregateOutput(Column("a0", "a0", "double"), AggregateCall("Min", (Ref(X.columns[1]),), "double")),)
ZEROS = tuple({"X": _history([(0, -0.0), (0, 0.0)], [(0, -0.0), (0, 0.0), (0, float(i))])} for i in range(1, 20))
"""The least value is one of two, and which one is decided each time that it is computed."""

SUM = Call("Add", (Ref(L.columns[0]), Ref(R.columns[0])), "int", "legacy")
FAILS_FOR_TWO = Call(
    "GreaterThan",
    (_inverse(Call("Subtract", (SUM, Literal(2, "int")), "int", "legacy")), Literal(0.0, "double")),
    "boolean",
)
MOVED: Tables = {"L": _history([(0, 0)], [(1, 0)]), "R": _history([(1,)], [(2,)])}
"""At no time do a row of L and a row of R add up to 2, but those of different times do."""

ONE, TWO = _table("One", "int", "int"), _table("Two", "int", "int")
NOT_TWO = Call(
    "Subtract",
    (Call("Add", (Ref(ONE.columns[1]), Ref(TWO.columns[1])), "int", "legacy"), Literal(2, "int")),
    "int",
    "legacy",
)
SAME_KEY = equal(Ref(ONE.columns[0]), Ref(TWO.columns[0]))
STEPS: Tables = {
    "One": _history([(0, 0)], [(0, 1)], [(0, 1)]),
    "Two": _history([(0, 1)] * 2, [(0, 1)] * 2, [(0, 2)] * 2),
}
"""Before and after, no two rows add up to 2; they do where one table has moved on and the other has not."""

ALONE: Tables = {"L": _history([(1, 1), (9, 0)]), "R": _history([(1,)])}
"""The row with 0 joins nothing."""

VALUE = Ref(PAIRS.columns[1])
POSITIVE = Call("GreaterThanOrEqual", (VALUE, Literal(1, "int")), "boolean")
AS_INT = Call("Cast", (_inverse(VALUE),), "int", "legacy")
JOINED = {"L": L, "R": R, "on": FAILS_FOR_TWO, "t": 0, "u": 1}

GUARDED = {
    "least of equals": Guarded(
        delta_aggregate.delta_aggregate_by_groups,
        open_mutants.least_of_equals_computed_again,
        ZEROS,
        {"X": X, "keys": KEY, "aggs": LEAST, "t": 0, "u": 1},
    ),
    "pairs of different times": Guarded(
        delta_join.delta_inner_join, open_mutants.product_rule_for_conditions_that_fail, (MOVED,), JOINED
    ),
    "affected rows": Guarded(
        delta_join.delta_left_join, open_mutants.affected_rows_for_conditions_that_fail, (MOVED,), JOINED
    ),
    "pairs of steps between two times": Guarded(
        hov.state_delta_by_views,
        hov_mutants.values_that_fail_between_the_times,
        (STEPS,),
        {"terms": (ONE, TWO), "on": SAME_KEY, "keys": (), "aggs": _count(_inverse(NOT_TWO)), "t": 0, "u": 2},
    ),
    "rows that join nothing": Guarded(
        eager.split_aggregate_below_left,
        open_mutants.arguments_that_fail_aggregated_early,
        (ALONE,),
        {
            "L": L,
            "R": R,
            "how": "inner",
            "marker": None,
            "on": equal(Ref(L.columns[0]), Ref(R.columns[0])),
            "keys": (),
            "aggs": _count(_inverse(Ref(L.columns[1]))),
        },
    ),
    "rows that a filter leaves out": Guarded(
        distinct.split_distinct_aggregate,
        open_mutants.distinct_values_that_fail,
        ({"X": _history([(1, 0), (1, 1)])},),
        {
            "X": PAIRS,
            "keys": (Output(Column("k0", "k0", "int"), Ref(PAIRS.columns[0])),),
            "aggs": _count(AS_INT, POSITIVE, distinct=True),
        },
    ),
}


@pytest.mark.parametrize("name", GUARDED)
def test_without_its_guard_a_law_is_refuted(name: str) -> None:
    assert "refuted" in {kind for kind, _ in GUARDED[name].verdicts(GUARDED[name].mutant)}


@pytest.mark.parametrize("name", GUARDED)
def test_the_guard_keeps_a_law_away(name: str) -> None:
    assert GUARDED[name].verdicts(GUARDED[name].law) == {("vacuous", "the guard does not hold")}
