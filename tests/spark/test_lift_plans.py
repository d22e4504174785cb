"""What each operator is lifted to, as short texts."""

import json

import pytest
from pyspark.sql import DataFrame, SparkSession, Window, functions

from tempura.algebra.canonical import fingerprint
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Join, Opaque, Project, Scan, Union
from tempura.algebra.scalar import TRUE
from tempura.frontend.lift import Lifted, lift_dataframe
from tempura.frontend.marker import schema_leaf
from tempura.frontend.opaque import Recompute
from tempura.frontend.operators import Part, PlanLifter
from tempura.frontend.session import clone
from tempura.frontend.tree import Node
from tests.spark.lifting import lift, schemas, tree

PLANS = {
    "scan reads what is used": ("SELECT cat FROM sales", "sales"),
    "filter": ("SELECT o_id FROM returns WHERE cost > 1 AND o_id = 3", None),
    "project": ("SELECT o_id + 1 AS n, o_id FROM returns", "project (o_id + 1) AS n, o_id(returns)"),
    "inner join": (
        "SELECT s.cat, r.cost FROM sales s JOIN returns r ON s.qty < r.cost",
        "project cat, cost(inner-join on (Cast(qty; ansi) < Cast(cost; ansi))"
        "(filter IsNotNull(qty)(sales), filter IsNotNull(cost)(returns)))",
    ),
    "correlated scalar sub-query": (
        "SELECT (SELECT cost FROM returns r WHERE r.o_id = s.o_id) AS c FROM sales s",
        "project cost AS c(single-join on (o_id = o_id)(sales, project cost, o_id(returns)))",
    ),
    "cross join": ("SELECT s.cat, r.cost FROM sales s, returns r", "inner-join on True(sales, returns)"),
    "left join": (
        "SELECT s.o_id, cost FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id",
        "project o_id, cost(left-join on (o_id = o_id)(sales, filter IsNotNull(o_id)(returns)))",
    ),
    "right join is a left join exchanged": (
        "SELECT cat, r.o_id, cost FROM sales s RIGHT JOIN returns r ON s.o_id = r.o_id",
        "project cat, o_id, cost(left-join on (o_id = o_id)(returns, filter IsNotNull(o_id)(sales)))",
    ),
    "full join": (
        "SELECT s.o_id, r.o_id FROM sales s FULL JOIN returns r ON s.o_id = r.o_id",
        "full-join on (o_id = o_id)(sales, returns)",
    ),
    "semi join": (
        "SELECT cat FROM sales s WHERE EXISTS (SELECT 1 FROM returns r WHERE r.o_id = s.o_id)",
        "project cat(semi-join on (o_id = o_id)(filter IsNotNull(o_id)(sales), filter IsNotNull(o_id)(returns)))",
    ),
    "null-aware anti join": (
        "SELECT cat FROM sales WHERE o_id NOT IN (SELECT o_id FROM returns)",
        "project cat(anti-join on ((o_id = o_id) OR IsNull((o_id = o_id)))(sales, returns))",
    ),
    "existence join": (
        "SELECT o_id IN (SELECT o_id FROM returns) AS x FROM sales",
        "project exists AS x(exists-join on (o_id = o_id)(sales, returns))",
    ),
    "existence join under OR": (
        "SELECT cat FROM sales s WHERE qty > 1 OR EXISTS (SELECT 1 FROM returns r WHERE r.o_id = s.o_id)",
        "project cat(filter ((qty > 1) OR exists)(exists-join on (o_id = o_id)(sales, returns)))",
    ),
    "scalar sub-query that always has one row": (
        "SELECT cost FROM returns WHERE cost > (SELECT MAX(price) FROM sales)",
        "project cost(filter (cost > max(price))(inner-join on True(filter IsNotNull(cost)(returns), "
        "project max(price)(aggregate  : Max(price) AS max(price)(sales)))))",
    ),
    "scalar sub-query": (
        "SELECT o_id, (SELECT cost FROM returns WHERE o_id = 3) AS c FROM sales",
        None,
    ),
    "rollup": (
        "SELECT cat, COUNT(*) AS n FROM sales GROUP BY ROLLUP (cat)",
        "project cat, n(aggregate cat, spark_grouping_id : Count(*) AS n"
        "(expand cat, 0 AS spark_grouping_id | NULL AS cat, 1 AS spark_grouping_id(sales)))",
    ),
    "self join": (
        "SELECT a.cost FROM returns a JOIN returns b ON a.cost < b.cost",
        "project cost(inner-join on (cost < cost)(filter IsNotNull(cost)(returns), filter IsNotNull(cost)(returns)))",
    ),
    "aggregate": (
        "SELECT cat, SUM(price) AS total, COUNT(*) AS n, AVG(qty) FROM sales GROUP BY cat",
        "aggregate cat : Sum(price; ansi) AS total, Count(*) AS n, Average(qty; ansi) AS avg(qty)(sales)",
    ),
    "aggregate without keys": ("SELECT MAX(cost) AS m FROM returns", "aggregate  : Max(cost) AS m(returns)"),
    "results over keys and aggregates": (
        "SELECT SUM(cost) / COUNT(cost) AS a, o_id + 1 AS k FROM returns GROUP BY o_id HAVING MIN(cost) > 0",
        None,
    ),
    "distinct and filter": (
        "SELECT COUNT(DISTINCT o_id) AS d, SUM(cost) FILTER (WHERE o_id > 1) AS s FROM returns",
        "aggregate  : Count(DISTINCT o_id) AS d, Sum(cost; ansi) FILTER (o_id > 1) AS s(returns)",
    ),
    "window": (
        "SELECT o_id, RANK() OVER (PARTITION BY o_id ORDER BY cost) AS r FROM returns",
        "project o_id, r(window partition by o_id order by cost ASC NULLS FIRST : Rank() rows start..0 AS r(returns))",
    ),
    "generate": (
        "SELECT o_id, x FROM sales LATERAL VIEW OUTER explode(xs) t AS x",
        "project o_id, x(generate outer x by Explode(xs)(sales))",
    ),
    "grouping expression": (
        "SELECT year(day) AS y, COUNT(*) AS n FROM sales GROUP BY year(day)",
        "project _groupingexpression AS y, n(aggregate _groupingexpression : Count(*) AS n"
        "(project Year(day) AS _groupingexpression(sales)))",
    ),
    "select distinct": ("SELECT DISTINCT cost FROM returns", "aggregate cost : (returns)"),
    "union all is positional": (
        "SELECT cat FROM sales UNION ALL SELECT CAST(o_id AS STRING) FROM returns",
        "union(project cat(sales), project Cast(o_id; ansi) AS cat(returns))",
    ),
    "decimal sums and averages stay": (
        "SELECT AVG(cost) AS a FROM returns",
        "aggregate  : Average(cost; ansi) AS a(returns)",
    ),
    "limit over a sort": (
        "SELECT cost FROM returns ORDER BY cost DESC LIMIT 3",
        "top 3 by cost DESC NULLS LAST(returns)",
    ),
    "limit without order": ("SELECT cost FROM returns LIMIT 3", "top 3 by all columns(returns)"),
    "limit by a column that is not selected": (
        "SELECT cost FROM returns ORDER BY o_id LIMIT 3",
        "top 3 by o_id ASC NULLS FIRST(project cost, o_id(returns))",
    ),
    "values": ("SELECT * FROM VALUES (1, 'a'), (2, NULL) AS t(a, b)", "values(2 rows)"),
    "no FROM": ("SELECT 1 AS one", "project 1 AS one(values(1 rows))"),
    "sub-query alias, CTE and hint leave no trace": (
        "WITH r AS (SELECT cost FROM returns) SELECT /*+ BROADCAST(t) */ * FROM (SELECT * FROM r) AS t",
        "returns",
    ),
}


