"""Aggregation before joins and after them, on Spark: each law is forced, and its plans give what Spark gives at every time."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Aggregate, Rel, renamed, scans
from tempura.cost.estimate import Estimator
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.frontend.lift import lift_sql
from tempura.memo.edge import Edge
from tempura.memo.memo import Memo
from tempura.rules.dsl import Rule
from tempura.rules.eager import EAGER, LAZY
from tempura.rules.grouping import GROUPING
from tempura.rules.methods import REWRITES
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.saturate import Saturation
from tests.plans.random_queries import Table
from tests.spark.bags import signed_bag
from tests.spark.steps import Run, schema_of

SCHEMAS = {"sales": "item INT, price DECIMAL(7,2), n BIGINT", "items": "id INT, brand STRING"}
A, B, C = Decimal("10.50"), Decimal("-0.05"), Decimal("99999.99")
SALES = [
    (1, A, 1),
    (1, A, 1),
    (1, B, None),
    (2, None, 5),
    (2, C, 7),
    (2, C, 7),
    (3, None, None),
    (None, A, 9),
    (4, B, 2),
]
ITEMS = [(1, "x"), (1, "x"), (2, "y"), (3, None), (5, "z"), (None, "x")]
TABLES = {
    "sales": Table(
        "sales",
        (
            SignedBag.of(SALES),
            SignedBag.of([(1, C, 3), (5, A, 1)]) - SignedBag.of([(1, A, 1), (2, None, 5), (2, C, 7)]),
        ),
    ),
    "items": Table(
        "items", (SignedBag.of(ITEMS), SignedBag.of([(4, "x"), (2, "y")]) - SignedBag.of([(1, "x"), (3, None)]))
    ),
}
"""NULLs as keys and values, rows that repeat, groups that vanish, lose one of two equal rows, or are left with NULLs only."""

VALUES = "sum(price) AS t, count(price) AS c, count(*) AS r, avg(price) AS a, min(price) AS l"
GROUPS = "(SELECT item, count(*) AS r, count(price) AS c FROM sales GROUP BY item) s"
QUERIES = {
    "split_aggregate_below_left": f"""SELECT item, id, brand, {VALUES} FROM sales JOIN items ON item = id
        GROUP BY item, id, brand""",
    "split_aggregate_below_right": f"""SELECT item, id, brand, {VALUES} FROM items JOIN sales ON item = id
        GROUP BY item, id, brand""",
    "split_projected_aggregate_below_left": "SELECT brand, sum(price * 2) AS t, count(price) AS c, max(n + 1) AS m "
    "FROM sales LEFT JOIN items ON item = id GROUP BY brand",
    "split_projected_aggregate_below_right": "SELECT brand, sum(price * 2) AS t, count(price) AS c, max(n + 1) AS m "
    "FROM items JOIN sales ON item = id GROUP BY brand",
    "split_aggregate_below_many": """SELECT b.brand, sum(price * 2) AS t, count(price) AS c, max(n + 1) AS m, avg(price) AS a
        FROM items a JOIN sales ON item = a.id JOIN items b ON a.id = b.id GROUP BY b.brand""",
    "merge_aggregate_below_left": f"""SELECT item, id, brand, sum(r) AS r, sum(c) AS c FROM {GROUPS} JOIN items ON item = id
        GROUP BY item, id, brand""",
    "merge_aggregate_below_right": f"""SELECT item, id, brand, sum(r) AS r, sum(c) AS c FROM items JOIN {GROUPS} ON item = id
        GROUP BY item, id, brand""",
    "merge_aggregates": """SELECT n, sum(r) AS r, max(m) AS m FROM
        (SELECT item, n, count(*) AS r, max(price) AS m FROM sales GROUP BY item, n) GROUP BY n""",
    "group_before_join": f"""SELECT item, m, max(m) AS same, {VALUES}
        FROM sales JOIN (SELECT max(id) AS m FROM items) ON true GROUP BY item, m""",
}  # fmt: skip
PADDED = {
    "split_aggregate_below_right": """SELECT item, id, brand, sum(price) AS t, count(price) AS c, min(price) AS l
        FROM items LEFT JOIN sales ON item = id GROUP BY item, id, brand""",
    "split_projected_aggregate_below_right": "SELECT brand, sum(price) AS t, count(price) AS c, max(n) AS m "
    "FROM items LEFT JOIN sales ON item = id GROUP BY brand",
    "group_before_join": f"""SELECT id, b, min(b) AS same, {VALUES}
        FROM sales JOIN (SELECT id, max(brand) AS b FROM items GROUP BY id) ON item = id GROUP BY id, b""",
}  # fmt: skip
"""The same laws where rows of the other side match nothing."""

ALONE = {
    "split_aggregate_below_many": """SELECT b.brand, a.brand AS other FROM items a JOIN sales ON item = a.id JOIN items b ON a.id = b.id
        GROUP BY b.brand, a.brand""",
}
"""The same where only groups are asked for."""

LAWS = (*EAGER, *LAZY, *GROUPING)
ASKED = [(rule, known[rule.name]) for known in (QUERIES, PADDED, ALONE) for rule in LAWS if rule.name in known]


def lifted(spark: SparkSession, sql: str) -> Rel:
    """The algebra of a text. Catalyst puts a projection between two aggregations unless the upper one reads all columns of the
    lower one: so it is lifted with one key more, which is taken away then."""
    schemas = {table: schema_of(ddl) for table, ddl in SCHEMAS.items()}
    if "GROUP BY item, n)" not in sql:
        return lift_sql(spark, sql, schemas).rel
    query = lift_sql(
        spark, sql.replace("SELECT n,", "SELECT n, item,").replace(") GROUP BY n", ") GROUP BY n, item"), schemas
    ).rel
    assert isinstance(query, Aggregate)
    return replace(query, keys=query.keys[:1])


def forced(query: Rel, rule: Rule) -> Rel:
    """The query as one rule rewrites it, wherever that has something to say."""
    many = {name: ColumnStats(10.0) for ddl in SCHEMAS.values() for name in schema_of(ddl).names}
    memo = Memo()
    top = memo.add(query)
    large = {table: TableFacts((1_000_000,), (0,), 1, columns=many) for table in SCHEMAS}
    Saturation(memo, (rule,), Estimator(large, memo.representative)).run(budget=1)

    def tree(rel: Rel) -> Rel:
        if not isinstance(rel, Edge):
            return rel.with_inputs(*map(tree, rel.inputs))
        members = [m for m in memo.members(rel) if m.rule == rule.name] or memo.members(rel)
        return renamed(tree(members[0].rel), rel.columns)

    rewritten = tree(memo.find(top))
    assert any(member.rule == rule.name for member in memo.made), f"{rule.name} has nothing to say of {query}"
    return renamed(rewritten, query.columns)


def test_each_law_is_asked() -> None:
    assert {rule.name for rule, _ in ASKED} == {rule.name for rule in LAWS}


@pytest.mark.parametrize(("rule", "sql"), ASKED, ids=lambda part: getattr(part, "name", ""))
def test_plans_of_each_law_give_what_spark_gives(spark: SparkSession, tmp_path: Path, rule: Rule, sql: str) -> None:
    session = spark.newSession()
    # Arithmetic that may fail is not moved below a join.
    session.conf.set("spark.sql.ansi.enabled", "false")
    query = lifted(session, sql)
    rewritten = forced(query, rule)
    assert rewritten != query
    run = Run(session, tmp_path, TABLES, SCHEMAS)
    facts = {scan.table: TABLES[scan.table].facts(2) for scan in scans(rewritten)}
    asked = Problem(rewritten, (Point(1.0, True), Point(1.0, True)), facts)
    plan = make_plan(asked, ("im1",), without=[rule.name for rule in REWRITES])
    given = run.results(plan, len(query.columns))
    assert given == [signed_bag(run.batch(sql, t), len(query.columns)) for t in range(2)]
    assert given[0] != given[1]
