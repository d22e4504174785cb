"""Records of a topic as rows of a table: what each says, what is wrong with those that fit nothing, and the last of each key."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from tempura.errors import TempuraError
from tempura.execute.draft import Draft
from tempura.execute.naming import attribute
from tempura.warehouse.batches.places import place_columns
from tempura.warehouse.declared.text import CHANGE
from tempura.warehouse.engine import KINDS, Changes, Source, TopicRead
from tempura.warehouse.spark.avro import avro_values
from tempura.warehouse.spark.incoming import Coming, rows_under
from tempura.warehouse.spark.json_text import is_one_value
from tempura.warehouse.spark.places import can_place
from tempura.warehouse.spark.rows import columns_of

_RECORD = "_tempura_record"
_NOT_BLANK = r"[^\x00-\x20]"
_SHOWN = 200
"""Characters of a value that a message quotes."""


def changes_of(session: SparkSession, records: DataFrame, asked: TopicRead, present: Source) -> Changes:
    """What records change. Raises TempuraError BAD_RECORD for the first that does not fit, unless such are to be set aside."""
    # What is counted, set aside and taken must be one evaluation.
    judged = _judged(records, asked).localCheckpoint(eager=True)
    good = attribute("why").isNull()
    counts = judged.select(
        fn.count_if(~good), fn.count_if(good & attribute("gone")), fn.count_if(good & ~attribute("gone"))
    ).first()
    assert counts is not None
    bad, gone, put = counts
    if bad and asked.kafka.on_bad_record == "fail":
        raise _refused(asked, judged, bad)
    aside = _aside(judged.filter(~good)) if bad else None
    rows = judged.filter(good)
    if asked.keys:
        rows = _last_of_each_key(rows)
    puts = rows.filter(~attribute("gone")).select("row.*") if put else None
    deleted = rows.filter(attribute("gone"))
    if not asked.keys:
        return Changes(inserts=puts, deletes=deleted.select("row.*") if gone else None, aside=aside)
    if not gone:
        return Changes(updates=puts, aside=aside)
    if present.rows.can_be_located and can_place(present.schema):
        places = place_columns(present.schema.names)
        return Changes(updates=puts, placed=_rows_of_keys(session, deleted, asked.keys, present, places), aside=aside)
    return Changes(updates=puts, deletes=_rows_of_keys(session, deleted, asked.keys, present), aside=aside)


def _last_of_each_key(rows: DataFrame) -> DataFrame:
    """The last record of each key: in a partition that of the greatest offset; of several partitions, which have no order, the youngest."""
    one = fn.struct("timestamp", "partition", "offset", "gone", "key", "row")
    last = rows.groupBy("key", "partition").agg(fn.max_by(one, "offset").alias("last"))
    order = fn.struct("last.timestamp", "last.partition")
    return last.groupBy("key").agg(fn.max_by("last", order).alias("last")).select("last.*")


def _rows_of_keys(
    session: SparkSession, deleted: DataFrame, keys: Sequence[str], present: Source, places: Sequence[str] = ()
) -> DataFrame | None:
    """The rows that are there under the keys of records that delete, with their places if the columns for these have names."""
    ids = [column.id for column in columns_of(present.schema) if column.name in keys]
    names = [name for name in present.schema.names if name in keys]
    coming = Draft.of(deleted.select(*(attribute("key").getField(name) for name in names))).renamed(*ids)
    found = rows_under(session, present, Coming(coming), keys, places)
    return None if found.isEmpty() else found


def _aside(bad: DataFrame) -> DataFrame:
    text = fn.col("value").cast("string")
    shown = fn.when(fn.is_valid_utf8(text), text).otherwise(fn.hex("value")).alias("text")
    place = (fn.col("partition"), fn.col("offset"), fn.col("timestamp").alias("time"), fn.col("why"))
    return bad.orderBy("partition", "offset").select(*place, fn.col("raw_key").alias("key"), "value", shown)


def _refused(asked: TopicRead, judged: DataFrame, bad: int) -> TempuraError:
    first = (
        judged.filter(attribute("why").isNotNull()).orderBy("partition", "offset").select("partition", "offset", "why")
    )
    row = first.first()
    assert row is not None
    what = f"Table {asked.table}: the record of topic {asked.kafka.topic}, partition {row[0]}, offset {row[1]} does not fit: {row[2]}."
    what += f" {bad - 1} more do not." if bad > 1 else ""
    remedy = 'Correct the table, or set such records aside: on_bad_record = "quarantine" in tempura.toml.'
    return TempuraError("BAD_RECORD", f"{what} Nothing was changed.", remedy)


# --- what each record says --------------------------------------------------------------------------------------------


def _judged(records: DataFrame, asked: TopicRead) -> DataFrame:
    """Each record with ``why`` it does not fit, NULL if it does; the ``row`` in the table's columns, the ``key`` in those of its key, and
    whether it says that the row is ``gone``; ``raw_key`` and ``value`` as they came."""
    text = fn.col("value").cast("string")
    read = {"json": _json, "csv": _csv, "avro": avro_values}[asked.kafka.value_format]
    valued = records.withColumnRenamed("key", "raw_key").withColumn("read", read(fn.col("value"), text, asked))
    names, keys = asked.schema.names, [name for name in asked.schema.names if name in asked.keys]
    told, values = attribute("read").getField("change"), attribute("read").getField("row")
    tombstone = fn.col("value").isNull()
    spelt = _key_spelt(asked, keys)
    key = (
        fn.when(tombstone, spelt).otherwise(fn.struct(*(values.getField(n).alias(n) for n in keys)))
        if keys
        else fn.lit(None)
    )
    row = fn.struct(*(values.getField(name).alias(name) for name in names))
    wrong = fn.when(tombstone, _wrong_tombstone(keys, spelt)).otherwise(
        fn.coalesce(attribute("read").getField("why"), _wrong_change(told, asked), _wrong_key(values, keys))
    )
    gone = tombstone | fn.coalesce(told == "delete", fn.lit(False))
    place = ("partition", "offset", "timestamp", "raw_key", "value")
    return valued.select(*place, wrong.alias("why"), gone.alias("gone"), key.alias("key"), row.alias("row"))


def _key_spelt(asked: TopicRead, keys: Sequence[str]) -> SparkColumn:
    """The key of a record in the columns of the table's: plain text in the only one, or a JSON object."""
    text = fn.col("raw_key").cast("string")
    fields = [field for field in asked.schema.fields if field.name in keys]
    if not fields:
        return fn.lit(None)
    if asked.kafka.key_format == "text":
        return fn.struct(text.try_cast(fields[0].dataType).alias(fields[0].name))
    whole = StructType([*fields, StructField(_RECORD, StringType())])
    parsed = _parsed(text, whole, _permissive({"timeZone": asked.options.get("timeZone", "UTC")}))
    return fn.struct(*(parsed.getField(field.name).alias(field.name) for field in fields))