@pytest.mark.parametrize("case", [case for case, (_, plan) in PLANS.items() if plan])
def test_plan(spark: SparkSession, case: str) -> None:
    sql, plan = PLANS[case]
    assert tree(spark, sql) == plan


def test_filters_and_having_are_filters_of_the_algebra(spark: SparkSession) -> None:
    assert tree(spark, PLANS["filter"][0]) == (
        "project o_id(filter ((IsNotNull(cost) AND IsNotNull(o_id)) AND ((cost > Decimal('1.00')) AND (o_id = 3)))(returns))"
    )


def test_a_scalar_sub_query_is_read_beside_each_row(spark: SparkSession) -> None:
    rel = lift(spark, PLANS["scalar sub-query"][0]).rel
    (one,) = [r for r in rel.walk() if isinstance(r, One)]
    assert "filter" in str(one)
    (join,) = [r for r in rel.walk() if isinstance(r, Join)]
    assert (join.kind, join.on) == ("inner", TRUE)


def test_equal_sub_queries_are_one_relation(spark: SparkSession) -> None:
    again = "(SELECT MAX(cost) - MIN(cost) FROM returns)"
    rel = lift(spark, f"SELECT o_id, {again} AS a, {again} + 1 AS b FROM sales WHERE qty < {again}").rel
    assert len([r for r in rel.walk() if isinstance(r, Aggregate)]) == 1


