"""Sketches of what Spark writes, and that constants of a query, as Spark's optimizer leaves them, are found among frequent values."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.algebra.rel import Aggregate, Filter, Rel
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.sketches import known_sketches
from tempura.warehouse.warehouse import Warehouse

ROWS = """SELECT id, if(id % 10 = 0, 'rare', 'usual') AS kind, CAST(id % 4 AS DECIMAL(7,2)) AS price,
    date_add(DATE'2026-03-01', if(id % 5 = 0, 1, 0)) AS day, id % 3 = 0 AS third,
    timestamp_seconds(1772366400 + 3600 * (id % 6)) AS moment FROM range({}, {})"""


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return tp.open(tmp_path / "wh", spark=spark)


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        ("kind = 'rare'", 0.1),
        ("price = 3", 0.25),
        ("price IN (1, 2.00)", 0.5),
        ("day = DATE'2026-03-02'", 0.2),
        ("moment = timestamp_seconds(1772366400)", 1 / 6),
        ("id = 77", 1 / 1200),
    ],
)
def test_constants_are_found_among_frequent_values(
    wh: Warehouse, spark: SparkSession, condition: str, share: float
) -> None:
    table = wh.add_table(
        "t", schema="id BIGINT, kind STRING, price DECIMAL(7,2), day DATE, third BOOLEAN, moment TIMESTAMP"
    )
    query = wh.add_query(
        "q", f"SELECT id, kind, price, day, third, moment FROM t WHERE {condition}", schedule=tp.Schedule.view()
    )
    for start in (0, 600):
        table.append(spark.sql(ROWS.format(start, start + 600)))
        query.run()
        assert query.verify()
    found = known_sketches(wh.table("t").arrivals)
    assert {name: round(sketch.values()) for name, sketch in found.items() if name != "id"} == {
        "kind": 2,
        "price": 4,
        "day": 2,
        "third": 2,
        "moment": 6,
    }
    assert found["id"].values() == pytest.approx(1_200, rel=0.15)
    plan = query.plan(methods="batch").plan
    (step,) = plan.steps[-1:]
    estimates = [step.notes[rel].rows for rel in operators(step.emit) if isinstance(rel, Filter)]
    # The last step is the next refresh, before which as many rows as the last time are expected.
    assert estimates[0] == pytest.approx(1_800 * share, rel=0.2)


def test_bytes_are_counted_by_what_spells_them_and_what_has_no_values_to_tell_apart_is_not(
    wh: Warehouse, spark: SparkSession
) -> None:
    table = wh.add_table("t", schema="id BIGINT, key BINARY, tags ARRAY<INT>")
    rows = "SELECT id, if(id % 5 = 4, NULL, unhex(hex(200 + id % 5))) AS key, array(1) AS tags FROM range({}, {})"
    query = wh.add_query(
        "q", "SELECT key, id % 2 AS odd, count(*) AS n, max(size(tags)) AS m FROM t GROUP BY key, id % 2"
    )
    pairs = "SELECT a.id FROM t a JOIN t b ON a.key = b.key AND a.id = b.id"
    joined = wh.add_query("p", pairs)
    for start in (0, 600):
        table.append(spark.sql(rows.format(start, start + 600)))
        for each in (query, joined):
            each.run()
            assert each.verify()
    found = known_sketches(wh.table("t").arrivals)
    assert found["key"].values() == 4
    assert found["id, key"].values() == pytest.approx(960, rel=0.15)
    about = wh.table("t").stats()["columns"]
    assert (about["key"]["distinct"], about["tags"]["distinct"]) == (4, None)
    assert "distinct" not in about["tags"]["from"]


def test_rows_that_no_file_of_ours_holds_yet_are_looked_at_where_they_are(
    wh: Warehouse, spark: SparkSession, tmp_path: Path
) -> None:
    """Those of a folder of CSV, which a run copies: a plan before it is told of them what the run will be."""
    kinds = "id BIGINT, kind STRING, price DECIMAL(7,2), day DATE, third BOOLEAN, moment TIMESTAMP"
    rows = spark.sql(ROWS.format(0, 600))
    rows.coalesce(1).write.csv(str(tmp_path / "lake"), header=True)
    table = wh.add_table("t", path=tmp_path / "lake", format="csv", schema=kinds, options={"header": "true"})
    query = wh.add_query("q", "SELECT kind, price, day, third, moment, sum(id) AS n FROM t GROUP BY ALL")
    prospect = Prospect(table.arrivals)
    seen = known_sketches(prospect, prospect.schema.names)
    assert known_sketches(table.arrivals) == {}
    plan = query.plan()
    assert known_sketches(table.arrivals) == {}
    query.run()
    there = known_sketches(table.arrivals)
    assert set(seen) == set(table.schema.names) < set(there)
    for name, sketch in seen.items():
        assert (sketch.values(), sketch.shares()) == (there[name].values(), there[name].shares())
    step = plan.plan.steps[0]
    (groups,) = [step.notes[rel].rows for rel in operators(step.emit) if isinstance(rel, Aggregate)]
    assert groups < 600, "as many rows as there are would be expected of columns that nobody has looked at"


def operators(rel: Rel | None) -> list[Rel]:
    return [] if rel is None else [rel, *(inner for child in rel.inputs for inner in operators(child))]