def _wrong_tombstone(keys: Sequence[str], spelt: SparkColumn) -> SparkColumn:
    if not keys:
        return fn.lit("it has no value, which deletes by key, and the table has no keys")
    missing = [spelt.getField(name).isNull() for name in keys]
    said = fn.coalesce(_quoted(fn.col("raw_key").cast("string")), fn.lit("nothing"))
    what = fn.concat(fn.lit("it has no value, and its key says "), said, fn.lit(f", not {', '.join(keys)}"))
    return fn.when(fn.greatest(*missing) if len(missing) > 1 else missing[0], what)


def _wrong_change(told: SparkColumn, asked: TopicRead) -> SparkColumn:
    known = KINDS if asked.keys else KINDS[:2]
    why = f", not {', '.join(known)}" + ("" if asked.keys else ": the table has no keys")
    return fn.when(~told.isin(*known), fn.concat(fn.lit(f"{CHANGE} is "), _quoted(told), fn.lit(why)))


def _wrong_key(values: SparkColumn, keys: Sequence[str]) -> SparkColumn:
    found = (fn.when(values.getField(n).isNull(), fn.lit(f"column {n}, of the key, is NULL")) for n in keys)
    return fn.coalesce(*found, fn.lit(None).cast("string"))


def _quoted(text: SparkColumn) -> SparkColumn:
    return fn.concat(fn.lit("'"), fn.left(text, fn.lit(_SHOWN)), fn.lit("'"))


# --- JSON and CSV -----------------------------------------------------------------------------------------------------


def _permissive(options: Mapping[str, str]) -> dict[str, str]:
    return {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _RECORD}