def test_a_sub_query_beside_aggregates_is_read_above_them(spark: SparkSession) -> None:
    text = tree(spark, "SELECT cat, SUM(qty) * (SELECT COUNT(*) FROM returns) AS x FROM sales GROUP BY cat")
    assert text.startswith("project cat, ")
    assert text.index("inner-join") < text.index("aggregate cat")


def test_result_expressions_read_the_aggregates_columns(spark: SparkSession) -> None:
    text = tree(spark, PLANS["results over keys and aggregates"][0])
    assert text.startswith("project a, k(filter (IsNotNull(min(cost)) AND (min(cost) > Decimal('0.00')))(project ")
    assert "aggregate o_id : Sum(cost; ansi) AS sum(cost), Count(cost) AS count(cost), Min(cost) AS min(cost)" in text


def test_a_scan_knows_its_fields(spark: SparkSession) -> None:
    rel = lift(spark, "SELECT price, o_id FROM sales WHERE qty > 3").rel
    scan = next(r for r in rel.walk() if isinstance(r, Scan))
    assert scan.fields == ("o_id", "price", "qty")
    assert [c.type for c in scan.outputs] == ["int", "decimal(7,2)", "bigint"]


def test_columns_are_numbered_in_the_order_of_lifting(spark: SparkSession) -> None:
    sql = "SELECT s.o_id + 1 AS x FROM sales s JOIN returns r ON s.o_id = r.o_id"
    first, second = lift(spark, sql).rel, lift(spark, sql).rel
    ids = [[c.id for r in rel.walk() for c in r.columns] for rel in (first, second)]
    assert ids[0] == ids[1]
    assert all(id.startswith("c") for id in ids[0])
    assert first == second


def test_a_join_never_shares_a_column_between_its_sides(spark: SparkSession) -> None:
    rel = lift(
        spark,
        "WITH r AS (SELECT o_id, cost FROM returns) SELECT * FROM r a JOIN r b USING (o_id) JOIN r c USING (o_id)",
    ).rel
    for join in (r for r in rel.walk() if len(r.inputs) == 2):
        assert not set(join.inputs[0].columns) & set(join.inputs[1].columns)


def test_order_by_a_hidden_expression(spark: SparkSession) -> None:
    lifted = lift(spark, "SELECT cost AS c FROM returns ORDER BY o_id + 1 DESC, c NULLS LAST")
    assert [str(key) for key in lifted.order] == ["(o_id + 1) DESC NULLS LAST", "c ASC NULLS LAST"]
    assert lifted.visible == 1
    assert [c.name for c in lifted.rel.columns] == ["c", "o_id"]


def test_order_inside_of_a_sub_query_has_no_effect(spark: SparkSession) -> None:
    lifted = lift(spark, "SELECT cost, COUNT(*) AS n FROM (SELECT * FROM returns ORDER BY o_id) GROUP BY cost")
    assert lifted.order == ()
    assert str(lifted.rel) == "aggregate cost : Count(*) AS n(returns)"


def test_names_may_repeat_and_columns_do_not(spark: SparkSession) -> None:
    lifted = lift(spark, "SELECT cost, cost, o_id AS cost FROM returns")
    assert lifted.names == ("cost", "cost", "cost")
    assert len(set(lifted.rel.columns)) == 3


def test_schema_is_the_users(spark: SparkSession) -> None:
    lifted = lift(spark, "SELECT COUNT(*) AS n, MAX(cost) AS m FROM returns")
    fields = json.loads(lifted.schema)["fields"]
    assert [(f["name"], f["type"], f["nullable"], f["metadata"]) for f in fields] == [
        ("n", "long", False, {}),
        ("m", "decimal(7,2)", True, {}),
    ]


