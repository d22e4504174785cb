"""What the planner is told of tables: facts for the points whose inputs are pinned, expectations for those to come."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from statistics import median

from pyspark.sql.types import DataType, DateType, DecimalType, IntegralType, StructType

from tempura.cost.as_written import row_bytes
from tempura.cost.stats import Files
from tempura.memo.references import NO_KEYS, Keys
from tempura.search.problem import ColumnStats, TableFacts
from tempura.warehouse.batches.arrivals import Arrival, ColumnSummary, summarise
from tempura.warehouse.batches.content import content, cumulative, described
from tempura.warehouse.batches.sample import columns_of
from tempura.warehouse.batches.sketch import ColumnSketch
from tempura.warehouse.declared.declared_stats import ColumnTold, check_columns
from tempura.warehouse.sources.widening import summaries
from tempura.warehouse.tables.clock import Clock, clock_facts
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.uses import Input, Use
from tempura.warehouse.times.forecast import INTERVALS, Forecast, Interval, forecast

_NONE: Mapping[str, ColumnSketch] = {}
_UNTOLD: Mapping[str, ColumnTold] = {}
Versions = Mapping[str, int]
"""Version per table: how many of its arrivals count."""


def table_facts(
    table: Input,
    pinned: Sequence[int],
    forecast: Forecast,
    sketches: Mapping[str, ColumnSketch] = _NONE,
    keys: Keys = NO_KEYS,
) -> TableFacts:
    """The facts of a table whose versions at the first points are ``pinned``, and what is expected of it at the rest. ``sketches`` are
    those that there are of its columns, ``keys`` what was found to be so of its keys at all of these versions."""
    if isinstance(table, Clock):
        return clock_facts(pinned, len(pinned) + len(forecast.arrivals))
    check_columns(table.name, table.spec.stats, table.schema.names)
    arrivals = table.arrivals()[: pinned[-1]]
    known, present = cumulative(arrivals, pinned), content(arrivals)
    expected = _expected(known[-1], forecast)
    counts = [*known, *expected]
    rows = known[-1][0] + known[-1][1]
    deletions = [table.deletions(version) for version in pinned] if known[-1][1] else []
    return TableFacts(
        inserted=tuple(inserted for inserted, _ in counts),
        deleted=tuple(deleted for _, deleted in counts),
        known=len(pinned),
        # Promises may be declared late, by an edit of tempura.toml: what the past says otherwise is not promised.
        static=table.spec.static and len(set(pinned)) == 1,
        append_only=(table.spec.append_only or table.spec.path is not None) and known[-1][1] == 0,
        density=density(sum(file.size for file in present.files), rows, table.schema),
        columns=column_stats(
            summarise(summaries(described(arrivals), table.schema)), table.schema, rows, sketches, table.spec.stats
        ),
        keys=keys,
        read_deleted=tuple(set_off + placed for set_off, placed in deletions),
        placed=tuple(placed for _, placed in deletions),
        notes_places=table.notes_places and not any(set_off for set_off, _ in deletions[-1:]),
        together=together(sketches, table.schema.names),
        files=_files(table, pinned, arrivals),
    )


def _files(table: Arrivals | Prospect | Use, pinned: Sequence[int], arrivals: Sequence[Arrival]) -> Files:
    """Of how many files a table's rows are read at its versions. Those that come are taken to have as many rows as the middle one of
    the last."""
    came = (table.files(*versions) if versions[0] < versions[1] else 0 for versions in pairwise(pinned))
    rows = [file.rows for arrival in arrivals[-INTERVALS:] for file in arrival.inserted]
    present = tuple(table.files(0, version) for version in pinned)
    return Files(present, (0, *came), max(1.0, median(rows)) if rows else inf)


def together(sketches: Mapping[str, ColumnSketch], columns: Sequence[str]) -> dict[frozenset[str], float]:
    """How many values several columns have together, by those of the sketches that are of several."""
    of_several = {name: sketch for name, sketch in sketches.items() if name not in columns and sketch.distinct}
    return {frozenset(columns_of(name, columns)): sketch.values() for name, sketch in of_several.items()}


def density(size: int, rows: int, schema: StructType) -> float:
    """The bytes of files for each that Spark takes their rows to have by its types."""
    by_types = rows * row_bytes([field.dataType.simpleString() for field in schema.fields])
    return size / by_types if rows > 0 else 1.0


def column_stats(
    summaries: Mapping[str, ColumnSummary],
    schema: StructType,
    rows: int,
    sketches: Mapping[str, ColumnSketch] = _NONE,
    told: Mapping[str, ColumnTold] = _UNTOLD,
) -> dict[str, ColumnStats]:
    """Statistics of the columns of a table of ``rows`` rows. What somebody ``told`` is so whatever is seen."""
    steps = {field.name: _step(field.dataType) for field in schema.fields}
    # A column of which nothing is known may be told of as well.
    known = {name: ColumnSummary() for name in told} | dict(summaries)
    seen = {name: summary.stats(rows, steps.get(name), sketches.get(name)) for name, summary in known.items()}
    return {name: told[name].of(stats) if name in told else stats for name, stats in seen.items()}


def _step(type: DataType) -> float | None:
    """How far apart two values of a type are at least; None when that says nothing."""
    if isinstance(type, DecimalType):
        return 10.0**-type.scale
    return 1.0 if isinstance(type, IntegralType | DateType) else None


def _expected(now: tuple[int, int], forecast: Forecast) -> list[tuple[int, int]]:
    """Rows inserted and deleted up to each of the points to come. No more is deleted than is there."""
    counts: list[tuple[int, int]] = []
    inserted, deleted = now
    for more, less in forecast.arrivals:
        inserted += more
        deleted = min(inserted, deleted + less)
        counts.append((inserted, deleted))
    return counts


def forecast_of(table: Input, version: int, past: Sequence[Interval], to_come: Sequence[tuple[str, int]]) -> Forecast:
    """What is expected to arrive in what a query reads, of which the run reads ``version``."""
    nothing = ((0, 0),) * len(to_come)
    if isinstance(table, Clock):
        return Forecast(table.name, tuple((1, 1) for _ in to_come), "a clock shows another time at each run")
    if table.spec.static:
        return Forecast(table.name, nothing, "promised: static")
    return forecast(table.name, table.arrivals()[:version], table.spec.expect, past, to_come)