def _whole(schema: StructType, change: bool = True) -> StructType:
    changes = [StructField(CHANGE, StringType())] if change else []
    return StructType([*schema.fields, *changes, StructField(_RECORD, StringType())])


def _texts(schema: StructType, change: bool = True) -> StructType:
    return StructType([StructField(f.name, StringType()) for f in _whole(schema, change).fields])


def _parsed(text: SparkColumn, schema: StructType, options: Mapping[str, str]) -> SparkColumn:
    """JSON in the columns of a schema; NULL of text that is blank."""
    # The parser makes NULL of blank text. Spark 4.0 does not expect that of text that is there when it optimizes a struct of the fields:
    # its generated code fails.
    return fn.from_json(fn.when(text.rlike(_NOT_BLANK), text), schema, options)


def _json(value: SparkColumn, text: SparkColumn, asked: TopicRead) -> SparkColumn:
    """One JSON object, and nothing after it."""
    options = _permissive(asked.options)
    parsed = _parsed(text, _whole(asked.schema), options)
    alone = fn.json_array_length(fn.concat(fn.lit("["), text, fn.lit("]"))) == 1
    alone = fn.ltrim(text).startswith("{") & alone & is_one_value(text, asked.options)
    reasons = [
        fn.when(~fn.is_valid_utf8(text), fn.lit("it is not text in UTF-8")),
        fn.when(~fn.coalesce(alone, fn.lit(False)), fn.concat(_quoted(text), fn.lit(" is not one JSON object"))),
        _wrong_value(parsed, _parsed(text, _texts(asked.schema), options), asked.schema, text),
    ]
    if asked.refuse:
        known = fn.array(*(fn.lit(name) for name in (*asked.schema.names, CHANGE)))
        other = fn.array_except(fn.json_object_keys(text), known)
        what = fn.concat(fn.lit("it has "), fn.array_join(other, ", "), fn.lit(", which the table has not"))
        reasons.append(fn.when(fn.size(other) > 0, what))
    return _read(parsed, asked.schema, reasons)


def _csv(value: SparkColumn, text: SparkColumn, asked: TopicRead) -> SparkColumn:
    """The table's columns in their order, perhaps with what happens to the row after them."""
    options = _permissive(asked.options)
    plain, told = (fn.from_csv(text, _whole(asked.schema, change).toDDL(), options) for change in (False, True))
    # Where a last column is missing the parser says the same as of a value that does not fit.
    of_both = (*asked.schema.names, _RECORD)
    widened = fn.struct(*(plain.getField(n).alias(n) for n in of_both), fn.lit(None).cast("string").alias(CHANGE))
    narrowed = fn.struct(*(told.getField(n).alias(n) for n in of_both), told.getField(CHANGE).alias(CHANGE))
    parsed = fn.when(told.getField(_RECORD).isNull(), narrowed).otherwise(widened)
    spelt = fn.from_csv(text, _texts(asked.schema, False).toDDL(), options)
    reasons = [
        fn.when(~fn.is_valid_utf8(text), fn.lit("it is not text in UTF-8")),
        _wrong_value(parsed, spelt, asked.schema, text),
    ]
    return _read(parsed, asked.schema, reasons)


def _wrong_value(parsed: SparkColumn, spelt: SparkColumn, schema: StructType, text: SparkColumn) -> SparkColumn:
    """The first value that does not fit, where a parser has kept the record."""
    found = (
        fn.when(
            parsed.getField(f.name).isNull() & spelt.getField(f.name).isNotNull() & spelt.getField(_RECORD).isNull(),
            fn.concat(
                fn.lit(f"column {f.name} has the value "),
                _quoted(spelt.getField(f.name)),
                fn.lit(f", but the table expects {f.dataType.simpleString()}"),
            ),
        )
        for f in schema.fields
    )
    whole = fn.concat(_quoted(text), fn.lit(f" is not a record of {', '.join(schema.names)}"))
    return fn.when(parsed.getField(_RECORD).isNotNull(), fn.coalesce(*found, whole))


def _read(parsed: SparkColumn, schema: StructType, reasons: Sequence[SparkColumn]) -> SparkColumn:
    row = fn.struct(*(parsed.getField(name).alias(name) for name in schema.names))
    return fn.struct(row.alias("row"), parsed.getField(CHANGE).alias("change"), fn.coalesce(*reasons).alias("why"))
