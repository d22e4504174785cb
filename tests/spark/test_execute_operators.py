"""Spark computes for every operator the bag that the interpreter does, on random bags full of awkward values."""

import random
from collections.abc import Callable, Mapping

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tempura.algebra.bag import EMPTY, SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.expand import Expand
from tempura.algebra.one import TOO_MANY_ROWS, One
from tempura.algebra.rel import (
    Aggregate,
    Consolidate,
    Filter,
    Join,
    JoinKind,
    Negate,
    Project,
    Rel,
    Sort,
    Support,
    TopK,
    Union,
    Values,
    empty,
)  # fmt: skip
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
    same,
)  # fmt: skip
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.errors import TempuraError
from tempura.execute.draft import Draft
from tests.spark.bags import columns, executor, leaf_of, random_bag, read, signed_bag

MIXED = ("int", "double", "string")
L, R = read("l", *MIXED), read("r", *MIXED)
PLAIN_L, PLAIN_R = read("l", *MIXED, signed=False), read("r", *MIXED, signed=False)
SETS = {True: (Consolidate(L), Consolidate(R)), False: (PLAIN_L, PLAIN_R)}


def column(rel: Rel, i: int) -> Expr:
    return Ref(rel.columns[i])


def key(rel: Rel, i: int, name: str) -> Output:
    return Output(Column(name, name, rel.columns[i].type), column(rel, i))


def aggregated(name: str, function: str, type: str, *operands: Expr, **rest: object) -> AggregateOutput:
    return AggregateOutput(Column(name, name, type), AggregateCall(function, operands, type, **rest))  # type: ignore[arg-type]


def check(spark: SparkSession, rel: Rel, tables: Mapping[str, SignedBag], units: bool = False) -> None:
    computed = signed_bag(executor(spark, tables, units=units).dataframe(rel), len(rel.columns))
    assert computed == evaluate(rel, leaf_of(tables)), str(rel)


def tables_for(seed: int, signed: bool, rows: int = 25, types: tuple[str, ...] = MIXED) -> dict[str, SignedBag]:
    rng = random.Random(seed)
    return {t: random_bag(rng, columns(t, *types), rows, signed) for t in ("l", "r")}


SMALL = Call("LessThan", (column(L, 0), Literal(2, "int")), "boolean")
SUM_OF_ZEROS = Output(Column("x", "x", "double"), column(L, 1))

LINEAR: dict[str, Rel] = {
    "filter": Filter(L, SMALL),
    "project": Project(L, (SUM_OF_ZEROS, Output(Column("y", "y", "boolean"), SMALL))),
    "negate": Negate(L),
    "expand": Expand(L, (
        (Output(Column("x`.", "x", "double"), column(L, 1)), Output(Column("y", "y", "string"), column(L, 2))),
        (Output(Column("x`.", "x", "double"), Literal(None, "double")), Output(Column("y", "y", "string"), column(L, 2))),
        (Output(Column("x`.", "x", "double"), column(L, 1)), Output(Column("y", "y", "string"), Literal("a", "string"))),
    )),
    "negate a plain bag": Negate(Values(columns("v", "int"), ((1,), (1,), (None,)))),
    "union": Union((L, Negate(L), L)),
    "union with a plain bag": Union((L, Project(Values((), ((), ())), tuple(Output(c, Literal(None, c.type)) for c in L.columns)))),
    "consolidate": Consolidate(Union((L, L))),
    "support": Support(Union((L, Filter(Negate(L), SMALL)))),
    "sort": Sort(L, (SortKey(column(L, 0)),)),
    "values": Values(columns("v", "int", "string", "double"), ((1, "a'`b", -0.0), (None, None, None), (1, "a'`b", 0.0))),
    "empty values": empty(columns("v", "int", "array<double>")),
    "one row without columns": Values((), ((),)),
    "inner join, both signed": Join(L, R, "inner", equal(column(L, 0), column(R, 0))),
    "inner join, null-safe": Join(L, R, "inner", same(column(L, 1), column(R, 1))),
    "cross join with a condition": Join(L, R, "inner", Call("LessThan", (column(L, 0), column(R, 0)), "boolean")),
    "cross join": Join(L, Filter(R, Literal(True, "boolean")), "inner"),
}  # fmt: skip


@pytest.mark.parametrize("name", LINEAR)
def test_linear_operators(spark: SparkSession, name: str) -> None:
    check(spark, LINEAR[name], tables_for(1, signed=True))


