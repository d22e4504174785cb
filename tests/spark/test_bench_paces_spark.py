"""``tempura bench paces`` on Spark: queries are lifted, and what is run over bags is Spark's answer."""

import pytest
from pyspark.sql import SparkSession

from tempura.bench.paces import Paces, measure_paces


@pytest.mark.slow
def test_the_batch_run_over_bags_is_spark_s_answer(spark: SparkSession) -> None:
    asked = Paces(0.001, (0.2,), ("inqp", "uniform"))
    rows = {row["query"]: row for row in measure_paces(spark, asked, "q13,q14,q22,q_aggjoin", lambda told: None)}
    assert list(rows) == ["q13", "q14", "q22", "q_aggjoin"]
    for name, row in rows.items():
        assert row["error"] is None, name
        assert row["as_spark"], name
        assert [case["error"] for case in row["cases"]] == [None, None], name
