"""The time of a run in a query. ``current_timestamp()`` and the like read clocks: tables of one row, which changes from run to run. So
they are relations like any other, and what a new time changes is a delta."""

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, DateType, StructField, StructType, TimestampType

from tempura.frontend.catalyst import JavaObject, analyse_sql, class_of, contains, jvm_of
from tempura.frontend.checks import expressions, time_dependent
from tempura.frontend.java import each
from tempura.frontend.marker import schema_leaf

NOW = "current_timestamp()"
"""The clock of a run's logical time. Its name, as that of all clocks, is none that a user's table can have."""

_COLUMN = "value"
_ZONE = "spark.sql.session.timeZone"
_TODAY = "current_date("


def today(zone: str) -> str:
    """The clock of the date in a time zone: its row changes once a day only."""
    return f"{_TODAY}{zone})"


def zone_of_today(name: str) -> str:
    """The time zone of a clock's name; empty for :data:`NOW`."""
    return name.removeprefix(_TODAY).removesuffix(")") if name.startswith(_TODAY) else ""


def clock_schema(name: str) -> StructType:
    """The columns of a clock."""
    type: DataType = DateType() if zone_of_today(name) else TimestampType()
    return StructType([StructField(_COLUMN, type)])


def is_clock(table: str) -> bool:
    """Whether a table's name is that of a clock."""
    return table == NOW or bool(zone_of_today(table))


def with_clocks(spark: SparkSession, analysed: JavaObject) -> JavaObject:
    """The plan with scalar sub-queries over clocks in the place of the expressions that mean the time of a run. The session gets a
    view; it is not the user's.

    A function of an array's elements keeps its own times: Spark allows no sub-query there.
    """
    if contains(spark, analysed, "CURRENT_LIKE"):
        analysed = _with_zone(spark, analysed)
    if not contains(spark, analysed, "CURRENT_LIKE") or _inside_function(spark, analysed):
        return analysed
    replaced = getattr(jvm_of(spark), "scala.collection.immutable.HashMap")()
    for node in time_dependent(spark, analysed):
        value = None if replaced.contains(node) else _value(spark, node)
        if value is not None:
            replaced = replaced.updated(node, value)
    return analysed.transformAllExpressionsWithSubqueries(replaced)


def _with_zone(spark: SparkSession, analysed: JavaObject) -> JavaObject:
    """The plan with the session's time zone as a text where ``convert_timezone`` is not told from which zone. That is one for all runs of
    a query, as it is for casts; a query that asks which one it is, by ``current_timezone()``, asks by whom it is run."""
    converted = expressions(spark, analysed, ("ConvertTimezone",))
    untold = [node for node in converted if class_of(node.children().apply(0)) == "CurrentTimeZone"]
    if not untold:
        return analysed
    jvm = jvm_of(spark)
    zone = analyse_sql(spark, f"SELECT '{spark.conf.get(_ZONE)}'").expressions().apply(0).child()
    replaced = getattr(jvm, "scala.collection.immutable.HashMap")()
    for node in untold:
        _, *others = each(node.children())
        replaced = replaced.updated(node, node.withNewChildren(jvm.PythonUtils.toSeq([zone, *others])))
    return analysed.transformAllExpressionsWithSubqueries(replaced)


def _inside_function(spark: SparkSession, analysed: JavaObject) -> bool:
    found = contains(spark, analysed, "LAMBDA_FUNCTION")
    return found and any(
        contains(spark, node, "CURRENT_LIKE") for node in expressions(spark, analysed, ("LambdaFunction",))
    )


def _value(spark: SparkSession, node: JavaObject) -> JavaObject | None:
    """What reads a clock in the place of an expression; None when no clock shows that."""
    match class_of(node):
        case "CurrentDate":
            return _reading(spark, today(str(node.timeZoneId().get())))
        case "CurrentTimestamp" | "Now":
            return _reading(spark, NOW)
        case "LocalTimestamp":
            local = _reading(spark, NOW, "CAST(({}) AS TIMESTAMP_NTZ)")
            return local.withTimeZone(node.timeZoneId().get())
    return None


def _reading(spark: SparkSession, clock: str, form: str = "({})") -> JavaObject:
    """A scalar sub-query over a clock, in an expression of this form."""
    schema_leaf(spark, clock, clock_schema(clock)).createOrReplaceTempView("clock")
    analysed = analyse_sql(spark, f"SELECT {form.format(f'SELECT {_COLUMN} FROM clock')}")
    return analysed.expressions().apply(0).child()
