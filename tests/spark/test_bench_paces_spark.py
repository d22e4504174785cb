"""``tempura bench paces`` on Spark: queries are lifted, and what is run over bags is Spark's answer."""

import pytest
from pyspark.sql import SparkSession

from tempura.bench.paces import Paces, measure_paces, summarised
from tempura.bench.paces_cpu import measure_cpu
from tempura.warehouse.engine import Verification
from tempura.warehouse.paces.paced import PacedQuery


@pytest.mark.slow
def test_the_batch_run_over_bags_is_spark_s_answer(spark: SparkSession) -> None:
    asked = Paces(0.001, (0.2,), ("inqp", "uniform"))
    rows = {row["query"]: row for row in measure_paces(spark, asked, "q13,q14,q22,q_aggjoin", lambda told: None)}
    assert list(rows) == ["q13", "q14", "q22", "q_aggjoin"]
    for name, row in rows.items():
        assert row["error"] is None, name
        assert row["as_spark"], name
        assert [case["error"] for case in row["cases"]] == [None, None], name


@pytest.mark.slow
def test_cpu_seconds_are_those_of_flushes_in_a_warehouse(spark: SparkSession) -> None:
    asked = Paces(0.001, (0.5,), ("inqp", "uniform"), work="cpu", max_pace=3)
    rows = list(measure_cpu(spark, asked, "q13,q_outer", lambda told: None))
    assert [(row["query"], row["error"]) for row in rows] == [("q13", None), ("q_outer", None)]
    for row in rows:
        assert row["batch"] > 0
        assert row["one_flush"]["flushes"] == 1
        assert sorted(case["strategy"] for case in row["cases"]) == ["inqp", "uniform"]
        for case in (row["one_flush"], *row["cases"]):
            assert case["flushes"] == len(case["by_flush"])
            assert case["by_flush"][-1]["progress"] == 1
            assert 0 < case["final_s"] <= case["cpu_s"]
            assert case["additional"] == pytest.approx(case["cpu_s"] - row["batch"], abs=2e-3)
            assert case["met"] == (case["final_s"] <= case["constraint"] * row["batch"])
    found = summarised(rows, "cpu")
    assert set(found["uniform_ratio"]) == {"q13", "q_outer"}
    assert found["planning_ms"] == {"p80": None, "max": None}


@pytest.mark.slow
def test_a_wrong_result_is_the_error_of_its_query(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Paces(0.001, (0.5,), ("uniform",), work="cpu", max_pace=2)
    monkeypatch.setattr(PacedQuery, "verify", lambda self, rows: Verification(False, 0, (), (), "a test"))
    (row,) = measure_cpu(spark, asked, "q6", lambda told: None)
    assert row["error"].startswith("WRONG_RESULT: q6")
    assert row["cases"] == []
