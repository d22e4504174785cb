"""Spark's functions over columns, as ``pyspark.sql.functions`` has them: called in the JVM when the columns are needed, all in one call.

PySpark looks up the class and the method anew at each use, and notes the place in the user's program for its error messages. A step
is made of thousands of such columns, and nobody wrote them.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from pyspark.sql import Column
from pyspark.sql.classic.column import Column as ClassicColumn

from tempura.frontend.later import Later, seq, static

_FUNCTIONS = "org.apache.spark.sql.functions"


def col(name: str) -> Column:
    """The column of a DataFrame that has this name; dots and backquotes mean what they mean in SQL."""
    return _column("col", name)


def lit(value: object) -> Column:
    """A constant."""
    return _column("lit", value)


def when(condition: Column, value: object) -> Column:
    """``value`` where the condition is TRUE, else NULL, or what ``otherwise`` says."""
    return _column("when", _inner(condition), _inner(value) if isinstance(value, Column) else value)


def concat_ws(separator: str, *columns: Column) -> Column:
    """Texts one after the other, with a text between them."""
    return _column("concat_ws", separator, _list(columns))


def _column(name: str, *given: object) -> Column:
    return ClassicColumn(static(_FUNCTIONS, name, *given))


def _of_columns(name: str, *columns: Column | str) -> Column:
    return _column(name, *map(_inner, columns))


def _of_list(name: str, *columns: Column | str) -> Column:
    return _column(name, _list(columns))


def _list(columns: Iterable[Column | str]) -> Later:
    return seq(*map(_inner, columns))


def _inner(column: Column | str) -> Any:
    """The JVM's column; a text is the name of one."""
    return (col(column) if isinstance(column, str) else column)._jc


abs = partial(_of_columns, "abs")
array_repeat = partial(_of_columns, "array_repeat")
avg = partial(_of_columns, "avg")
bool_or = partial(_of_columns, "bool_or")
count = partial(_of_columns, "count")
covar_pop = partial(_of_columns, "covar_pop")
explode = partial(_of_columns, "explode")
first = partial(_of_columns, "first")
inline = partial(_of_columns, "inline")
map_entries = partial(_of_columns, "map_entries")
max = partial(_of_columns, "max")
min = partial(_of_columns, "min")
raise_error = partial(_of_columns, "raise_error")
schema_of_variant = partial(_of_columns, "schema_of_variant")
signum = partial(_of_columns, "signum")
sum = partial(_of_columns, "sum")
var_pop = partial(_of_columns, "var_pop")

array = partial(_of_list, "array")
coalesce = partial(_of_list, "coalesce")
concat = partial(_of_list, "concat")
struct = partial(_of_list, "struct")
xxhash64 = partial(_of_list, "xxhash64")