FOUND = Column("f`o.und", "found", "boolean")


@pytest.mark.parametrize("kind", ["left", "full", "semi", "anti", "exists"])
@pytest.mark.parametrize("signed", [True, False])
def test_joins_of_sets(spark: SparkSession, kind: JoinKind, signed: bool) -> None:
    left, right = SETS[signed]
    by_key = equal(column(L, 0), column(R, 0))
    null_aware = Call("Or", (equal(column(L, 1), column(R, 1)), Call("IsNull", (column(R, 1),), "boolean")), "boolean")
    tables = tables_for(2, signed=False)
    for on in (conjunction(by_key, null_aware), null_aware):
        check(spark, Join(left, right, kind, on, marker_of(kind)), tables)
    check(spark, Join(left, Filter(right, Literal(False, "boolean")), kind, by_key, marker_of(kind)), tables)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_of_a_not_in_that_reads_nothing_of_the_right_side(spark: SparkSession, rows: int) -> None:
    is_two = equal(column(L, 0), Literal(2, "int"))
    on = Call("Or", (is_two, Call("IsNull", (is_two,), "boolean")), "boolean")
    left = SignedBag.of([(i, 0.0, "a") for i in (1, 2, None)])
    check(spark, Join(L, Project(PLAIN_R, ()), "anti", on), {"l": left, "r": SignedBag({(2, 0.0, "a"): rows}.items())})


def marker_of(kind: JoinKind) -> Column | None:
    return FOUND if kind == "exists" else None


@pytest.mark.parametrize("kind", ["left", "semi", "anti", "exists"])
def test_joins_are_linear_on_the_left(spark: SparkSession, kind: JoinKind) -> None:
    tables = {"l": tables_for(3, signed=True)["l"], "r": tables_for(4, signed=False)["r"]}
    for right in (Consolidate(R), PLAIN_R):
        check(spark, Join(L, right, kind, same(column(L, 2), column(R, 2)), marker_of(kind)), tables)
        check(spark, Join(L, right, kind, TRUE, marker_of(kind)), tables)


@pytest.mark.parametrize("source", [Consolidate(L), PLAIN_L], ids=["signed", "plain"])
@pytest.mark.parametrize("bag", [EMPTY, SignedBag.of([(1, -0.0, None)]), SignedBag.of([(None, None, None)])])
def test_one_row_of_at_most_one(spark: SparkSession, source: Rel, bag: SignedBag) -> None:
    check(spark, One(source), {"l": bag})


@pytest.mark.parametrize("source", [Consolidate(L), PLAIN_L], ids=["signed", "plain"])
def test_one_row_of_two_equal_ones_is_sparks_error(spark: SparkSession, source: Rel) -> None:
    tables = {"l": SignedBag([((1, 1.0, "a"), 2)])}
    with pytest.raises(Py4JJavaError, match=TOO_MANY_ROWS):
        executor(spark, tables).dataframe(One(source)).collect()
    with pytest.raises(TempuraError, match=TOO_MANY_ROWS):
        evaluate(One(source), leaf_of(tables))


def test_a_full_join_of_a_plain_and_a_weighted_bag(spark: SparkSession) -> None:
    tables = tables_for(5, signed=False)
    on = equal(column(L, 0), column(R, 0))
    check(spark, Join(PLAIN_L, Consolidate(R), "full", on), tables)
    check(spark, Join(Consolidate(L), PLAIN_R, "full", on), tables)


NUMBERS = ("int", "bigint", "decimal(7,2)", "decimal(15,3)", "decimal(30,10)", "double", "string")
N = read("l", *NUMBERS)
PLAIN_N = read("l", *NUMBERS, signed=False)
IS_SMALL = Call("LessThan", (column(N, 0), Literal(2, "int")), "boolean")


def linear_aggregates() -> tuple[AggregateOutput, ...]:
    a = aggregated
    return (
        a("n", "Count", "bigint"),
        a("nf", "Count", "bigint", filter=IS_SMALL),
        a("c", "Count", "bigint", column(N, 5)),
        a("si", "Sum", "bigint", column(N, 0), filter=IS_SMALL, detail="ansi"),
        a("ai", "Average", "double", column(N, 0), detail="ansi"),
        a("sd", "Sum", "decimal(17,2)", column(N, 2), detail="ansi"),
        a("sm", "Sum", "decimal(25,3)", column(N, 3), filter=IS_SMALL, detail="ansi"),
        a("sx", "Sum", "decimal(38,10)", column(N, 4), detail="ansi"),
    )


