"""Windows, lifted and run by the executor, have the values that Spark has; those of the interpreter where it knows the function."""

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.bag import SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Consolidate, Rel, Scan
from tempura.algebra.window import windows
from tempura.execute.draft import Draft
from tempura.execute.spark import SparkExecutor
from tempura.physical.operators import Read
from tempura.tvr.views import Snapshot
from tests.spark.bags import signed_bag
from tests.spark.lifting import data, lift
from tests.spark.versions import since

INTERPRETED = [
    "rank() OVER (PARTITION BY cat ORDER BY price DESC)",
    "dense_rank() OVER (ORDER BY qty > 1 NULLS LAST)",
    "percent_rank() OVER (ORDER BY cat)",
    "cume_dist() OVER (PARTITION BY qty > 1 ORDER BY f)",
    "row_number() OVER (PARTITION BY f ORDER BY o_id, cat)",
    "ntile(3) OVER (ORDER BY o_id, cat)",
    "lag(o_id) OVER (PARTITION BY qty > 0 ORDER BY o_id, cat)",
    "lead(o_id, 2, -o_id) OVER (ORDER BY o_id DESC)",
    "sum(price) OVER (PARTITION BY cat)",
    "avg(qty) OVER (PARTITION BY day)",
    "count(*) OVER ()",
    "count(qty) OVER (ORDER BY day)",
    "sum(qty) OVER (ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    "min(price) OVER (ORDER BY o_id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)",
    "max(day) OVER (PARTITION BY f ORDER BY o_id ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING)",
    *(["sum(qty) FILTER (WHERE o_id > 1) OVER (PARTITION BY f ORDER BY o_id, cat)"] if since(4, 1) else []),
    "first_value(cat) OVER (PARTITION BY f ORDER BY o_id)",
    "last_value(day) OVER (ORDER BY o_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
]
ON_SPARK = [
    "avg(qty) OVER (PARTITION BY f ORDER BY day RANGE BETWEEN INTERVAL 40 DAYS PRECEDING AND CURRENT ROW)",
    "sum(qty) OVER (ORDER BY o_id RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
    "nth_value(o_id, 2) OVER (ORDER BY o_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "lag(day) IGNORE NULLS OVER (ORDER BY o_id)",
    "first_value(day) IGNORE NULLS OVER (ORDER BY o_id)",
    "last_value(day) IGNORE NULLS OVER (ORDER BY o_id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)",
]
TIES = [
    "row_number() OVER (PARTITION BY f ORDER BY day)",
    "lag(price) OVER (ORDER BY cat IS NULL)",
    "sum(qty) OVER (ORDER BY day ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "first_value(o_id) OVER (ORDER BY day)",
    "last_value(o_id) OVER (ORDER BY day DESC)",
    "any_value(o_id) OVER (PARTITION BY day)",
    "last_value(qty) OVER (PARTITION BY f ORDER BY day RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "ntile(2) OVER (PARTITION BY cat IS NULL ORDER BY f)",
]


def over_reads(rel: Rel) -> Rel:
    if isinstance(rel, Scan):
        return Consolidate(Read(rel, Snapshot(0), signed=True))
    return rel.with_inputs(*(over_reads(input) for input in rel.inputs))


def computed(spark: SparkSession, rel: Rel, repartition: int = 1) -> SignedBag:
    """What the executor makes of weighted rows in some physical order."""
    tables = data(spark)
    executor = SparkExecutor(
        spark,
        lambda leaf: Draft.of(
            tables[leaf.scan.table].select(*leaf.scan.fields).selectExpr("*", "1L AS _w").repartition(repartition)
        ),
        lambda key: pytest.fail(str(key)),
    )
    return signed_bag(executor.dataframe(over_reads(rel)), len(rel.columns))


def interpreted(spark: SparkSession, rel: Rel) -> SignedBag:
    tables = data(spark)
    rows = {t: [tuple(row) for row in df.collect()] for t, df in tables.items()}

    def leaf(scan: Rel) -> SignedBag:
        assert isinstance(scan, Scan)
        positions = [tables[scan.table].columns.index(f) for f in scan.fields]
        return SignedBag.of(tuple(row[i] for i in positions) for row in rows[scan.table])

    return evaluate(rel, leaf)


def expected(spark: SparkSession, sql: str) -> SignedBag:
    session = spark.newSession()
    for table, df in data(session).items():
        df.createOrReplaceTempView(table)
    return SignedBag.of(map(tuple, session.sql(sql).collect()))


def by_function(bag: SignedBag, i: int) -> SignedBag:
    return SignedBag((row[:2] + row[i : i + 1], weight) for row, weight in bag.items())


def queries(functions: list[str]) -> list[str]:
    """Six functions at a time."""
    parts = (functions[i : i + 6] for i in range(0, len(functions), 6))
    return [f"SELECT o_id, cat, {', '.join(f'{f} AS w{i}' for i, f in enumerate(part))} FROM sales" for part in parts]


@pytest.mark.parametrize("sql", queries([*INTERPRETED, *ON_SPARK]))
def test_values_are_sparks(spark: SparkSession, sql: str) -> None:
    lifted = lift(spark, sql)
    assert not lifted.reasons
    assert windows(lifted.rel)
    ours, theirs = computed(spark, lifted.rel), expected(spark, sql)
    # Which of two identical rows comes first is decided by each window for itself: one function at a time.
    for i in range(2, lifted.visible):
        assert by_function(ours, i) == by_function(theirs, i), lifted.names[i]


@pytest.mark.parametrize("sql", queries([*INTERPRETED, *TIES]))
def test_the_interpreter_agrees_with_the_executor_in_any_physical_order(spark: SparkSession, sql: str) -> None:
    lifted = lift(spark, sql)
    assert not lifted.reasons
    oracle = interpreted(spark, lifted.rel)
    assert oracle.size == 7
    assert [computed(spark, lifted.rel, n) == oracle for n in (1, 3)] == [True] * 2


def test_what_depends_on_ties(spark: SparkSession) -> None:
    for function in TIES:
        (window,) = windows(lift(spark, f"SELECT {function} AS w FROM sales").rel)
        assert all(f.depends_on_ties for f in window.functions), function
    for function in ("rank() OVER (ORDER BY cat)", "sum(qty) OVER (ORDER BY cat)", "max(qty) OVER (PARTITION BY cat)"):
        (window,) = windows(lift(spark, f"SELECT {function} AS w FROM sales").rel)
        assert not any(f.depends_on_ties for f in window.functions), function


REFUSED = {
    "nth_value(o_id, 2) OVER (ORDER BY day)": "WINDOW_NTH_VALUE",
}


@pytest.mark.parametrize("function", REFUSED)
def test_functions_without_a_defined_value_are_refused(spark: SparkSession, function: str) -> None:
    assert [r.code for r in lift(spark, f"SELECT {function} AS w FROM sales").reasons] == [REFUSED[function]]
