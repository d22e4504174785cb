"""The interpreter of the algebra, against results worked out by hand and against itself along another way."""

from collections.abc import Callable
from decimal import Decimal
from math import nan
from random import Random

import pytest

from tempura.algebra.bag import EMPTY, Row, SignedBag
from tempura.algebra.evaluate import Leaf, evaluate
from tempura.algebra.evaluate_scalar import is_true
from tempura.algebra.expand import Expand
from tempura.algebra.one import One
from tempura.algebra.rel import (
    Aggregate,
    Consolidate,
    Filter,
    Join,
    JoinKind,
    Negate,
    Opaque,
    Project,
    Rel,
    Scan,
    Sort,
    Support,
    TopK,
    Union,
    Values,
)
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
    SortKey,
    conjunction,
    equal,
)
from tempura.algebra.states import Finalize, MergeStates, Partial, why_no_state
from tempura.errors import Reason, TempuraError
from tempura.laws.relations import CaseMaker

A, B = Column("L.a", "a", "int"), Column("L.b", "b", "int")
C, D = Column("R.c", "c", "int"), Column("R.d", "d", "int")
L, R = Scan("L", ("a", "b"), (A, B)), Scan("R", ("c", "d"), (C, D))
EQUI = equal(Ref(A), Ref(C))
FOUND = Column("J.found", "found", "boolean")


def over(left: SignedBag, right: SignedBag = EMPTY) -> Leaf:
    """Leaves for the tables L and R."""
    return lambda leaf: left if leaf == L else right


def rows(*rows: Row) -> SignedBag:
    return SignedBag.of(rows)


def join(kind: JoinKind, left: SignedBag, right: SignedBag, on: Expr = EQUI) -> SignedBag:
    return evaluate(Join(L, R, kind, on, FOUND if kind == "exists" else None), over(left, right))


def column(name: str, type: str) -> Column:
    return Column(name, name, type)


def aggregate(function: str, type: str, *operands: Expr, distinct: bool = False, mode: str = "ANSI") -> AggregateOutput:
    return AggregateOutput(column("x", type), AggregateCall(function, operands, type, distinct, None, mode))


# --- linear operators -------------------------------------------------------------------------------------------------


def test_filter_keeps_true_and_weights() -> None:
    bag = SignedBag([((1, 1), 2), ((2, None), 1), ((3, 9), -1)])
    assert evaluate(Filter(L, Call("LessThan", (Ref(B), Literal(5, "int")), "boolean")), over(bag)) == SignedBag(
        [((1, 1), 2)]
    )


def test_project_adds_up_rows_that_become_identical() -> None:
    bag = SignedBag([((1, 1), 2), ((1, 2), -1), ((2, 2), 1)])
    assert evaluate(Project(L, (Output(A, Ref(A)),)), over(bag)) == rows((1,), (2,))


def test_union_negate_support_consolidate_sort() -> None:
    bag = SignedBag([((1, 1), 2), ((2, 2), -1)])
    assert evaluate(Union((L, L)), over(bag)) == bag.scale(2)
    assert evaluate(Union((L, Negate(L))), over(bag)) == EMPTY
    assert evaluate(Support(L), over(bag)) == rows((1, 1), (2, 2))
    assert evaluate(Consolidate(L), over(bag)) == bag
    assert evaluate(Sort(L, (SortKey(Ref(A)),)), over(bag)) == bag


def test_expand_gives_a_row_per_projection_with_the_rows_weight() -> None:
    x = column("x", "int")
    null, both = Output(x, Literal(None, "int")), SignedBag([((1, 10), 2), ((2, 20), -1)])
    expanded = evaluate(Expand(L, ((Output(x, Ref(A)),), (null,), (null,))), over(both))
    assert expanded == SignedBag([((1,), 2), ((2,), -1), ((None,), 2)])