def test_the_schema_does_not_show_the_marker(spark: SparkSession) -> None:
    df = schema_leaf(spark, "returns", schemas()["returns"]).select("o_id")
    assert "tempura" not in lift_dataframe(df).schema


def test_a_dataframe_is_lifted_like_sql(spark: SparkSession) -> None:
    returns = schema_leaf(spark, "returns", schemas()["returns"])
    df = returns.where(functions.col("o_id") > 1).groupBy("o_id").agg(functions.sum("cost").alias("total"))
    sql = "SELECT o_id, SUM(cost) AS total FROM returns WHERE o_id > 1 GROUP BY o_id"
    assert lift_dataframe(df).rel == lift(spark, sql).rel


RECOMPUTED = {
    "SELECT cat, NTH_VALUE(o_id, 2) OVER (ORDER BY day) AS n FROM sales": "WINDOW_NTH_VALUE",
    "SELECT * FROM returns TABLESAMPLE (100 PERCENT)": "SAMPLE",
    "SELECT * FROM returns LIMIT 3 OFFSET 1": "OFFSET",
    "SELECT * FROM returns OFFSET 1": "OFFSET",
    "SELECT id FROM range(3)": "RANGE",
    "SELECT m FROM odd": "UNCOMPARABLE_TYPE",
    "SELECT v FROM odd": "UNCOMPARABLE_TYPE",
    "SELECT `s t` FROM odd": "TYPE_TEXT",
    "SELECT c, COUNT(*) FROM odd GROUP BY c": "COLLATED_GROUPING",
    "SELECT COUNT(*) FROM (SELECT DISTINCT named_struct('a', o_id, 'A', cost) AS z FROM returns)": "FIELDS_ALIKE",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r": "RECURSION",
}


@pytest.mark.parametrize("sql", RECOMPUTED)
def test_what_the_algebra_cannot_express_is_recomputed_with_a_reason(spark: SparkSession, sql: str) -> None:
    lifted = lift(spark, sql)
    assert [reason.code for reason in lifted.reasons] == [RECOMPUTED[sql]]
    (part,) = opaque(lifted)
    assert isinstance(part.handle, Recompute)
    assert len(part.handle.inputs) == len(part.inputs)
    assert len(lifted.rel.columns) == len(lifted.names) == lifted.visible


def opaque(lifted: Lifted) -> list[Opaque]:
    """The parts of a query that are recomputed."""
    return [r for r in lifted.rel.walk() if isinstance(r, Opaque)]


PIECES = {
    "SELECT s.o_id, n FROM sales s JOIN (SELECT o_id, NTH_VALUE(cost, 2) OVER (PARTITION BY o_id ORDER BY cost) AS n FROM returns "
    "WHERE cost > 0) x ON s.o_id = x.o_id": "Filter",
    "SELECT * FROM (SELECT * FROM returns ORDER BY cost, o_id LIMIT 3 OFFSET 1) x JOIN sales s ON x.o_id = s.o_id": "Scan",
    "SELECT s.o_id, r.id FROM sales s JOIN range(3) r ON s.o_id = r.id": "",
    "SELECT o_id, a FROM returns r JOIN (SELECT id, m['a'] AS a FROM odd) o ON r.o_id = o.id": "Scan",
    "SELECT o_id, z FROM returns r JOIN (SELECT id, `s t`.`a b` + 1 AS z FROM odd) o ON r.o_id = o.id": "Scan",
}  # fmt: skip


@pytest.mark.parametrize("sql", PIECES)
def test_only_the_operator_that_cannot_be_lifted_is_recomputed(spark: SparkSession, sql: str) -> None:
    """Above it there is a join of the algebra, below it what gives its input."""
    lifted = lift(spark, sql)
    (part,) = opaque(lifted)
    assert any(isinstance(r, Join) and part in r.walk() for r in lifted.rel.walk())
    assert ", ".join(type(i).__name__ for i in part.inputs) == PIECES[sql]


