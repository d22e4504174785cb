"""Records of a topic as rows, without a broker: what is said of those that fit nothing."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.batches.offsets import Position, Span
from tempura.warehouse.declared.kafka import KafkaSpec
from tempura.warehouse.engine import Source, TopicRead
from tempura.warehouse.spark.records import changes_of

SCHEMA = StructType([StructField("id", IntegerType()), StructField("name", StringType())])


@pytest.mark.parametrize("blank", ["", " ", "\t\r\n "])
def test_blank_text_is_no_row_and_no_key(spark: SparkSession, blank: str) -> None:
    kafka = KafkaSpec("127.0.0.1:1", "t", key_format="json", on_bad_record="quarantine")
    asked = TopicRead("t", kafka, SCHEMA, ("id",), {}, True, Span({}, Position("t", {})))
    sent = [(None, blank), (blank, None), (None, '{"id":1,"name":"a"}')]
    binary = [tuple(text.encode() if text is not None else None for text in record) for record in sent]
    records = spark.createDataFrame(binary, "key BINARY, value BINARY").selectExpr(
        "*", "0 AS partition", "monotonically_increasing_id() AS offset", "current_timestamp() AS timestamp"
    )
    found = changes_of(spark, records.coalesce(1), asked, Source(SCHEMA, Rows()))
    assert found.deletes is None
    assert [tuple(row) for row in found.updates.collect()] == [(1, "a")]  # type: ignore[union-attr]
    said = [row["why"] for row in found.aside.orderBy("offset").collect()]  # type: ignore[union-attr]
    assert said == [
        f"'{blank}' is not one JSON object",
        f"it has no value, and its key says '{blank}', not id",
    ]