def test_one_is_a_row_and_never_two() -> None:
    assert evaluate(One(L), over(rows((1, 2)))) == rows((1, 2))
    assert evaluate(One(L), over(EMPTY)) == rows((None, None))
    for two in (rows((1, 2), (1, 2)), rows((1, 2), (1, 3))):
        with pytest.raises(TempuraError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
            evaluate(One(L), over(two))
    with pytest.raises(TempuraError, match="NEGATIVE_WEIGHT"):
        evaluate(One(L), over(-rows((1, 2))))


def test_values_are_their_own_rows() -> None:
    assert evaluate(Values((A,), ((1,), (1,), (None,))), over(EMPTY)) == SignedBag([((1,), 2), ((None,), 1)])
    assert evaluate(Values((), ((),)), over(EMPTY)) == rows(())


def test_shared_inputs_are_computed_once() -> None:
    asked: list[Rel] = []

    def leaf(rel: Rel) -> SignedBag:
        asked.append(rel)
        return rows((1, 1))

    shared: Rel = L
    for _ in range(40):
        shared = Union((shared, Negate(shared), shared))
    assert evaluate(shared, leaf) == rows((1, 1))
    assert asked == [L]


# --- joins ------------------------------------------------------------------------------------------------------------

LEFT = rows((1, 10), (1, 10), (2, 20), (None, 30))
RIGHT = rows((1, 7), (1, 8), (3, 9), (None, 0))
INNER = SignedBag([((1, 10, 1, 7), 2), ((1, 10, 1, 8), 2)])
LEFT_ALONE = rows((2, 20), (None, 30))
RIGHT_ALONE = rows((3, 9), (None, 0))


def padded(bag: SignedBag, before: int = 0, after: int = 0) -> SignedBag:
    return SignedBag(((None,) * before + row + (None,) * after, w) for row, w in bag.items())


def marked(bag: SignedBag, found: bool) -> SignedBag:
    return SignedBag(((*row, found), w) for row, w in bag.items())


def test_every_kind_of_join_on_equality() -> None:
    assert join("inner", LEFT, RIGHT) == INNER
    assert join("left", LEFT, RIGHT) == INNER + padded(LEFT_ALONE, after=2)
    assert join("full", LEFT, RIGHT) == INNER + padded(LEFT_ALONE, after=2) + padded(RIGHT_ALONE, before=2)
    assert join("semi", LEFT, RIGHT) == rows((1, 10), (1, 10))
    assert join("anti", LEFT, RIGHT) == LEFT_ALONE
    assert join("exists", LEFT, RIGHT) == marked(LEFT - LEFT_ALONE, True) + marked(LEFT_ALONE, False)


@pytest.mark.parametrize(
    ("on", "matches"),
    [
        (TRUE, lambda a, b, c, d: True),
        (Call("LessThan", (Ref(B), Ref(D)), "boolean"), lambda a, b, c, d: b < d),
        (
            conjunction(EQUI, Call("LessThan", (Ref(B), Ref(D)), "boolean")),
            lambda a, b, c, d: None not in (a, c) and a == c and b < d,
        ),
        (
            Call("Or", (EQUI, Call("IsNull", (EQUI,), "boolean")), "boolean"),
            lambda a, b, c, d: None in (a, c) or a == c,
        ),
        (Call("EqualNullSafe", (Ref(A), Ref(C)), "boolean"), lambda a, b, c, d: a == c),
    ],
    ids=["cross", "theta", "residual", "null-aware", "null-safe"],
)
def test_joins_on_other_conditions(on: Expr, matches: Callable[..., bool]) -> None:
    right = rows((1, 15), (None, 25), (4, 5))
    pairs = [(a, b) for a, _ in LEFT.items() for b, _ in right.items() if matches(*a, *b)]
    inner = SignedBag((a + b, LEFT.weight(a)) for a, b in pairs)
    left_alone = SignedBag((a, w) for a, w in LEFT.items() if a not in [p[0] for p in pairs])
    right_alone = SignedBag((b, w) for b, w in right.items() if b not in [p[1] for p in pairs])
    assert join("inner", LEFT, right, on) == inner
    assert join("left", LEFT, right, on) == inner + padded(left_alone, after=2)
    assert join("full", LEFT, right, on) == inner + padded(left_alone, after=2) + padded(right_alone, before=2)
    assert join("semi", LEFT, right, on) == LEFT - left_alone
    assert join("anti", LEFT, right, on) == left_alone
    assert join("exists", LEFT, right, on) == marked(LEFT - left_alone, True) + marked(left_alone, False)


X, Y = Ref(column("L.x", "double")), Ref(column("R.y", "double"))
LESS = Call("LessThan", (Ref(B), Ref(D)), "boolean")
DOUBLES: tuple[object, ...] = (None, 0.0, -0.0, nan, 1.5)


@pytest.mark.parametrize(
    "on",
    [
        conjunction(LESS, equal(X, Y)),
        conjunction(equal(Y, X), EQUI),
        conjunction(Call("EqualNullSafe", (X, Y), "boolean"), LESS),
        conjunction(EQUI, Call("EqualNullSafe", (X, X), "boolean")),
        conjunction(equal(Ref(A), Ref(B)), LESS),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(5))
def test_joins_match_the_rows_for_which_their_condition_is_true(on: Expr, seed: int) -> None:
    """As if each row were compared with each other one: also of zeros of either sign, NaN and NULL."""
    left, right = (
        Scan(name, ("i", "j", "f"), (*scan.columns, ref.column)) for name, scan, ref in (("L", L, X), ("R", R, Y))
    )
    random = Random(seed)
    bags = [
        rows(*((random.choice((None, 1, 2)), random.randrange(3), random.choice(DOUBLES)) for _ in range(25)))
        for _ in range(2)
    ]
    found = evaluate(Join(left, right, "inner", on), lambda leaf: bags[leaf == right])
    crossed = evaluate(Join(left, right, "inner", TRUE), lambda leaf: bags[leaf == right])
    expected = SignedBag(
        (row, w)
        for row, w in crossed.items()
        if is_true(on, dict(zip((*left.columns, *right.columns), row, strict=True)))
    )
    assert found == expected
    assert list(found.items()) == list(expected.items()), "in the same order"


def test_a_condition_that_may_fail_is_asked_of_all_pairs() -> None:
    inverse = Call("Divide", (Literal(1.0, "double"), Ref(B)), "double", "ANSI")
    positive = Call("GreaterThan", (inverse, Literal(0.0, "double")), "boolean")
    with pytest.raises(TempuraError, match="DIVIDE_BY_ZERO"):
        join("inner", rows((1, 0)), rows((2, 0)), conjunction(positive, EQUI))
    assert join("inner", rows((1, 0)), rows((2, 0)), conjunction(EQUI, positive)) == EMPTY


def test_keys_of_a_collation_are_refused() -> None:
    a, b = (column(name, "string collate UTF8_LCASE") for name in "ab")
    left, right = Scan("L", ("a",), (a,)), Scan("R", ("b",), (b,))
    with pytest.raises(TempuraError, match="NOT_INTERPRETED"):
        evaluate(Join(left, right, "inner", equal(Ref(a), Ref(b))), lambda leaf: rows(("x" if leaf == left else "X",)))


def test_inner_join_multiplies_signed_weights() -> None:
    left, right = SignedBag([((1, 0), -2)]), SignedBag([((1, 0), -3), ((1, 1), 1)])
    assert join("inner", left, right) == SignedBag([((1, 0, 1, 0), 6), ((1, 0, 1, 1), -2)])


@pytest.mark.parametrize("kind", ["left", "semi", "anti", "exists"])
def test_left_side_of_outer_semi_and_anti_join_is_linear(kind: JoinKind) -> None:
    one, two = SignedBag([((1, 10), 2), ((2, 20), -1)]), SignedBag([((2, 20), 3), ((None, 1), -1)])
    assert join(kind, one + two, RIGHT) == join(kind, one, RIGHT) + join(kind, two, RIGHT)


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("left", EMPTY, SignedBag([((1, 1), -1)])),
        ("semi", EMPTY, SignedBag([((1, 1), -1)])),
        ("anti", EMPTY, SignedBag([((1, 1), -1)])),
        ("exists", EMPTY, SignedBag([((1, 1), -1)])),
        ("full", EMPTY, SignedBag([((1, 1), -1)])),
        ("full", SignedBag([((1, 1), -1)]), EMPTY),
    ],
)
def test_set_like_inputs_of_joins_refuse_negative_weights(kind: JoinKind, left: SignedBag, right: SignedBag) -> None:
    with pytest.raises(TempuraError, match="NEGATIVE_WEIGHT") as error:
        join(kind, left, right)
    assert f"{kind}-join" in error.value.what


