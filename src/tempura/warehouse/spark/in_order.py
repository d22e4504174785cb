"""Files of changes that come together: what they come to one after the other, if each of them could come in its turn.

Files that each change a few rows are written through the day and arrive when a query is run. One after the other each of them takes as
many jobs of Spark as all of them together. What each would find when its turn comes is what was there before, or what an earlier one of
them has left: that is looked at here for each key, or, in a table without keys, for each row. Whether the first of them fits what was
there is looked at by those who hold arrivals to the table's promises.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from tempura.algebra.scalar import Column
from tempura.execute.contract import WEIGHT
from tempura.execute.draft import Draft
from tempura.execute.naming import attribute, attributes, ids
from tempura.warehouse.declared.text import CHANGE
from tempura.warehouse.engine import KINDS, Changes, FileSet, OneByOneError, Source
from tempura.warehouse.spark.incoming import Coming, rows_under, sides_of
from tempura.warehouse.spark.places import can_place
from tempura.warehouse.spark.reading import FILE, load
from tempura.warehouse.spark.rows import columns_of

_AT = "at"
"""The place of a row's file among the files. Columns of the table have the names of identities beside it."""

_THERE = "there"
"""A row that was there before the first file."""


def changes_in_order(session: SparkSession, files: FileSet, present: Source, keys: Sequence[str]) -> Changes:
    """As :meth:`~tempura.warehouse.engine.Engine.load_in_order`."""
    columns, names = columns_of(files.schema), files.schema.names
    if not can_place(files.schema) or FILE in names:
        raise OneByOneError
    at = fn.array_position(fn.lit(list(files.files)), attribute(FILE))
    rows = load(session, files, changing=True, located=True)
    told = rows.select(*map(attribute, names), CHANGE, at).toDF(*ids(columns), CHANGE, _AT)
    if keys:
        return _by_key(session, told, columns, present, keys)
    return _by_row(told, columns, names)


def _is(kind: str) -> SparkColumn:
    return attribute(CHANGE) == kind


def _are_known() -> SparkColumn:
    """Whether each row of a group says what happens to it, and in which file."""
    return fn.bool_and(fn.coalesce(attribute(CHANGE).isin(*KINDS) & (attribute(_AT) > 0), fn.lit(False)))


# --- by row -----------------------------------------------------------------------------------------------------------


def _by_row(told: DataFrame, columns: Sequence[Column], names: Sequence[str]) -> Changes:
    """What is left of each row. Where it comes in no later file than the first in which it leaves, it is there ever more often and then
    ever less: if it is there often enough after the last file, it was after each."""
    net = told.groupBy(*ids(columns)).agg(
        fn.sum(fn.when(_is("insert"), 1).otherwise(-1)).alias(WEIGHT),
        (_are_known() & ~fn.bool_or(_is("update"))).alias("known"),
        fn.max(fn.when(_is("insert"), attribute(_AT))).alias("came"),
        fn.min(fn.when(_is("delete"), attribute(_AT))).alias("left"),
    )
    net = net.localCheckpoint(eager=True)
    in_turn = attribute("known") & fn.coalesce(attribute("came") <= attribute("left"), fn.lit(True))
    if not net.filter(~in_turn).isEmpty():
        raise OneByOneError
    return sides_of(net.select(*attributes(columns), WEIGHT), columns, names)


# --- by key -----------------------------------------------------------------------------------------------------------


