"""Rows net of few deletions: the same rows as by grouping all of them, and only what is like a deleted row is grouped."""

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.algebra.bag import SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Consolidate, Filter, Project, Rel, Union
from tempura.algebra.scalar import Call, Literal, Output, Ref
from tempura.execute.contract import StoredState
from tempura.execute.draft import Draft
from tempura.execute.naming import weight
from tempura.execute.spark import SparkExecutor
from tempura.physical.operators import Read, StateKey
from tempura.warehouse.engine import Source
from tempura.warehouse.spark.rows import read_deletions
from tempura.warehouse.warehouse import Warehouse
from tests.spark.bags import DOMAINS, columns, frame, leaf_of, random_bag, read, signed_bag

MIXED = ("int", "double", "string", "decimal(7,2)")
L, R = read("l", *MIXED), read("r", *MIXED)
SHORT = columns("s", "int", "string")


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletions are few whatever they are."""
    monkeypatch.setattr("tempura.physical.deletions.LARGE_BYTES", 0)
    monkeypatch.setattr("tempura.physical.deletions.PART", 1.0)


def executor(spark: SparkSession, tables: dict[str, SignedBag]) -> SparkExecutor:
    """An executor that is told of the deletions among what it reads."""

    def rows(leaf: Read) -> Draft:
        types = [column.type for column in leaf.columns]
        return Draft.of(frame(spark, tables[leaf.scan.table], leaf.scan.fields, types, leaf.signed))

    def deleted(leaf: Read) -> Draft:
        return rows(leaf).filter(weight() < 0)

    return SparkExecutor(spark, rows, dict[StateKey, StoredState]().__getitem__, deleted=deleted)


def short(rel: Rel) -> Project:
    """Two columns, in which rows become equal that were not."""
    return Project(rel, tuple(Output(c, Ref(rel.columns[i])) for c, i in zip(SHORT, (0, 2), strict=True)))


def some(rel: Rel) -> Filter:
    return Filter(rel, Call("GreaterThan", (Ref(rel.columns[0]), Literal(-1, "int")), "boolean"))


NETTED = {
    "rows": Consolidate(L),
    "some rows": Consolidate(some(L)),
    "some columns": Consolidate(short(some(L))),
    "a sum": Consolidate(Union((short(L), short(R)))),
    "a sum with what only grows": Consolidate(Union((short(L), short(read("p", *MIXED, signed=False))))),
}


@pytest.mark.parametrize("name", NETTED)
@pytest.mark.parametrize("seed", range(3))
def test_the_same_rows_as_by_grouping_all(spark: SparkSession, name: str, seed: int) -> None:
    rng = random.Random(seed)
    tables = {t: random_bag(rng, L.columns, 25, signed=True) for t in ("l", "r")}
    tables["p"] = random_bag(rng, L.columns, 10, signed=False)
    rel = NETTED[name]
    found = executor(spark, tables).dataframe(rel)
    assert signed_bag(found, len(rel.columns)) == evaluate(rel, leaf_of(tables))
    plan = found._jdf.queryExecution().optimizedPlan().toString()
    assert "LeftAnti" in plan, plan


@pytest.mark.parametrize("type", DOMAINS)
def test_rows_of_any_type(spark: SparkSession, type: str) -> None:
    """Of -0.0 and 0.0 neither takes the other away; where equality is not identity nothing is looked up."""
    signed = read("t", type)
    tables = {"t": random_bag(random.Random(type), signed.columns, 25, signed=True)}
    rel = Consolidate(signed)
    found = executor(spark, tables).dataframe(rel)
    assert signed_bag(found, 1) == evaluate(rel, leaf_of(tables))
    looked_up = "LeftAnti" in found._jdf.queryExecution().optimizedPlan().toString()
    assert looked_up == (type not in ("double", "array<double>"))


def test_what_a_row_occurs_more_often_than_it_is_deleted_stays(spark: SparkSession) -> None:
    pair = read("t", "int", "int")
    tables = {"t": SignedBag([((1, 1), 3), ((1, 1), -1), ((2, 2), 2), ((2, 2), -2), ((3, 3), 1), ((None, None), 1)])}
    found = executor(spark, tables).dataframe(Consolidate(pair))
    assert signed_bag(found, 2) == SignedBag([((1, 1), 2), ((3, 3), 1), ((None, None), 1)])


VIEWS = {
    "first": "SELECT o_id, cat FROM sales WHERE price > 1 ORDER BY o_id, cat LIMIT 5",
    "kinds": "SELECT cat, COUNT(DISTINCT price) AS n, MAX(o_id) AS last FROM sales GROUP BY cat",
    "both": "SELECT s.cat, r.cost FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id",
}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each read of signed rows, whether its deletions were few."""
    found: list[bool] = []

    def spied(session: SparkSession, source: Source, read: Read) -> Draft | None:
        deletions = read_deletions(session, source, read)
        found.append(deletions is not None)
        return deletions

    monkeypatch.setattr("tempura.warehouse.spark.spark_engine.read_deletions", spied)
    return found


def open_site(spark: SparkSession, folder: Path) -> Warehouse:
    return tp.open(folder / "wh", spark=spark, clock=lambda: datetime(2026, 3, 1, tzinfo=UTC))


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("methods", ["im1", "batch"])
@pytest.mark.parametrize("trust", [False, True])
def test_tables_that_lose_rows(
    spark: SparkSession, tmp_path: Path, told: list[bool], methods: str, trust: bool
) -> None:
    """Where it is not known where the deleted rows lie they are set off; else they are left out."""
    wh = open_site(spark, tmp_path)
    sales = wh.add_table("sales", schema="o_id INT, cat STRING, price INT")
    returns = wh.add_table("returns", schema="o_id INT, cost INT")
    sold = [(i % 40, f"c{i % 3}" if i % 7 else None, i % 5) for i in range(120)]
    sales.append(spark.createDataFrame(sold, "o_id INT, cat STRING, price INT").coalesce(1))
    returns.append(spark.createDataFrame([(i, i) for i in range(0, 40, 3)], "o_id INT, cost INT").coalesce(1))
    queries = [wh.add_query(name, sql=sql, schedule=tp.Schedule.view()) for name, sql in VIEWS.items()]
    for gone in (None, sold[:10], sold[30:33]):
        if gone:
            sales.delete(spark.createDataFrame(gone, "o_id INT, cat STRING, price INT").coalesce(1), trust=trust)
        for query in queries:
            query.run(methods=methods)
            assert query.verify(), (query.name, query.verify())
    assert any(told) or not trust, "rows were read net of deletions"


def test_of_few_rows_all_are_grouped(spark: SparkSession, tmp_path: Path, told: list[bool]) -> None:
    """That is one job less."""
    wh = open_site(spark, tmp_path)
    table = wh.add_table("t", schema="a INT")
    table.append(spark.range(100).selectExpr("CAST(id AS INT) AS a").coalesce(1))
    table.delete(spark.range(2).selectExpr("CAST(id AS INT) AS a").coalesce(1), trust=True)
    query = wh.add_query("q", sql="SELECT a FROM t ORDER BY a LIMIT 3", schedule=tp.Schedule.view())
    query.run(methods="batch")
    assert [row.a for row in query.result().collect()] == [2, 3, 4]
    assert told
    assert not any(told)
