"""Example 1 of the Tempura paper (section 2.2, figure 1): revenue after returns, by IM-1 and by IM-2.

IM-1 comes from the rules, IM-2 is written by hand. What a step computes is counted as the paper does: the tuples that arrive
at the outer join plus the tuples that enter the aggregate, deletions included.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from tests.laws.definition import Definition

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Rel, Scan
from tempura.algebra.scalar import (
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Output,
    Ref,
    equal,
)
from tempura.algebra.states import Partial
from tempura.rules.dsl import Rule
from tempura.rules.methods import IM1
from tempura.tvr.tvr import Bag, Tvr
from tempura.tvr.views import Delta, Snapshot, View

T1, T2 = 0, 1
PRICES = (0.2, 1.0)
"""The cost of a tuple at t1 and at t2."""

O_ID, CATEGORY, PRICE = (Column(f"sales.{n}", n, t) for n, t in (("o_id", "int"), ("cat", "string"), ("price", "int")))
R_ID, COST = (Column(f"returns.{n}", n, "int") for n in ("o_id", "cost"))
SALES = Tvr(Scan("sales", ("o_id", "cat", "price"), (O_ID, CATEGORY, PRICE)))
RETURNS = Tvr(Scan("returns", ("o_id", "cost"), (R_ID, COST)))
SAME_ORDER = equal(Ref(O_ID), Ref(R_ID))
STATUS_COLUMNS = tuple(Output(c, Ref(c)) for c in (O_ID, CATEGORY, PRICE, COST))
SALES_STATUS = SALES.left_join(RETURNS, SAME_ORDER).project(STATUS_COLUMNS)
REVENUE = Call(
    "If",
    (Call("IsNull", (Ref(COST),), "boolean"), Ref(PRICE), Call("UnaryMinus", (Ref(COST),), "int")),
    "int",
)
KEYS = (Output(Column("summary.cat", "cat", "string"), Ref(CATEGORY)),)
GROSS = (AggregateOutput(Column("summary.gross", "gross", "bigint"), AggregateCall("Sum", (REVENUE,), "bigint")),)
SUMMARY = SALES_STATUS.aggregate(KEYS, GROSS)

Arrivals = tuple[list[Row], list[Row]]
"""The rows that arrive at t1 and at t2."""

SOLD: Arrivals = (
    [(1, "c1", 100), (2, "c2", 150), (3, "c1", 120), (4, "c1", 170)],
    [(5, "c2", 300), (6, "c1", 150), (7, "c2", 220)],
)
RETURNED: Arrivals = ([(1, 10)], [(2, 20), (6, 15)])


def tables(returned: Arrivals) -> dict[str, list[SignedBag]]:
    """Snapshots of both tables at t1 and t2."""
    return {"sales": _history(SOLD), "returns": _history(returned)}


def _history(arrivals: Arrivals) -> list[SignedBag]:
    first, second = map(SignedBag.of, arrivals)
    return [first, first + second]


@dataclass(frozen=True)
class Work:
    """What a step emits into the aggregate, the state it leaves, and how many tuples it computes."""

    emitted: SignedBag
    state: SignedBag
    tuples: int


def run(status: Bag, t: int, definition: Definition, before: Work | None) -> Work:
    """Compute one step of a method: the changes of sales_status, and the state of the summary merged with theirs."""
    inputs = [rel for rel in status.rel.walk() if isinstance(rel, View) and arrives(rel, t)]
    partial = Partial(status.rel, KEYS, GROSS)
    emitted = definition.value(status.rel)
    state = definition.value(partial)
    if before:
        state = merged(before.state, state)
    return Work(emitted, state, sum(definition.view(view).size for view in inputs) + emitted.size)


def arrives(view: View, t: int) -> bool:
    """Whether a view of a table is what arrives at t; before t1 there was nothing."""
    return view.at == (Snapshot(T1) if t == T1 else Delta(t - 1, t))


def merged(old: SignedBag, new: SignedBag) -> SignedBag:
    """Two states merged, each given as a bag."""
    columns = Partial(SALES_STATUS.rel, KEYS, GROSS).columns
    left, right = (Scan(name, (), columns) for name in ("old", "new"))
    bags: Mapping[Rel, SignedBag] = {left: old, right: new}
    return evaluate(Bag(left).merge(Bag(right), KEYS, GROSS).rel, lambda leaf: bags[leaf])


def result(work: Work) -> dict[object, object]:
    """The summary from its state."""
    state = Scan("state", (), Partial(SALES_STATUS.rel, KEYS, GROSS).columns)
    rows = evaluate(Bag(state).finalize(KEYS, GROSS).rel, lambda leaf: work.state)
    return dict(_pairs(rows))


def _pairs(rows: SignedBag) -> list[tuple[object, object]]:
    return [(category, gross) for category, gross in rows.rows()]


def expand(rel: Rel, rules: tuple[Rule, ...], facts: Definition) -> Rel:
    """Replace views of queries by what the first rule that applies makes of them, down to views of tables."""
    if not isinstance(rel, View):
        return rel.with_inputs(*(expand(input, rules, facts) for input in rel.inputs))
    if isinstance(rel.tvr, Scan):
        return rel
    return next(expand(rhs, rules, facts) for rhs in (rewritten(rel, rule, facts) for rule in rules) if rhs is not None)


def rewritten(view: View, rule: Rule, facts: Definition) -> Rel | None:
    """The right side of a rule for a view; None when it does not apply."""
    found = rule.match(view)
    if found is None:
        return None
    given = {"Time": view.at.time - 1, "Facts": facts}
    law = rule.apply(**{name: found.get(name, given.get(kind)) for name, kind in rule.parameters.items()})
    return law.rhs if law.where else None


def im1_rules(left_join: str) -> tuple[Rule, ...]:
    """The rules of IM-1 that Example 1 needs, the wanted ones first: a planner would choose them by cost."""
    by_name = {rule.name: rule for rule in IM1}
    states = ("finalize_state", "first_state", "merge_state", "state_delta", "delta_aggregate")
    joins = (left_join, "delta_inner_join", "delta_anti_join", "delta_project", "first_snapshot")
    return tuple(by_name[name] for name in states + joins)


def im1(definition: Definition, left_join: str) -> tuple[Work, Work]:
    """IM-1 by the rules, with one of the rules for the delta of a left join."""
    rules = im1_rules(left_join)
    first = run(Bag(expand(SALES_STATUS[:T1].rel, rules, definition)), T1, definition, None)
    return first, run(Bag(expand(SALES_STATUS[T1:T2].rel, rules, definition)), T2, definition, first)


def im2(definition: Definition) -> tuple[Work, Work]:
    """IM-2: sales that may still be returned are held back until t2."""
    first = run(SALES[:T1].join(RETURNS[:T1], SAME_ORDER).project(STATUS_COLUMNS), T1, definition, None)
    sold, returned = SALES[T1:T2], RETURNS[T1:T2]
    returns_now = sold.join(RETURNS[:T1], SAME_ORDER) + SALES[:T2].join(returned, SAME_ORDER)
    never_returned = SALES[:T2].anti_join(RETURNS[:T2], SAME_ORDER).pad_right(RETURNS)
    return first, run((returns_now + never_returned).project(STATUS_COLUMNS), T2, definition, first)


def cost(works: tuple[Work, Work]) -> float:
    """The weighted number of tuples."""
    return sum(price * work.tuples for price, work in zip(PRICES, works, strict=True))


BOTH_FORMS = pytest.mark.parametrize("left_join", ["delta_left_join", "delta_left_join_split"])


@BOTH_FORMS
def test_im1_emits_figure_1c(left_join: str) -> None:
    first, second = im1(Definition(tables(RETURNED)), left_join)
    assert first.emitted == SignedBag.of(
        [(1, "c1", 100, 10), (2, "c2", 150, None), (3, "c1", 120, None), (4, "c1", 170, None)]
    )
    assert second.emitted == SignedBag(
        [
            ((2, "c2", 150, None), -1),
            ((2, "c2", 150, 20), 1),
            ((5, "c2", 300, None), 1),
            ((6, "c1", 150, 15), 1),
            ((7, "c2", 220, None), 1),
        ]
    )


def test_im2_emits_figure_1d() -> None:
    first, second = im2(Definition(tables(RETURNED)))
    assert first.emitted == SignedBag.of([(1, "c1", 100, 10)])
    assert second.emitted == SignedBag.of(
        [
            (2, "c2", 150, 20),
            (3, "c1", 120, None),
            (4, "c1", 170, None),
            (5, "c2", 300, None),
            (6, "c1", 150, 15),
            (7, "c2", 220, None),
        ]
    )


@BOTH_FORMS
def test_both_methods_give_the_summary_of_figure_1b(left_join: str) -> None:
    definition = Definition(tables(RETURNED))
    batch = dict(_pairs(definition.snapshot(SUMMARY.rel, T2)))
    assert result(im1(definition, left_join)[1]) == result(im2(definition)[1]) == batch == {"c1": 265, "c2": 500}


@BOTH_FORMS
@pytest.mark.parametrize(
    ("late_returns", "im1_tuples", "im2_tuples", "im1_cost", "im2_cost"),
    [
        pytest.param([(2, 20), (6, 15)], (9, 10), (6, 11), 11.8, 12.2, id="figure 1"),
        pytest.param([(2, 20), (4, 15)], (9, 12), (6, 11), 13.8, 12.2, id="o4 in place of o6"),
        pytest.param([(2, 20), (6, 15), (4, 15)], (9, 13), (6, 12), 14.8, 13.2, id="o4 in addition to o6"),
    ],
)
def test_tuples_and_costs_of_the_paper(
    left_join: str,
    late_returns: list[Row],
    im1_tuples: tuple[int, int],
    im2_tuples: tuple[int, int],
    im1_cost: float,
    im2_cost: float,
) -> None:
    definition = Definition(tables((RETURNED[0], late_returns)))
    one, two = im1(definition, left_join), im2(definition)
    assert (one[0].tuples, one[1].tuples) == im1_tuples
    assert (two[0].tuples, two[1].tuples) == im2_tuples
    assert cost(one) == pytest.approx(im1_cost)
    assert cost(two) == pytest.approx(im2_cost)
    assert result(one[1]) == result(two[1]) == dict(_pairs(definition.snapshot(SUMMARY.rel, T2)))


@BOTH_FORMS
def test_rules_maintain_the_whole_summary(left_join: str) -> None:
    """The rules expand the summary itself too: state at t1, merged with the state of the delta at t2."""
    definition = Definition(tables(RETURNED))
    for view in (SUMMARY[:T1], SUMMARY[:T2], SUMMARY[T1:T2]):
        expanded = expand(view.rel, im1_rules(left_join), definition)
        assert all(isinstance(leaf, View) and isinstance(leaf.tvr, Scan) for leaf in expanded.walk() if not leaf.inputs)
        assert definition.value(expanded) == definition.value(view.rel)