@pytest.mark.parametrize(
    "rel",
    [
        Aggregate(L, (), (aggregate("Count", "bigint"),)),
        TopK(L, (), 1),
        Partial(L, (), (aggregate("Min", "int", Ref(A)),)),
    ],
    ids=["aggregate", "top", "partial minimum"],
)
def test_other_set_like_inputs_refuse_negative_weights(rel: Rel) -> None:
    with pytest.raises(TempuraError, match="NEGATIVE_WEIGHT"):
        evaluate(rel, over(SignedBag([((1, 1), -1)])))


def test_malformed_expressions_are_refused() -> None:
    with pytest.raises(ValueError, match="share columns"):
        evaluate(Join(L, L, "inner"), over(EMPTY))
    with pytest.raises(ValueError, match="different columns"):
        evaluate(Union((L, R)), over(EMPTY))


def test_opaque_queries_are_refused() -> None:
    with pytest.raises(TempuraError, match="NOT_INTERPRETED"):
        evaluate(Opaque((), (A,), "key", Reason("WHY", "why")), over(EMPTY))


# --- aggregates -------------------------------------------------------------------------------------------------------


def value(output: AggregateOutput, *values: object) -> object:
    """An aggregate without keys over a column with these values."""
    (ref,) = output.call.operands
    assert isinstance(ref, Ref)
    table = Scan("T", ("v",), (ref.column,))
    bag = evaluate(Aggregate(table, (), (output,)), lambda _: SignedBag.of((v,) for v in values))
    ((only,),) = bag.rows()
    return only


