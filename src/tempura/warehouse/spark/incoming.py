"""Rows that come into tables: whether they fit, what they meet of the rows that are there, and whether the table's promises are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StructType,
)

from tempura.algebra.scalar import Column
from tempura.errors import TempuraError
from tempura.execute.contract import WEIGHT
from tempura.execute.draft import Draft
from tempura.execute.identity import consolidate, is_exact
from tempura.execute.naming import attribute, attributes, ids, one, weight
from tempura.execute.relation import Relation, expand
from tempura.frontend.session import require_running
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.batches.keys import Extremes, Keyed, are_unique, extremes
from tempura.warehouse.batches.parquet import spanned
from tempura.warehouse.declared.text import CHANGE
from tempura.warehouse.engine import MISSING, REPLACED, Changes, Source
from tempura.warehouse.spark.rows import (
    are_few_keys,
    bag_of,
    columns_of,
    file_path,
    located_rows,
    nullable,
    read_files,
    signed_rows,
)

_ORDERED = ("tinyint", "smallint", "int", "bigint", "string")
"""Types whose values a filter compares as Parquet's statistics do, and which Python holds without loss."""

_HASH, _PUT, _UPDATED = "hash", "put", "updated"

_INTEGER_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_INTEGERS = tuple(_INTEGER_DIGITS)


def conform(rows: DataFrame, schema: StructType, table: str, told: SparkColumn | None = None) -> DataFrame:
    """The rows in the table's columns, matched by name. Types are equal, or widened where no value can change. ``told``: what takes the
    place of ``_change``, which they have besides.

    Raises TempuraError WRONG_SCHEMA naming the column, the type found and the type expected, BAD_ROWS for no DataFrame.
    """
    check_frame(rows, f"Rows for table {table}")
    found = {field.name: field.dataType for field in rows.schema.fields}
    if len(found) < len(rows.schema.fields):
        raise _wrong(table, f"two columns of {rows.columns} have the same name", "Rename one.")
    if told is not None:
        del found[CHANGE]
    extra = [name for name in found if name not in schema.names]
    if extra:
        raise _wrong(table, f"there is no column {extra[0]}", f"Its columns are {', '.join(schema.names)}.")
    for field in schema.fields:
        if field.name not in found:
            raise _wrong(table, f"column {field.name} is missing", "Add it, for instance as a NULL.")
        if not _fits(found[field.name], field.dataType):
            types = f"has type {found[field.name].simpleString()}, expected is {field.dataType.simpleString()}"
            raise _wrong(table, f"column {field.name} {types}", "Cast it.")
    also = () if told is None else (told.alias(CHANGE),)
    return rows.select(*(attribute(f.name).cast(f.dataType).alias(f.name) for f in schema.fields), *also)


def check_frame(rows: object, what: str) -> None:
    """Raises TempuraError BAD_ROWS for what is no DataFrame, NO_SESSION for one whose session was stopped."""
    if not isinstance(rows, DataFrame):
        told = f"{what} are a {type(rows).__name__}, not a DataFrame."
        raise TempuraError("BAD_ROWS", told, "Give a DataFrame, as of spark.createDataFrame.")
    require_running(rows.sparkSession)


def _fits(found: DataType, expected: DataType) -> bool:
    if nullable(found) == nullable(expected) or isinstance(found, NullType):
        return True
    if isinstance(found, _INTEGERS) and isinstance(expected, _INTEGERS):
        return _INTEGERS.index(type(found)) <= _INTEGERS.index(type(expected))
    if isinstance(expected, DecimalType):
        digits = expected.precision - expected.scale
        if isinstance(found, DecimalType):
            return found.scale <= expected.scale and found.precision - found.scale <= digits
        return isinstance(found, _INTEGERS) and _INTEGER_DIGITS[type(found)] <= digits
    return isinstance(found, FloatType) and isinstance(expected, DoubleType)


def _wrong(table: str, what: str, remedy: str) -> TempuraError:
    return TempuraError("WRONG_SCHEMA", f"Rows for table {table}: {what}.", remedy)


def differing_rows(session: SparkSession, now: Sequence[DataFrame], before: Source) -> Changes:
    """What inserts and deletes lead from the rows that were there to those that are there now, under the table's names."""
    columns, names = columns_of(before.schema), before.schema.names
    was = signed_rows(session, before).select(*ids(columns), (-weight()).alias(WEIGHT))
    present = (Draft.of(rows).select(*names).renamed(*ids(columns)) for rows in now)
    weighted = [rows.extended(one().alias(WEIGHT)) for rows in present]
    return sides_of(consolidate(was.union(*weighted), columns).dataframe(), columns, names)


