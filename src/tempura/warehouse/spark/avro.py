"""Records in Avro's binary encoding, without a header, by one schema for all of a topic."""

import json
from typing import Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.frontend.catalyst import first_line
from tempura.warehouse.declared.text import CHANGE
from tempura.warehouse.engine import TopicRead
from tempura.warehouse.spark.broker import no_package
from tempura.warehouse.spark.rows import nullable

_PACKAGE = "org.apache.spark:spark-avro_2.13"


def columns_and_schema(
    session: SparkSession, table: str, columns: StructType | None, schema: str
) -> tuple[StructType, str]:
    """Columns and the Avro schema of their records, one derived from the other where it is not given.

    Raises TempuraError NO_PACKAGE; BAD_SCHEMA when the schema is none, or has no such columns.
    """
    jvm: Any = session._jvm
    avro = jvm.org.apache.spark.sql.avro
    # Newer versions of Spark have all but the functions without the package.
    if isinstance(avro.AvroDataToCatalyst, JavaPackage):
        raise no_package(session, "values in Avro", _PACKAGE)
    converters = avro.SchemaConverters
    if not schema:
        if columns is None:
            what = f"Table {table} has neither columns nor an Avro schema."
            raise TempuraError("BAD_SCHEMA", what, "Give schema or avro_schema.", "Give --schema or --avro-schema.")
        java = session._jsparkSession.parseDataType(columns.json())
        return columns, str(converters.toAvroType(java, False, "record", "").toString())
    found = _columns(jvm, converters, table, schema)
    if columns is None:
        return StructType([field for field in found.fields if field.name != CHANGE]), schema
    known = {field.name: field.dataType for field in found.fields}
    for field in columns.fields:
        if field.name not in known or nullable(known[field.name]) != nullable(field.dataType):
            types = f"{known[field.name].simpleString()}" if field.name in known else "nothing"
            what = f"Table {table}: column {field.name} is {field.dataType.simpleString()}, and {types} in its Avro schema."
            raise TempuraError("BAD_SCHEMA", what, "Let both say the same, or give only one of them.")
    return columns, schema


def _columns(jvm: Any, converters: Any, table: str, schema: str) -> StructType:
    try:
        parsed = jvm.org.apache.avro.Schema.Parser().parse(schema)
        found = StructType.fromJson(json.loads(converters.toSqlType(parsed).dataType().json()))
    except (Py4JJavaError, KeyError, AttributeError) as error:
        what = f"Table {table}: its Avro schema is not that of a record: {first_line(error)}"
        raise TempuraError("BAD_SCHEMA", what, "Correct it.") from error
    if not isinstance(found, StructType) or any(
        field.name == CHANGE and field.dataType.simpleString() != "string" for field in found
    ):
        raise TempuraError("BAD_SCHEMA", f"Table {table}: its Avro schema is not that of a record.", "Correct it.")
    return found


def avro_values(value: SparkColumn, text: SparkColumn, asked: TopicRead) -> SparkColumn:
    """A record whose bytes are what the schema would write, where that is one sequence of bytes: else a value of another schema, or with a
    registry's header, would pass for one of this."""
    from pyspark.sql.avro.functions import from_avro, to_avro

    schema = asked.kafka.avro_schema
    fields = {field["name"]: field["type"] for field in json.loads(schema)["fields"]}
    parsed = from_avro(value, schema, {"mode": "PERMISSIVE"})
    needed = [parsed.getField(name).isNull() for name, type in fields.items() if not _may_be_null(type)]
    unread = parsed.isNull()
    for missing in needed:
        unread = unread | missing
    again = fn.lit(True) if _has_blocks(schema) else to_avro(parsed, schema) == value
    fits = fn.when(unread, fn.lit(False)).otherwise(again)
    why = fn.when(~fn.coalesce(fits, fn.lit(False)), fn.lit("its bytes are not a record of the table's Avro schema"))
    row = fn.struct(
        *(
            (parsed.getField(f.name) if f.name in fields else fn.lit(None)).cast(f.dataType).alias(f.name)
            for f in asked.schema.fields
        )
    )
    change = parsed.getField(CHANGE) if CHANGE in fields else fn.lit(None)
    return fn.struct(row.alias("row"), change.cast("string").alias("change"), why.alias("why"))


def _may_be_null(type: Any) -> bool:
    return type == "null" or (isinstance(type, list) and "null" in type)


def _has_blocks(schema: str) -> bool:
    """Whether values may be written in more than one way: arrays and maps are, in blocks of any size."""
    return any(f'"{kind}"' in schema for kind in ("array", "map"))
