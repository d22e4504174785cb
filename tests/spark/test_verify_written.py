"""What a check holds a result to is what Spark's own plan of the query determines, not what the lifted relation still knows of it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import tempura as tp
from tempura.algebra.rel import Rel, TopK
from tempura.algebra.scalar import SortKey
from tempura.algebra.window import Window, WindowOutput
from tempura.frontend import operators
from tempura.frontend.lift import analysed
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.spark.written import determined_places
from tempura.warehouse.warehouse import Warehouse
from tests.spark.versions import since

DDL = "k INT, v INT, x INT, m MAP<STRING, INT>, xs ARRAY<INT>"
FIRST = "SELECT k, v, x FROM t ORDER BY v LIMIT 2"
NUMBERED = "row_number() OVER (PARTITION BY k ORDER BY v)"
DETERMINED = {
    "SELECT k, v + x AS y FROM t ORDER BY v": {"k y"},
    FIRST: {"v"},
    "SELECT v AS a, k, 1 AS one, v + 1 AS b FROM t ORDER BY v LIMIT 2 OFFSET 1": {"a b one"},
    "SELECT k FROM t ORDER BY v LIMIT 2": {""},
    "SELECT k FROM t LIMIT 2": {""},
    "SELECT k, v FROM (SELECT * FROM t ORDER BY v, k) WHERE x > 0 LIMIT 2": {"k v"},
    "SELECT k, x FROM t ORDER BY v + 1 LIMIT 2": {""},
    f"SELECT k FROM ({FIRST}) ORDER BY k LIMIT 1": set(),
    f"SELECT k, x FROM ({FIRST}) WHERE x > 0": set(),
    f"SELECT v, count(*) AS n, sum(x) AS s, max(v) AS w FROM ({FIRST}) GROUP BY v": {"n v w"},
    f"SELECT sum(v) AS s, count(*) AS n, sum(x) AS z FROM ({FIRST})": {"n s"},
    f"SELECT DISTINCT v FROM ({FIRST})": {"v"},
    f"SELECT DISTINCT k FROM ({FIRST})": set(),
    f"SELECT k, v FROM ({FIRST}) UNION ALL SELECT k, v FROM t": {"v"},
    f"WITH c AS ({FIRST}) SELECT a.v, b.v AS w, a.k FROM c a JOIN c b ON a.v = b.v": {"v w"},
    f"WITH c AS ({FIRST}) SELECT a.v FROM c a JOIN c b ON a.k = b.k": set(),
    f"SELECT k FROM t WHERE v IN (SELECT v FROM ({FIRST}))": {"k"},
    f"SELECT k FROM t WHERE k IN (SELECT k FROM ({FIRST}))": set(),
    "SELECT k, (SELECT max(x) FROM t) AS y, (SELECT x FROM t ORDER BY v LIMIT 1) AS z FROM t": {"k y"},
    "SELECT k FROM t WHERE EXISTS (SELECT * FROM t WHERE v > 3 LIMIT 1)": {"k"},
    "SELECT k, first(v) AS f, collect_list(x) AS c, avg(v) AS a FROM t GROUP BY k": {"a k"},
    f"SELECT k, v, m, {NUMBERED} AS n FROM t": {"k m v", "k n v"},
    f"SELECT k, x, m FROM (SELECT *, {NUMBERED} AS n FROM t) WHERE n = 1": {"k"},
    "SELECT k, x, rank() OVER (PARTITION BY k ORDER BY v) AS r, sum(x) OVER (ORDER BY v) AS s FROM t": {"k r s x"},
    "SELECT k, x, sum(x) OVER (PARTITION BY k ORDER BY v ROWS UNBOUNDED PRECEDING) AS s FROM t": {"k x"},
    f"SELECT v, sum(x) AS s, count(*) AS n FROM ({FIRST}) GROUP BY v WITH ROLLUP": {"n v"},
    "SELECT k, e FROM t LATERAL VIEW explode(xs) AS e": {"e k"},
    "SELECT e FROM (SELECT xs, v FROM t ORDER BY v LIMIT 1) LATERAL VIEW explode(xs) AS e": set(),
    f"SELECT t.k, c.x FROM t, LATERAL ({FIRST}) AS c": set(),
    "SELECT k FROM t EXCEPT SELECT v FROM t": {"k"},
    f"SELECT k FROM t EXCEPT SELECT k FROM ({FIRST})": set(),
}  # fmt: skip
if since(4, 1):
    DETERMINED["WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r"] = {"n"}


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    wh = tp.open(tmp_path / "wh", spark=spark, clock=lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))
    rows = ((1, 9, 1), (2, 8, 2), (3, 1, 7), (3, 2, 8), (3, 1, 6), (3, 1, 5))
    made = ", ".join(f"({k}, {v}, {x}, map('a', {x}), array({x}))" for k, v, x in rows)
    wh.add_table("t", schema=DDL).append(spark.sql(f"SELECT * FROM VALUES {made} AS t(k, v, x, m, xs)"))
    return wh


def test_what_is_determined_of_a_query_as_it_was_written(spark: SparkSession) -> None:
    columns = StructType.fromDDL(DDL)
    assert isinstance(columns, StructType)
    found = {}
    for sql in DETERMINED:
        plan = analysed(spark, sql, {"t": columns})
        names = [str(name) for name in plan.schema().fieldNames()]
        found[sql] = {" ".join(sorted(names[i] for i in some)) for some in determined_places(spark, plan)}
    assert found == DETERMINED


def without_order(rel: Rel, order: tuple[SortKey, ...], limit: int) -> TopK:
    return TopK(rel, (), limit)


def without_order_inside(
    rel: Rel, partition: tuple[object, ...], order: object, functions: tuple[WindowOutput, ...]
) -> Window:
    return Window(rel, partition, (), functions)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operator", "fault", "sql"),
    [
        ("TopK", without_order, FIRST),
        ("TopK", without_order, "SELECT sum(v) AS s FROM (SELECT v FROM t ORDER BY v DESC LIMIT 2)"),
        ("Window", without_order_inside, "SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x DESC) AS n FROM t"),
    ],
)
def test_an_order_that_is_lost_on_the_way_is_noticed(
    wh: Warehouse, monkeypatch: pytest.MonkeyPatch, operator: str, fault: Callable[..., Rel], sql: str
) -> None:
    monkeypatch.setattr(operators, operator, fault)
    query = wh.add_query("q", sql=sql)
    query.run(methods="im1")
    assert not query.verify()
    monkeypatch.undo()
    sound = wh.add_query("sound", sql=sql)
    sound.run(methods="im1")
    assert sound.verify(), str(sound.verify())


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (f"SELECT k, v, m, {NUMBERED} AS n FROM t", "Spark's (k, v, m) and (k, v, n)"),
        (f"SELECT k, m FROM (SELECT *, {NUMBERED} AS n FROM t) WHERE n = 1", "Spark's (k)"),
    ],
)
def test_only_ties_differ_beside_maps(wh: Warehouse, spark: SparkSession, tmp_path: Path, sql: str, said: str) -> None:
    """An operator that Spark computes as it is breaks ties as it happens to meet rows."""
    query = wh.add_query("q", sql=sql)
    query.run()
    rows = wh.table("t").df().orderBy("x", ascending=False).coalesce(1)
    rows.write.parquet(str(tmp_path / "other"))
    (file,) = (tmp_path / "other").glob("*.parquet")
    found = query.verify({"t": Rows((str(file),))})
    assert found, str(found)
    assert said in found.how
    fewer = spark.read.parquet(str(file)).where("v < 9").coalesce(1)
    fewer.write.parquet(str(tmp_path / "fewer"))
    (file,) = (tmp_path / "fewer").glob("*.parquet")
    assert not query.verify({"t": Rows((str(file),))})