def sides_of(net: DataFrame, columns: Sequence[Column], names: Sequence[str]) -> Changes:
    """The inserts and deletes of a bag of rows each of which occurs once, with a weight; under other names. They are computed when they
    are first written, and kept as long as somebody holds them."""
    kind = Column(CHANGE, CHANGE, "string")
    signed = fn.when(fn.col(WEIGHT) > 0, "insert").otherwise("delete").alias(kind.id)
    told = net.select(*attributes(columns), signed, fn.abs(WEIGHT).alias(WEIGHT))
    return Changes(told=bag_of(told, (*columns, kind), (*names, CHANGE)).localCheckpoint(eager=False))


@dataclass(frozen=True, slots=True)
class Coming:
    """Rows by which others are looked for; columns are named as :func:`columns_of` identifies them. ``files`` hold these rows and no
    others, if they are in files."""

    rows: Draft
    files: Source | None = None

    @staticmethod
    def of(session: SparkSession, schema: StructType, arriving: Rows) -> "Coming":
        """The rows that arrive in some files, with weights."""
        files = Rows((*arriving.inserted, *arriving.deleted))
        return Coming(signed_rows(session, Source(schema, arriving)), Source(schema, files))

    def sent(self, rows: Draft) -> Draft:
        """What is looked up of these rows: sent to every task if they are known to be few enough."""
        return rows.broadcast() if self._are_few else rows.distinct()

    def once(self, rows: Draft) -> Draft:
        """These rows, each once; few of them are compared where they are."""
        return (rows.gathered(1) if self._are_few else rows).distinct()

    @property
    def _are_few(self) -> bool:
        return self.files is not None and are_few_keys(self.files.rows)

    def extremes(self, columns: Sequence[Column]) -> dict[Column, Extremes]:
        """What is known of the values in those of some columns of which a filter can make use."""
        ordered = [c for c in columns if c.type in _ORDERED or c.type.startswith("decimal(")]
        if not ordered:
            return {}
        small = self.files if self._are_few else None
        known = extremes(Keyed(small.schema, small.rows, [c.name for c in ordered])) if small else None
        return dict(zip(ordered, known or self._asked(ordered), strict=True))

    def _asked(self, columns: Sequence[Column]) -> list[Extremes]:
        asked = ((fn.min(a), fn.max(a), fn.bool_or(a.isNull())) for a in (attribute(c.id) for c in columns))
        aggregates = (part.alias(f"a{i}") for i, part in enumerate(part for parts in asked for part in parts))
        found = self.rows.aggregate((), aggregates).dataframe().first()
        assert found is not None
        return [Extremes(*found[3 * i : 3 * i + 3]) for i in range(len(columns))]


def missing_row(session: SparkSession, present: Source, arriving: Rows, keys: Sequence[str]) -> str | None:
    """A row that would be there a negative number of times; None when there is none."""
    columns = columns_of(present.schema)
    gone = Coming.of(session, present.schema, Rows(deleted=arriving.deleted))
    there = alike(signed_rows(session, present), gone, columns, keys, present.rows)
    coming = signed_rows(session, Source(present.schema, arriving))
    net = consolidate(there.union(coming), columns).filter(weight() < 0)
    row = net.select(*ids(columns)).renamed(*present.schema.names).dataframe().first()
    return None if row is None else str(row.asDict(recursive=True))


def duplicate_key(session: SparkSession, present: Source, arriving: Rows, keys: Sequence[str]) -> str | None:
    """A key of the arriving rows that more than one row would have; None when there is none. NULL is equal to NULL."""
    if not arriving.inserted or are_unique(
        Keyed(present.schema, present.rows, keys), Keyed(present.schema, arriving, keys)
    ):
        return None
    columns = _named(present, keys)
    coming = Coming.of(session, present.schema, arriving)
    coming = replace(coming, rows=coming.rows.select(*ids(columns), WEIGHT))
    if not arriving.deleted and not _may_be_twice(session, present, coming, columns):
        return None
    there = touched(signed_rows(session, present).select(*ids(columns), WEIGHT), coming, columns, present.rows)
    counted = there.union(coming.rows).aggregate(ids(columns), [fn.sum(WEIGHT).alias(WEIGHT)]).filter(weight() > 1)
    row = counted.select(*ids(columns)).renamed(*(column.name for column in columns)).dataframe().first()
    return None if row is None else str(row.asDict(recursive=True))


