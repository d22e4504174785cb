"""What the planner is told of tables: facts for the points whose inputs are pinned, expectations for those to come."""

from collections.abc import Mapping, Sequence

from pyspark.sql.types import DateType, IntegralType, StructType

from tempura.search.problem import ColumnStats, TableFacts
from tempura.warehouse.arrivals import Arrival, ColumnSummary, summarise, totals
from tempura.warehouse.clock import Clock, Input, clock_facts
from tempura.warehouse.table import Arrivals

Versions = Mapping[str, int]
"""Version per table: how many of its arrivals count."""


def table_facts(table: Input, pinned: Sequence[int], points: int) -> TableFacts:
    """The facts of a table whose versions at the first points are ``pinned``. At each of the rest of ``points`` points it is
    expected to grow by as much as it did in its last arrival."""
    if isinstance(table, Clock):
        return clock_facts(pinned, points)
    arrivals = table.arrivals()[: pinned[-1]]
    known = [totals(arrivals[:version]) for version in pinned]
    expected = _expected(known[-1], _growth(table, arrivals), points - len(pinned))
    counts = [*known, *expected]
    rows = known[-1][0] + known[-1][1]
    return TableFacts(
        inserted=tuple(inserted for inserted, _ in counts),
        deleted=tuple(deleted for _, deleted in counts),
        known=len(pinned),
        # Promises may be declared late, by an edit of tempura.toml: what the past says otherwise is not promised.
        static=table.spec.static and len(set(pinned)) == 1,
        append_only=(table.spec.append_only or table.spec.path is not None) and known[-1][1] == 0,
        row_bytes=_bytes(arrivals) / rows if rows else 64.0,
        columns=column_stats(summarise(arrivals), table.schema, rows),
    )


def column_stats(summaries: Mapping[str, ColumnSummary], schema: StructType, rows: int) -> dict[str, ColumnStats]:
    """Statistics of the columns of a table of ``rows`` rows."""
    integral = {f.name for f in schema.fields if isinstance(f.dataType, IntegralType | DateType)}
    return {name: summary.stats(rows, name in integral) for name, summary in summaries.items()}


def _growth(table: Arrivals, arrivals: Sequence[Arrival]) -> tuple[int, int]:
    return (0, 0) if table.spec.static or not arrivals else arrivals[-1].rows


def _expected(now: tuple[int, int], growth: tuple[int, int], points: int) -> list[tuple[int, int]]:
    return [(now[0] + i * growth[0], now[1] + i * growth[1]) for i in range(1, points + 1)]


def _bytes(arrivals: Sequence[Arrival]) -> int:
    return sum(f.bytes for a in arrivals for f in (*a.inserted, *a.deleted))