def all_aggregates() -> tuple[AggregateOutput, ...]:
    a = aggregated
    extremes = (a("lo", "Min", "string", column(N, 6)), a("hi", "Max", "decimal(7,2)", column(N, 2), filter=IS_SMALL))
    return linear_aggregates() + extremes


KEYS: dict[str, tuple[Output, ...]] = {
    "no key": (),
    "string": (key(N, 6, "k"),),
    "float": (key(N, 5, "k"),),
    "two": (key(N, 6, "k"), Output(Column("k2", "k2", "boolean"), IS_SMALL)),
    "constant": (Output(Column("k", "k", "int"), Literal(1, "int")),),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_aggregates_and_their_states(spark: SparkSession, keys: tuple[Output, ...]) -> None:
    signed = tables_for(6, signed=True, rows=60, types=NUMBERS)
    positive = tables_for(7, signed=False, rows=60, types=NUMBERS)
    some = linear_aggregates()
    check(spark, Partial(N, keys, some), signed)
    check(spark, Aggregate(Consolidate(N), keys, all_aggregates()), positive)
    check(spark, Aggregate(PLAIN_N, keys, all_aggregates()), positive)


@pytest.mark.parametrize("keys", [KEYS["no key"], KEYS["two"]], ids=["no key", "two"])
def test_states_of_rows_that_came_and_went_one_by_one(spark: SparkSession, keys: tuple[Output, ...]) -> None:
    """Nothing is multiplied by a weight of 1 or -1; where rows were put together, weights are others again."""
    signed, some = tables_for(8, signed=True, rows=40, types=NUMBERS), linear_aggregates()
    other = read("r", *NUMBERS)
    check(spark, Partial(N, keys, some), signed, units=True)
    check(spark, Partial(Filter(N, IS_SMALL), keys, some), signed, units=True)
    check(
        spark, Partial(Join(N, other, "inner", equal(column(N, 0), column(other, 0))), keys, some), signed, units=True
    )
    check(spark, Partial(Union((N, Negate(N), Consolidate(N))), keys, some), signed, units=True)
    check(spark, Partial(Consolidate(N), keys, some), tables_for(9, signed=False, rows=40, types=NUMBERS), units=True)


@pytest.mark.parametrize("keys", [KEYS["no key"], KEYS["two"]], ids=["no key", "two"])
def test_states_over_nothing(spark: SparkSession, keys: tuple[Output, ...]) -> None:
    nothing = {"l": EMPTY}
    some = all_aggregates()
    check(spark, Partial(N, keys, some), nothing)
    check(spark, Finalize(Partial(PLAIN_N, keys, some), keys, some), nothing)
    check(spark, MergeStates(Partial(N, keys, some), Partial(PLAIN_N, keys, some), keys, some), nothing)
    check(spark, Aggregate(PLAIN_N, keys, some), nothing)


@pytest.mark.parametrize("keys", [KEYS["no key"], KEYS["float"], KEYS["two"]], ids=["no key", "float", "two"])
def test_merging_states_drops_groups_that_are_gone(spark: SparkSession, keys: tuple[Output, ...]) -> None:
    tables = tables_for(8, signed=False, rows=40, types=NUMBERS)
    some = linear_aggregates()
    state, taken = Partial(PLAIN_N, keys, some), Partial(Filter(Negate(PLAIN_N), IS_SMALL), keys, some)
    merged = MergeStates(state, taken, keys, some)
    check(spark, merged, tables)
    check(spark, MergeStates(merged, Partial(Negate(PLAIN_N), keys, some), keys, some), tables)
    more = all_aggregates()
    check(
        spark,
        MergeStates(Partial(PLAIN_N, keys, more), Partial(Filter(PLAIN_N, IS_SMALL), keys, more), keys, more),
        tables,
    )


def test_weights_beyond_one_multiply_decimals_exactly(spark: SparkSession) -> None:
    wide = columns("l", *NUMBERS)
    top = {c.type: v for c, v in zip(wide, (2**31 - 1, 2**63 - 1, 0, 0, 0, 0, 0), strict=True)}
    rows = [(top["int"], top["bigint"], None, None, None, 1.0, "a"), (-1, -(2**63), None, None, None, 1.0, "a")]
    tables = {"l": SignedBag([(rows[0], 10**6), (rows[1], -(10**6) + 1)])}
    some = (
        aggregated("s", "Sum", "bigint", column(N, 0), detail="ansi"),
        aggregated("t", "Sum", "bigint", column(N, 1), detail="ansi"),
    )
    check(spark, Partial(N, KEYS["string"], some), tables)


HOLISTIC = (
    aggregated("cd", "Count", "bigint", column(N, 0), distinct=True),
    aggregated("sd", "Sum", "decimal(17,2)", column(N, 2), distinct=True, detail="ansi"),
    aggregated("n", "Count", "bigint"),
)


@pytest.mark.parametrize("keys", [KEYS["no key"], KEYS["string"]], ids=["no key", "string"])
def test_aggregates_without_state_count_every_copy_of_a_row(spark: SparkSession, keys: tuple[Output, ...]) -> None:
    check(spark, Aggregate(Consolidate(N), keys, HOLISTIC), tables_for(9, signed=False, rows=40, types=NUMBERS))


@pytest.mark.parametrize("aggregates", [(), HOLISTIC[:1]], ids=["none", "some"])
def test_an_aggregation_may_have_keys_only(spark: SparkSession, aggregates: tuple[AggregateOutput, ...]) -> None:
    check(spark, Aggregate(PLAIN_N, KEYS["two"], aggregates), tables_for(10, signed=False, types=NUMBERS))


@pytest.mark.parametrize("limit", [0, 1, 7, 1000])
def test_top_k_breaks_ties_by_all_columns(spark: SparkSession, limit: int) -> None:
    tables = tables_for(11, signed=False, rows=40)
    orders = (
        (SortKey(column(L, 0), ascending=False, nulls_first=False),),
        (SortKey(column(L, 1), ascending=True, nulls_first=False), SortKey(column(L, 2), ascending=False)),
        (),
    )
    for order in orders:
        check(spark, TopK(Consolidate(L), order, limit), tables)
        check(spark, TopK(PLAIN_L, order, limit), tables)


def test_rows_are_consolidated_by_identity(spark: SparkSession) -> None:
    types = ("array<double>", "double", "boolean")
    rng = random.Random(12)
    a, b = read("l", *types), read("r", *types)
    tables = {t: random_bag(rng, columns(t, *types), 60, signed=True) for t in ("l", "r")}
    renamed = Project(b, tuple(Output(c, Ref(d)) for c, d in zip(a.columns, b.columns, strict=True)))
    check(spark, Consolidate(Union((a, renamed))), tables)
    check(spark, Support(Union((a, Negate(renamed)))), tables)


def test_collated_strings_are_consolidated_by_their_bytes(spark: SparkSession) -> None:
    collated = Column("c", "c", "string collate UTF8_LCASE")
    rows = spark.sql(
        "SELECT collate(s, 'UTF8_LCASE') AS f, w AS _w FROM VALUES ('a', 1L), ('A', 2L), ('a', -1L), (NULL, 1L) AS t(s, w)"
    )
    leaf = read("t", collated.type)
    from tempura.execute.spark import SparkExecutor

    made = SparkExecutor(
        spark, lambda r: Draft.of(rows).renamed(leaf.scan.fields[0], "_w"), lambda key: pytest.fail(str(key))
    )
    assert signed_bag(made.dataframe(Consolidate(leaf)), 1) == SignedBag([(("A",), 2), ((None,), 1)])


@pytest.mark.parametrize("type", ["struct<a:variant>", "array<interval>"])
def test_what_cannot_be_compared_is_refused_by_code(spark: SparkSession, type: str) -> None:
    leaf = read("l", type)
    run = executor(spark, {"l": EMPTY})
    with pytest.raises(TempuraError) as refusal:
        run.dataframe(Consolidate(leaf))
    assert refusal.value.code == "NOT_COMPARABLE"


def test_a_negative_weight_fails_where_rows_are_written_out(spark: SparkSession) -> None:
    tables = {"l": SignedBag([((1, 1.0, "a"), -1)])}
    top: Callable[[], object] = executor(spark, tables).dataframe(TopK(L, (), 1)).collect
    with pytest.raises(Exception, match="NEGATIVE_WEIGHT"):
        top()