def _may_be_twice(session: SparkSession, present: Source, coming: Coming, columns: Sequence[Column]) -> bool:
    """Whether there may be two rows with one key, by hashes of keys: of keys that are equal they are equal. One number finds its place in a
    table, and its group, in a fraction of the time that several columns take which may be NULL."""
    if not all(is_exact(column.type) for column in columns):
        return True

    def hashed(rows: Draft) -> Draft:
        return rows.select(fn.xxhash64(*map(attribute, ids(columns))).alias(_HASH), WEIGHT)

    came = hashed(coming.rows)
    found = [came.aggregate([_HASH], [fn.sum(WEIGHT).alias(WEIGHT)]).filter(weight() > 1).select(_HASH)]
    if present.rows.inserted or present.rows.given:
        found.append(hashed(alike(signed_rows(session, present), coming, columns, (), present.rows)).select(_HASH))
    counted = found[0].union(*found[1:]).aggregate((), [fn.count(fn.lit(1)).alias("n")])
    (row,) = counted.dataframe().collect()
    return bool(row[0])


def replaced_rows(
    session: SparkSession, present: Source, updates: Rows, keys: Sequence[str], places: Sequence[str]
) -> DataFrame:
    """The rows that are there under the keys of some updates, under the table's names, with their places."""
    return rows_under(session, present, Coming.of(session, present.schema, updates), keys, places)


def met_rows(session: SparkSession, present: Source, came: Rows, updates: Rows, keys: Sequence[str]) -> DataFrame:
    """As :meth:`~tempura.warehouse.engine.Engine.met`, under the table's names."""
    schema, columns, key = present.schema, columns_of(present.schema), _named(present, keys)
    if not came.deleted:
        found = replace(present, rows=present.rows + came)
        under = rows_under(session, found, Coming.of(session, schema, updates), keys)
        return under.withColumn(CHANGE, fn.lit(REPLACED))
    asked, updating = (Coming.of(session, schema, rows) for rows in (Rows(updates.inserted, came.deleted), updates))
    there = touched(signed_rows(session, present), asked, key, present.rows).union(
        signed_rows(session, Source(schema, came))
    )
    put, none = updating.rows, fn.lit(0).cast("bigint")
    counted = there.select(*ids(columns), WEIGHT, none.alias(_PUT)).union(
        put.select(*ids(columns), none.alias(WEIGHT), (WEIGHT, _PUT))
    )
    net = consolidate(counted, columns, also=(_PUT,))
    others = [(column.id, f"other.{i}") for i, column in enumerate(key)]
    updated = updating.once(put.select(*others)).extended(fn.lit(True).alias(_UPDATED))
    same = (attribute(column).eqNullSafe(attribute(other)) for column, other in others)
    beside = net.join(updated, reduce(SparkColumn.__and__, same), "left_outer")
    is_updated, left = attribute(_UPDATED).isNotNull(), weight() + attribute(_PUT)
    told = fn.when(is_updated & (weight() > 0), REPLACED).when(left < 0, MISSING)
    # A row that is deleted too often is told once.
    met = beside.select(*ids(columns), told.alias(CHANGE), fn.greatest(weight(), fn.lit(1)).alias(WEIGHT))
    kind = Column(CHANGE, CHANGE, "string")
    rows = expand(Relation(met.filter(attribute(CHANGE).isNotNull()), weighted=True), (*columns, kind))
    return rows.renamed(*schema.names, CHANGE).dataframe()


def rows_under(
    session: SparkSession, present: Source, coming: Coming, keys: Sequence[str], places: Sequence[str] = ()
) -> DataFrame:
    """The rows that are there under the keys of ``coming``, under the table's names; with their places, if the columns for these have
    names."""
    columns = columns_of(present.schema)
    if places:
        found = touched(located_rows(session, present), coming, _named(present, keys), present.rows)
        return found.renamed(*present.schema.names, *places).dataframe()
    there = touched(signed_rows(session, present), coming, _named(present, keys), present.rows)
    net = Relation(consolidate(there, columns), weighted=True)
    # A row that is deleted too often has a negative weight; the check for missing rows tells it.
    kept = Relation(net.draft.filter(weight() > 0), weighted=True)
    return expand(kept, columns).renamed(*present.schema.names).dataframe()