def over_type(function: str, argument: str, type: str, distinct: bool = False, mode: str = "ANSI") -> AggregateOutput:
    return aggregate(function, type, Ref(column("v", argument)), distinct=distinct, mode=mode)


def test_sum_and_average_are_null_over_nothing() -> None:
    for function, argument, type in [
        ("Sum", "int", "bigint"),
        ("Average", "int", "double"),
        ("Sum", "decimal(5,2)", "decimal(15,2)"),
        ("Average", "decimal(5,2)", "decimal(9,6)"),
        ("Min", "int", "int"),
        ("Max", "int", "int"),
    ]:
        assert value(over_type(function, argument, type)) is None
        assert value(over_type(function, argument, type), None, None) is None
    assert value(over_type("Count", "int", "bigint"), None, None) == 0


def test_decimal_results_have_the_type_and_digits_of_spark() -> None:
    thirds = (Decimal("0.01"), Decimal("0.01"), Decimal("0.00"), None)
    assert str(value(over_type("Sum", "decimal(5,2)", "decimal(15,2)"), *thirds)) == "0.02"
    assert str(value(over_type("Average", "decimal(5,2)", "decimal(9,6)"), *thirds)) == "0.006667"
    assert str(value(over_type("Average", "decimal(20,2)", "decimal(24,6)"), *thirds)) == "0.006667"
    assert str(value(over_type("Sum", "decimal(5,2)", "decimal(15,2)", True), *thirds)) == "0.01"


def test_average_of_short_decimals_goes_through_doubles_as_in_spark() -> None:
    """160 numbers whose exact average, rounded, ends in 3 (tests/spark says what Spark returns)."""
    numbers = [Decimal("549187.39617")] * 123 + [Decimal("549187.39618")] * 37
    assert sum(numbers) / 160 == Decimal("549187.3961723125")
    assert value(over_type("Average", "decimal(11,5)", "decimal(15,9)"), *numbers) == Decimal("549187.396172312")
    assert value(over_type("Average", "decimal(12,5)", "decimal(16,9)"), *numbers) == Decimal("549187.396172313")


def test_sum_overflow_follows_the_mode() -> None:
    wide = Decimal(10) ** 38 - 1
    with pytest.raises(TempuraError, match="ARITHMETIC_OVERFLOW"):
        value(over_type("Sum", "decimal(38,0)", "decimal(38,0)"), wide, wide)
    assert value(over_type("Sum", "decimal(38,0)", "decimal(38,0)", mode="LEGACY"), wide, wide) is None
    assert value(over_type("Sum", "bigint", "bigint", mode="LEGACY"), 2**63 - 1, 1) == -(2**63)


def test_distinct_compares_by_sql_equality() -> None:
    assert value(over_type("Count", "double", "bigint", True), 0.0, -0.0, nan, -nan, None, 1.0) == 3


