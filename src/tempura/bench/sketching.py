"""``tempura bench sketches``: what it takes to sketch the columns of tables, against what Spark takes to read them; and how far the
numbers of distinct values are off."""

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from tempura.bench.estimates import q_error
from tempura.bench.exactness import described_run
from tempura.bench.jobs import usage_of
from tempura.bench.planning import Tables
from tempura.bench.suites import SUITES
from tempura.cost.stats import ColumnStats
from tempura.execute.naming import attribute
from tempura.warehouse.batches.sample import sketches_of

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sketching:
    """What is sketched: the tables of a suite at a scale, each so often."""

    suite: str
    scale: float
    repeats: int
    distinct: bool = False

    def meta(self) -> Row:
        """The options and where it runs."""
        return described_run("sketches", asdict(self))


def sketch_all(spark: SparkSession, asked: Sketching) -> Iterator[Row]:
    """A row per table, the largest first: rows, columns, CPU seconds of sketching all columns and of the tasks by which Spark reads them,
    the first as a share of the second, bytes stored, and per column the numbers of distinct values if they are counted."""
    dataset = SUITES[asked.suite].tables(asked.scale)
    known = Tables.of(spark, dataset)
    for table in sorted(known.schemas, key=lambda name: -known.facts[name].inserted[0]):
        path = dataset.file(table)
        rows, names = pq.read_metadata(path).num_rows, known.schemas[table].names
        took = []
        for _ in range(asked.repeats):
            began = time.process_time()
            sketches = sketches_of([path], rows, names)
            took.append(time.process_time() - began)
        frame = spark.read.parquet(f"file:{path}")
        read_s = median([usage_of(frame).cpu_seconds for _ in range(asked.repeats)])
        yield {
            "table": table,
            "rows": rows,
            "columns": len(names),
            "sketch_s": round(median(took), 4),
            "read_s": round(read_s, 4),
            "share": round(median(took) / read_s, 4),
            "stored_bytes": sum(len(json.dumps(sketch.to_json())) for sketch in sketches.values()),
            "distinct": _distinct(frame, known.facts[table].columns, sketches) if asked.distinct else {},
        }


def _distinct(frame: DataFrame, stats: Mapping[str, ColumnStats], columns: Collection[str]) -> Row:
    names = sorted(columns)
    true = frame.agg(*(fn.count_distinct(attribute(name)) for name in names)).first()
    assert true is not None
    guessed = {name: (stats[name].distinct, int(found)) for name, found in zip(names, true, strict=True)}
    return {
        name: {"estimated": round(a), "true": b, "q_error": round(q_error(a, b), 2)} for name, (a, b) in guessed.items()
    }


def totals(rows: Sequence[Row]) -> Row:
    """All tables together, those of a million rows or more, and the spread of the errors of distinct values, if they were counted."""
    errors = sorted(found["q_error"] for row in rows for found in row["distinct"].values())
    large = [row for row in rows if row["rows"] >= 1_000_000]
    return {
        "share": _share(rows),
        "share_of_large": _share(large),
        "q_error": {
            "n": len(errors),
            "median": round(median(errors), 2) if errors else None,
            "p95": round(errors[len(errors) * 95 // 100], 2) if errors else None,
        },
    }


def _share(rows: Sequence[Row]) -> float | None:
    read = sum(row["read_s"] for row in rows)
    return round(sum(row["sketch_s"] for row in rows) / read, 4) if read else None
