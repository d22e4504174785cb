"""``tempura bench estimates``: true rows are those that Spark counts."""

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.rel import Aggregate, Join, Rel
from tempura.bench import states
from tempura.bench.estimates import counted, planned, q_error, summarised
from tempura.bench.planning import Tables
from tempura.bench.sketching import Sketching, sketch_all, totals
from tempura.bench.states import WAYS, Packing, by_way, pack_all
from tempura.data.tpcds import generate
from tempura.frontend.lift import lift_sql
from tempura.frontend.session import clone

SQL = """SELECT n_regionkey, count(*) AS n FROM nation JOIN customer ON n_nationkey = c_nationkey
    WHERE c_mktsegment = 'BUILDING' GROUP BY n_regionkey"""


@pytest.mark.slow
def test_rows_of_operators_are_counted_on_the_way(spark: SparkSession) -> None:
    dataset = generate(0.01, suite="tpch")
    tables = Tables.of(spark, dataset)
    emit, notes = planned(lift_sql(spark, SQL, tables.schemas).rel, tables.facts)
    found = counted(clone(spark), dataset, emit)
    customers = spark.read.parquet(f"file:{dataset.file('customer')}").filter("c_mktsegment = 'BUILDING'").count()
    assert found.keys() <= notes.keys()
    assert of_kind(found, Join) == [customers]
    assert of_kind(found, Aggregate) == [5]


@pytest.mark.slow
def test_what_sketches_take_is_set_against_reading(spark: SparkSession) -> None:
    rows = list(sketch_all(spark, Sketching("tpch", 0.01, repeats=1, distinct=True)))
    assert rows[0]["table"] == "lineitem"
    assert all(row["sketch_s"] > 0 and row["read_s"] > 0 and row["stored_bytes"] > 0 for row in rows)
    assert rows[0]["distinct"]["l_linenumber"] == {"estimated": 7, "true": 7, "q_error": 1.0}
    found = totals(rows)
    assert found["q_error"]["n"] == sum(row["columns"] for row in rows)
    assert found["q_error"]["median"] < 1.2
    assert found["share_of_large"] is None


@pytest.mark.slow
def test_ways_to_pack_states_are_told_apart(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "KINDS", states.KINDS[2:3])
    rows = {row["packed"]: row for row in pack_all(spark, Packing(0.01, repeats=1))}
    assert rows.keys() == WAYS.keys()
    assert {row["rows"] for row in rows.values()} == {28_810}
    assert rows["zstd"]["mb"] < rows["snappy"]["mb"] < rows["not packed"]["mb"]
    assert all(row["read_s"] > 0 for row in rows.values())
    found = by_way(list(rows.values()), reads=2)
    assert found["lz4"]["cpu_s"] == pytest.approx(rows["lz4"]["write_s"] + 2 * rows["lz4"]["read_s"], abs=0.001)


def of_kind(found: dict[Rel, int], kind: type[Rel]) -> list[int]:
    return [rows for rel, rows in found.items() if isinstance(rel, kind)]


def test_a_q_error_is_a_factor_in_either_direction() -> None:
    assert q_error(10, 1_000) == q_error(1_000, 10) == 100
    assert q_error(0, 0) == q_error(0.2, 1) == 1


def test_the_summary_is_of_all_operators_and_of_each_kind() -> None:
    operators = [{"kind": "Join", "q_error": error} for error in (1.0, 2.0, 9.0)]
    found = summarised([{"operators": operators}, {"operators": [{"kind": "Filter", "q_error": 1.0}]}])
    assert {kind: (own["n"], own["median"], own["max"]) for kind, own in found.items()} == {
        "all": (4, 1.5, 9.0),
        "Filter": (1, 1.0, 1.0),
        "Join": (3, 2.0, 9.0),
    }
    assert summarised([])["all"]["n"] == 0