def test_min_and_max_order_nan_last() -> None:
    assert value(over_type("Max", "double", "double"), 1.0, nan, None) is nan
    assert value(over_type("Min", "double", "double"), 1.0, nan, None) == 1.0
    assert value(over_type("Max", "string", "string"), "a", "B", None) == "a"


def test_groups_compare_null_zero_and_nan_as_sql_does() -> None:
    key, x = column("k", "double"), column("v", "int")
    table = Scan("T", ("k", "v"), (key, x))
    rel = Aggregate(table, (Output(key, Ref(key)),), (aggregate("Sum", "bigint", Ref(x)),))
    bag = rows((None, 1), (None, 2), (0.0, 3), (-0.0, 4), (nan, 5), (-nan, 6))
    assert evaluate(rel, lambda _: bag) == rows((None, 3), (0.0, 7), (nan, 11))


def test_counting() -> None:
    bag = rows((1, None), (1, 5), (1, 5), (2, None))
    outputs = (
        AggregateOutput(column("rows", "bigint"), AggregateCall("Count", (), "bigint")),
        AggregateOutput(column("b", "bigint"), AggregateCall("Count", (Ref(B),), "bigint")),
        AggregateOutput(column("both", "bigint"), AggregateCall("Count", (Ref(A), Ref(B)), "bigint")),
        AggregateOutput(
            column("ones", "bigint"), AggregateCall("Count", (), "bigint", filter=equal(Ref(B), Literal(5, "int")))
        ),
    )
    assert evaluate(Aggregate(L, (Output(A, Ref(A)),), outputs), over(bag)) == rows((1, 3, 2, 2, 2), (2, 1, 0, 0, 0))
    assert evaluate(Aggregate(L, (Output(A, Ref(A)),), outputs), over(EMPTY)) == EMPTY
    assert evaluate(Aggregate(L, (), outputs), over(EMPTY)) == rows((0, 0, 0, 0))


def test_unknown_aggregates_are_refused() -> None:
    with pytest.raises(TempuraError, match="NOT_INTERPRETED"):
        evaluate(Aggregate(L, (), (aggregate("HistogramNumeric", "int", Ref(A)),)), over(EMPTY))


# --- aggregation states -----------------------------------------------------------------------------------------------

KEY = (Output(A, Ref(A)),)
SUM = (aggregate("Sum", "bigint", Ref(B)),)


def test_partial_of_nothing() -> None:
    assert evaluate(Partial(L, (), SUM), over(EMPTY)) == rows((0, 0, 0))
    assert evaluate(Partial(L, KEY, SUM), over(EMPTY)) == EMPTY
    assert evaluate(Finalize(Partial(L, (), SUM), (), SUM), over(EMPTY)) == rows((None,))


def test_partial_of_a_delta_keeps_groups_that_cancel_out() -> None:
    update = SignedBag([((1, 5), -1), ((1, 7), 1), ((2, None), -1)])
    state = evaluate(Partial(L, KEY, SUM), over(update))
    assert state == rows((1, 0, 0, 2), (2, -1, 0, 0))
    assert evaluate(Finalize(Partial(L, KEY, SUM), KEY, SUM), over(update)) == rows((2, None))


def test_finalize_is_linear_and_drops_dead_groups() -> None:
    partial = Partial(L, KEY, SUM)
    state = Scan("S", (), partial.columns)
    finalize = Finalize(state, KEY, SUM)
    bag = SignedBag([((1, 2, 2, 9), 1), ((2, 1, 0, 0), -1), ((3, 0, 0, 0), 1)])
    assert evaluate(finalize, lambda _: bag) == SignedBag([((1, 9), 1), ((2, None), -1)])


def test_merge_drops_dead_groups_but_never_the_only_one() -> None:
    partial = Partial(L, KEY, SUM)
    left, right = Scan("left", (), partial.columns), Scan("right", (), partial.columns)
    bags: dict[Rel, SignedBag] = {left: rows((1, 1, 1, 5), (2, 1, 1, 6)), right: rows((1, -1, -1, -5), (2, 1, 0, 0))}
    assert evaluate(MergeStates(left, right, KEY, SUM), lambda leaf: bags[leaf]) == rows((2, 2, 1, 6))
    only = Partial(L, (), SUM)
    left, right = Scan("left", (), only.columns), Scan("right", (), only.columns)
    bags = {left: rows((1, 1, 5)), right: rows((-1, -1, -5))}
    assert evaluate(MergeStates(left, right, (), SUM), lambda leaf: bags[leaf]) == rows((0, 0, 0))