def _by_key(
    session: SparkSession, told: DataFrame, columns: Sequence[Column], present: Source, keys: Sequence[str]
) -> Changes:
    """What is left of each key."""
    key = [column for column in columns if column.name in keys]
    net = _of_each_key(told, columns, key).localCheckpoint(eager=True)
    first, last = attribute("first"), attribute("last").getField("put")
    replaces, deleted = first.getField("replaces"), first.getField("deleted")
    comes, leaves = last.isNotNull(), deleted.isNotNull()
    restored = leaves & deleted.eqNullSafe(last)
    cases = {
        "updates": replaces & ~leaves & comes,
        "inserts": (leaves | ~replaces) & comes & ~restored,
        "deletes": leaves & ~restored,
        # What is under the key when the first file comes has to be looked at.
        "dropped": replaces & ~leaves & ~comes,
        "open": restored | ~replaces & ~leaves & ~comes,
    }
    found = net.select(~fn.bool_and("fits"), *(fn.bool_or(case) for case in cases.values())).first()
    if found is None or found[0]:
        raise OneByOneError
    there = {case for case, is_there in zip(cases, found[1:], strict=True) if is_there}

    def rows(case: str, row: SparkColumn) -> DataFrame | None:
        return _named(net.filter(cases[case]), row, present) if case in there else None

    gone = rows("deletes", deleted)
    if there & {"dropped", "open"}:
        # In one look at the table: a row that comes back has to be there, and stays; nothing is under the key of one that only passes.
        looked = _with_those_there(session, net.filter(cases["dropped"] | cases["open"]), key, present)
        before = attribute(_THERE)
        if not looked.filter(cases["open"] & ~before.eqNullSafe(deleted)).isEmpty():
            raise OneByOneError
        if "dropped" in there:
            dropped = _named(looked.filter(cases["dropped"] & before.isNotNull()), before, present)
            gone = dropped if gone is None else gone.unionAll(dropped)
    return Changes(inserts=rows("inserts", last), deletes=gone, updates=rows("updates", last))


def _named(net: DataFrame, row: SparkColumn, present: Source) -> DataFrame:
    """Rows that are kept as structs, in the table's columns."""
    fields = zip(ids(columns_of(present.schema)), present.schema.names, strict=True)
    return net.select(*(row.getField(id).alias(name) for id, name in fields))


def _with_those_there(session: SparkSession, net: DataFrame, key: Sequence[Column], present: Source) -> DataFrame:
    """Each key with the rows that are there under it, NULL if there are none; looked for once."""
    columns = ids(columns_of(present.schema))
    coming = Coming(Draft.of(net.select(*attributes(key))))
    found = rows_under(session, present, coming, [column.name for column in key])
    row = fn.struct(*map(attribute, columns)).alias(_THERE)
    there = found.toDF(*columns).select(*(attribute(c.id).alias(f"there.{i}") for i, c in enumerate(key)), row)
    same = (attribute(c.id).eqNullSafe(attribute(f"there.{i}")) for i, c in enumerate(key))
    return net.join(there, reduce(SparkColumn.__and__, same), "left").localCheckpoint(eager=True)


def _of_each_key(told: DataFrame, columns: Sequence[Column], key: Sequence[Column]) -> DataFrame:
    """For each key what its ``first`` file asks for, what its ``last`` leaves, and whether each file ``fits`` what the one before left:
    an update takes the place of whatever is there, a deletion that of its own row, an insertion needs an empty place."""
    row = fn.struct(*attributes(columns))
    puts = _is("insert") | _is("update")
    of_file = told.groupBy(*ids(key), _AT).agg(
        fn.any_value(fn.when(_is("delete"), row), fn.lit(True)).alias("deleted"),
        fn.any_value(fn.when(puts, row), fn.lit(True)).alias("put"),
        fn.bool_or(_is("update")).alias("replaces"),
        (_are_known() & (fn.count_if(_is("delete")) <= 1) & (fn.count_if(puts) <= 1)).alias("fits"),
    )
    before = fn.lag(fn.struct("put")).over(Window.partitionBy(*attributes(key)).orderBy(_AT))
    anything = attribute("replaces") & attribute("deleted").isNull()
    follows = anything | before.isNull() | before.getField("put").eqNullSafe(attribute("deleted"))
    in_turn = of_file.select(
        *attributes(key), _AT, "deleted", "put", "replaces", (attribute("fits") & follows).alias("fits")
    )
    return in_turn.groupBy(*attributes(key)).agg(
        fn.min_by(fn.struct("deleted", "replaces"), _AT).alias("first"),
        fn.max_by(fn.struct("put"), _AT).alias("last"),
        fn.bool_and("fits").alias("fits"),
    )
