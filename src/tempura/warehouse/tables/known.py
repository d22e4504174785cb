"""What is known of a table: what is stored, what has arrived, and its columns; for people, and for programs that look at statistics."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyspark.sql.types import DataType, DateType, IntegralType, TimestampNTZType, TimestampType

from tempura.cost.stats import ColumnStats
from tempura.warehouse.batches.arrivals import FORGOTTEN, ColumnSummary, summarise
from tempura.warehouse.batches.content import content, described
from tempura.warehouse.batches.sketch import ColumnSketch
from tempura.warehouse.declared.declared_stats import ColumnTold, check_columns, told_of
from tempura.warehouse.sources import aside
from tempura.warehouse.sources.widening import summaries
from tempura.warehouse.tables.facts import column_stats
from tempura.warehouse.tables.sketches import known_sketches
from tempura.warehouse.tables.table import Arrivals

HAND = "set by hand"


def table_status(table: Arrivals) -> dict[str, Any]:
    """What is stored of a table, as plain data."""
    arrivals = table.committed()
    inserted, deleted = content(arrivals).rows
    files = table.wanted(arrivals, 0, len(arrivals)).files
    return {
        "version": len(arrivals),
        "rows": inserted - deleted,
        "files": len(files),
        "bytes": sum(f.size for f in files),
        "last_arrival": arrivals[-1].time if arrivals else None,
        **({"set_aside": aside.count(arrivals)} if table.spec.kafka else {}),
        **table.spec.to_toml(),
    }


def table_history(table: Arrivals) -> list[dict[str, Any]]:
    """The arrivals of a table, as plain data."""
    return [
        {"version": n, "time": a.time, "inserted": a.rows[0], "deleted": a.rows[1], "kind": a.kind}
        | ({"set_aside": aside.count([a])} if a.aside else {})
        for n, a in enumerate(table.committed(), 1)
        if a is not FORGOTTEN
    ]


def table_stats(table: Arrivals) -> dict[str, Any]:
    """What is known of a table's rows and columns, as plain data. Raises TempuraError BAD_STATS for what is said of other columns."""
    check_columns(table.name, table.spec.stats, table.schema.names)
    arrivals = table.arrivals()
    inserted, deleted = content(arrivals).rows
    seen, sketches = summarise(summaries(described(arrivals), table.schema)), known_sketches(table, table.schema.names)
    known = column_stats(seen, table.schema, inserted + deleted, sketches, table.spec.stats)
    columns = {}
    for field in table.schema.fields:
        summary, told = seen.get(field.name, ColumnSummary()), table.spec.stats.get(field.name, ColumnTold())
        columns[field.name] = {
            "type": field.dataType.simpleString(),
            **_figures(known.get(field.name), summary, sketches.get(field.name), told, field.dataType),
            "from": dict(_sources(summary, sketches.get(field.name), told)),
        }
    return {"table": table.name, "version": len(arrivals), "rows": inserted - deleted, "columns": columns}


def _figures(
    stats: ColumnStats | None, summary: ColumnSummary, sketch: ColumnSketch | None, told: ColumnTold, type: DataType
) -> dict[str, Any]:
    """What is not known is None: what the planner assumes then is no knowledge."""
    if stats is None:
        return dict.fromkeys(("distinct", "nulls", "least", "greatest", "width")) | {"frequent": []}
    known_values = told.distinct is not None or sketch is not None
    known_nulls = told.nulls is not None or summary.nulls is not None
    named = sorted(stats.frequent.items(), key=lambda pair: -pair[1])
    return {
        "distinct": round(stats.distinct) if known_values else None,
        "nulls": stats.null_fraction if known_nulls else None,
        "least": shown(stats.low, type),
        "greatest": shown(stats.high, type),
        "width": stats.width,
        "frequent": [{"value": _value(name, type), "share": share} for name, share in named],
    }


def _sources(summary: ColumnSummary, sketch: ColumnSketch | None, told: ColumnTold) -> Iterator[tuple[str, str]]:
    """What each figure is taken from."""
    looked = f"sketch of {sketch.covered:,} of {sketch.rows:,} rows" if sketch else ""
    if looked or told.distinct is not None:
        yield "distinct", HAND if told.distinct is not None else looked
    for name, said, found in (
        ("nulls", told.nulls, summary.nulls),
        ("least", told.least, summary.low),
        ("greatest", told.greatest, summary.high),
        ("width", told.width, summary.bytes or None),
    ):
        if said is not None or found is not None:
            yield name, HAND if said is not None else "footer"
    if sketch and told.distinct is None and told.nulls is None:
        yield "frequent", looked


def shown(value: float | None, type: DataType) -> Any:
    """A number in the order of a type as a value of that type, dates and times as ISO text in UTC."""
    if value is None:
        return None
    try:
        if isinstance(type, DateType):
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        if isinstance(type, TimestampType | TimestampNTZType):
            return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)).isoformat()
    except OverflowError:  # beyond the years that Python has
        return value
    return int(value) if isinstance(type, IntegralType) else value


def _value(name: str, type: DataType) -> Any:
    """The value that is spelled so."""
    if name.startswith("'"):
        return name[1:-1]
    return name == "true" if name in ("true", "false") else shown(float(name), type)


def say(table: Arrivals, column: str, said: dict[str, Any]) -> None:
    """Declare more of a column; what was said of it before stays. Raises TempuraError BAD_STATS, COMMIT_LOST."""
    told = told_of(f"Column {column} of table {table.name}", said)
    check_columns(table.name, {column: told}, table.schema.names)
    before = table.spec.stats.get(column, ColumnTold())
    both = told_of(f"Column {column} of table {table.name}", before.to_toml() | told.to_toml())
    _declare(table, {**table.spec.stats, column: both})


def unsay(table: Arrivals, column: str | None) -> None:
    """Take back what was said of a column, or of all. Raises TempuraError BAD_STATS when nothing was, COMMIT_LOST."""
    if column is not None and column not in table.spec.stats:
        check_columns(table.name, {column: ColumnTold()}, table.schema.names)
    _declare(table, {name: told for name, told in table.spec.stats.items() if column is not None and name != column})


def _declare(table: Arrivals, stats: dict[str, ColumnTold]) -> None:
    spec = replace(table.spec, stats=stats)
    table.site.declarations.change_table(table.name, table.spec, spec)
    table.spec = spec