def touched(there: Draft, coming: Coming, columns: Sequence[Column], rows: Rows) -> Draft:
    """The rows of ``there``, read from the files of ``rows``, that agree with a row of ``coming`` in some columns, NULL with NULL; all when
    no column is named.

    The least and greatest values that come are asked for first: Parquet's statistics then leave out most of a large table, all of
    it when keys only grow.
    """
    if not columns:
        return there
    known = coming.extremes(columns)
    other = coming.sent(coming.rows.select(*((column.id, f"other.{i}") for i, column in enumerate(columns))))
    same = (_same(column, attribute(f"other.{i}"), known.get(column)) for i, column in enumerate(columns))
    return there.filter(within(known, rows)).join(other, reduce(SparkColumn.__and__, same), "left_semi")


def _same(column: Column, other: SparkColumn, known: Extremes | None) -> SparkColumn:
    """Where no NULL comes, a comparison by which Spark finds one number in a fraction of the time."""
    if known and not known.nulls:
        return attribute(column.id) == other
    return attribute(column.id).eqNullSafe(other)


def alike(there: Draft, coming: Coming, columns: Sequence[Column], keys: Sequence[str], rows: Rows) -> Draft:
    """Those of the rows of ``there``, read from the files of ``rows``, that may agree with a row of ``coming`` in all of some columns,
    among which there may be keys. One number finds its place in a table in a fraction of the time that several columns take, of which
    any may be NULL: so a hash of the keys is looked up, or one of all columns."""
    exact = [column for column in columns if is_exact(column.type)]
    by = [column for column in exact if column.name in keys] or exact
    if not by:
        return there

    hashed = fn.xxhash64(*map(attribute, ids(by)))
    others = coming.sent(coming.rows.select(hashed.alias(_HASH)))
    return there.filter(within(coming.extremes(exact), rows)).join(others, hashed == attribute(_HASH), "left_semi")


def within(known: Mapping[Column, Extremes], rows: Rows) -> SparkColumn:
    """A condition on each of some columns that all rows which agree with a coming row fulfil; but for those by which no part of the files
    of ``rows`` could be left out: to ask each row of a large table for twenty columns takes longer than all else."""
    bounds = {c.name: (ends.low, ends.high) for c, ends in known.items() if ends.low is not None}
    idle = spanned((*rows.inserted, *rows.deleted), bounds)
    ranges = [_range(c, ends) for c, ends in known.items() if c.name not in idle]
    return reduce(SparkColumn.__and__, ranges, fn.lit(True))


def _range(column: Column, ends: Extremes) -> SparkColumn:
    name = attribute(column.id)
    if ends.low is None:
        return name.isNull() if ends.nulls else fn.lit(False)
    between = name.between(fn.lit(ends.low).cast(column.type), fn.lit(ends.high).cast(column.type))
    return between | name.isNull() if ends.nulls else between


def _named(source: Source, names: Sequence[str]) -> list[Column]:
    return [column for column in columns_of(source.schema) if column.name in names]


def merged_rows(
    session: SparkSession, changes: DataFrame, present: Source, keys: Sequence[str]
) -> tuple[DataFrame, tuple[str, ...]]:
    """Rows by key after some changes: those to be written, and the files of ``present`` that hold none of the keys changed."""
    inserts = changes.filter(fn.col(CHANGE) == "insert").select(*(attribute(n) for n in present.schema.names))
    if not present.rows.inserted:
        return inserts, ()
    changed = changes.select(*(attribute(key).alias(f"key.{i}") for i, key in enumerate(keys))).distinct()
    same = [attribute(key).eqNullSafe(attribute(f"key.{i}")) for i, key in enumerate(keys)]
    paths = [f"file:{path}" for path in present.rows.inserted]
    located = session.read.schema(present.schema).option("__globPaths__", "false").parquet(*paths)
    located = located.select(*(attribute(key) for key in keys), file_path().alias("_file"))
    hit = {row[0] for row in located.join(changed, same, "left_semi").select("_file").distinct().collect()}
    rewritten = read_files(session, present.schema, [p for p in present.rows.inserted if p in hit])
    rows = rewritten.join(changed, same, "left_anti").unionAll(inserts)
    return rows, tuple(path for path in present.rows.inserted if path not in hit)