def test_merge_compares_minima_and_ignores_null() -> None:
    least = (
        aggregate("Min", "int", Ref(B)),
        AggregateOutput(column("y", "int"), AggregateCall("Max", (Ref(B),), "int")),
    )
    partial = Partial(L, KEY, least)
    left, right = Scan("left", (), partial.columns), Scan("right", (), partial.columns)
    bags: dict[Rel, SignedBag] = {
        left: rows((1, 2, 5, 8), (2, 1, None, None), (3, 1, None, None)),
        right: rows((1, 1, 3, 3), (2, 1, 4, 4), (3, 1, None, None)),
    }
    assert evaluate(MergeStates(left, right, KEY, least), lambda leaf: bags[leaf]) == rows(
        (1, 3, 3, 8), (2, 2, 4, 4), (3, 2, None, None)
    )


@pytest.mark.parametrize("seed", range(300))
def test_aggregate_equals_finalize_of_partial(seed: int) -> None:
    """Two ways to one result that share no code but the arithmetic: a whole group at a time, or by slots."""
    maker = CaseMaker(Random(f"aggregate/{seed}"))
    table = maker.scan("X")
    keys, aggregates = maker.keys(table.columns), maker.aggregates(table.columns)
    with_state = tuple(a for a in aggregates if why_no_state(a.call) is None)
    bag = maker.tables["X"][-1]
    whole = _value_or_code(Aggregate(table, keys, with_state), bag)
    assert _value_or_code(Finalize(Partial(table, keys, with_state), keys, with_state), bag) == whole, bag


def _value_or_code(rel: Rel, bag: SignedBag) -> object:
    try:
        return evaluate(rel, lambda _: bag)
    except TempuraError as error:
        return error.code


# --- top-k ------------------------------------------------------------------------------------------------------------


def test_top_takes_weights_and_breaks_ties_by_all_columns() -> None:
    bag = SignedBag([((1, 3), 1), ((1, 2), 2), ((2, 0), 1), ((None, 9), 1)])
    ascending = (SortKey(Ref(A), ascending=True, nulls_first=False),)
    assert evaluate(TopK(L, ascending, 1), over(bag)) == rows((1, 2))
    assert evaluate(TopK(L, ascending, 3), over(bag)) == rows((1, 2), (1, 2), (1, 3))
    assert evaluate(TopK(L, ascending, 9), over(bag)) == bag
    assert evaluate(TopK(L, ascending, 0), over(bag)) == EMPTY


@pytest.mark.parametrize(
    ("ascending", "nulls_first", "expected"),
    [
        (True, True, [None, 1]),
        (True, False, [1, 2]),
        (False, True, [None, 3]),
        (False, False, [3, 2]),
    ],
)
def test_top_orders_nulls_as_told(ascending: bool, nulls_first: bool, expected: list[int | None]) -> None:
    bag = rows((2, 0), (None, 0), (3, 0), (1, 0))
    order = (SortKey(Ref(A), ascending, nulls_first),)
    assert evaluate(TopK(L, order, 2), over(bag)) == SignedBag.of((v, 0) for v in expected)


def test_top_by_several_keys() -> None:
    bag = rows((1, 1), (1, 2), (2, 1), (2, 2))
    order = (SortKey(Ref(B), ascending=False), SortKey(Ref(A)))
    assert evaluate(TopK(L, order, 3), over(bag)) == rows((1, 2), (2, 2), (1, 1))


def test_a_scalar_subquery_is_looked_up_for_each_row_by_itself() -> None:
    """-0.0 and 0.0 are equal, and are two rows: each matches once."""
    L, R = Column("l", "l", "double"), Column("r", "r", "double")
    joined = Join(Scan("l", ("l",), (L,)), Scan("r", ("r",), (R,)), "single", equal(Ref(L), Ref(R)))
    rows = {"l": SignedBag.of([(0.0,), (-0.0,)]), "r": SignedBag.of([(0.0,)])}
    found = evaluate(joined, lambda leaf: rows[leaf.label])
    assert found == SignedBag.of([(0.0, 0.0), (-0.0, 0.0)])