def test_what_is_recomputed_is_told_from_what_other_views_mean(spark: SparkSession) -> None:
    """The text of a query, which tells it from others, says of views and functions the names only; of tables it need not say more."""

    def keys(sql: str, n: int) -> set[str]:
        session = clone(spark)
        session.range(n).toDF("o_id").createOrReplaceTempView("numbers")
        return {part.key for part in opaque(lift(session, sql))}

    assert keys("SELECT o_id FROM numbers", 1).isdisjoint(keys("SELECT o_id FROM numbers", 2))
    assert keys("SELECT o_id FROM numbers", 2) == keys("SELECT o_id FROM numbers", 2)
    text = "SELECT o_id FROM returns OFFSET 1"
    assert keys(text, 1) == keys(text, 2) == {f"{text}\n-- 1"}


def test_what_is_recomputed_keeps_the_order_of_the_query(spark: SparkSession) -> None:
    lifted = lift(
        spark, "SELECT o_id, cost FROM returns WHERE o_id IN (SELECT o_id FROM sales) ORDER BY cost DESC OFFSET 1"
    )
    (part,) = opaque(lifted)
    assert [str(key) for key in lifted.order] == ["cost DESC NULLS LAST"]
    assert isinstance(part.inputs[0], Join)


def test_an_order_that_a_recomputed_query_hides_is_said(spark: SparkSession) -> None:
    lifted = lift(spark, "SELECT -cost AS c FROM returns ORDER BY o_id OFFSET 1")
    assert [reason.code for reason in lifted.reasons] == ["OFFSET", "ORDER_HIDDEN"]
    assert lifted.order == ()


def _dataframe(
    session: SparkSession, offset: int = 1, extra: int = 5, table: str = "returns", ansi: bool = True
) -> DataFrame:
    """A DataFrame of which parts are recomputed."""
    session.conf.set("spark.sql.ansi.enabled", ansi)
    rows = schema_leaf(session, table, schemas()["returns"])
    second = functions.nth_value("o_id", 2).over(Window.orderBy(functions.col("o_id") + functions.lit(extra)))
    constant = session.sql(f"SELECT * FROM VALUES ({extra}, 0.5BD) AS t(o_id, cost)")
    cut = rows.unionAll(constant).orderBy("cost", "o_id").offset(offset)
    return rows.select("o_id", second.alias("n")).join(cut, "o_id")


def test_a_dataframe_is_recomputed_in_parts_like_sql(spark: SparkSession) -> None:
    lifted = lift_dataframe(_dataframe(clone(spark)))
    assert sorted(reason.code for reason in lifted.reasons) == ["OFFSET", "WINDOW_NTH_VALUE"]
    assert all(
        isinstance(r, Scan | Union | Project)
        for part in opaque(lifted)
        for i in part.inputs
        for r in i.walk()
        if r.inputs
    )
    assert any(
        isinstance(r, Join) and len([o for o in r.walk() if isinstance(o, Opaque)]) == 2 for r in lifted.rel.walk()
    )


def test_equal_dataframes_are_equal_and_others_are_not(spark: SparkSession) -> None:
    own = clone(spark)
    made = fingerprint(lift_dataframe(_dataframe(own)).rel)
    assert fingerprint(lift_dataframe(_dataframe(own)).rel) == made, "built anew"
    others = (
        _dataframe(own, offset=2),
        _dataframe(own, extra=6),
        _dataframe(own, table="other"),
        _dataframe(own, ansi=False),
    )
    assert len({made, *(fingerprint(lift_dataframe(other).rel) for other in others)}) == 5


def test_functions_in_parts_of_a_dataframe_are_told_by_their_code(spark: SparkSession) -> None:
    returns = schema_leaf(spark, "returns", schemas()["returns"])

    def made(step: int) -> str:
        order = functions.udf(lambda x: x + step, "int")("o_id")
        df = returns.select(functions.nth_value("o_id", 2).over(Window.orderBy(order)).alias("n"))
        return fingerprint(lift_dataframe(df).rel)

    assert made(1) == made(1) != made(2)


def test_an_operator_that_cannot_be_lifted_costs_its_inputs_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    scan = PlanLifter.scan

    def counted(lifter: PlanLifter, node: Node, table: str) -> Part:
        found.append(table)
        return scan(lifter, node, table)

    monkeypatch.setattr(PlanLifter, "scan", counted)
    sql = "returns"
    for _ in range(4):
        sql = f"(SELECT o_id, NTH_VALUE(cost, 2) OVER (ORDER BY o_id) AS cost FROM {sql})"
    assert len(opaque(lift(spark, f"SELECT * FROM {sql}"))) == 4
    assert found == ["returns"]
