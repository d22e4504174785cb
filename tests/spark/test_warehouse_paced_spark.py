"""Queries at paces on Spark: rows in, flushes while they come, an exact result when it is due."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tempura as tp
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.warehouse import Warehouse

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIX = "2026-03-01T18:00+00:00"
LINES = "part INT, supplier INT, quantity INT, price DECIMAL(12,2), note STRING"
PARTS = "part INT, brand STRING, sizes ARRAY<INT>"
AGG_JOIN = """
SELECT p.brand, COUNT(*) AS n, SUM(l.price) AS total, AVG(CAST(l.price AS DOUBLE)) AS mean, MAX(l.note) AS note
FROM lines l
JOIN parts p ON l.part = p.part
JOIN (SELECT part, AVG(quantity) AS usual FROM lines GROUP BY part) a ON a.part = l.part
WHERE l.quantity < 1.2 * a.usual AND l.price > (SELECT AVG(price) / 10 FROM lines) AND size(p.sizes) > 0
GROUP BY p.brand
ORDER BY brand
"""
SELF_JOIN = (
    "SELECT l.part, m.supplier, COUNT(*) AS n FROM lines l JOIN lines m ON l.part = m.part GROUP BY l.part, m.supplier"
)
FIRST = "SELECT part, price, current_date() AS day FROM lines ORDER BY price DESC, part LIMIT 3"
NOTHING_BELOW = "SELECT l.*, p.brand FROM lines l LEFT JOIN parts p ON l.part = p.part WHERE quantity > 3"
SHARED = """
WITH sums AS (SELECT part, SUM(price) AS total FROM lines GROUP BY part)
SELECT part, total FROM sums WHERE total = (SELECT MAX(total) FROM sums)
"""


class Day:
    """A warehouse whose clock a test moves on."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.hour = spark, folder, 0
        self.wh = self.open()
        self.wh.add_table("lines", schema=LINES)
        self.wh.add_table("parts", schema=PARTS)

    def open(self) -> Warehouse:
        return tp.open(self.folder / "wh", spark=self.spark, clock=lambda: NOON + timedelta(hours=self.hour))

    def frame(self, rows: Sequence[tuple[object, ...]], ddl: str) -> DataFrame:
        return self.spark.createDataFrame(rows, ddl).coalesce(1)

    def arrive(self) -> None:
        """What comes in an hour: lines, a few of which are taken back, and parts."""
        h = self.hour
        lines = [(i % 5, i % 3, (7 * i + h) % 10, Decimal(i * 10 + h), None if i % 4 else f"n{h}") for i in range(12)]
        changes = [(*row, "insert") for row in lines]
        if h:
            changes += [(i % 5, i % 3, (7 * i + h - 1) % 10, Decimal(i * 10 + h - 1), None, "delete") for i in (1, 2)]
        self.wh.table("lines").apply(self.frame(changes, f"{LINES}, _change STRING"))
        self.wh.table("parts").append(self.frame([(h, f"b{h % 2}", [h] if h else []), (h, "b1", [1, 2])], PARTS))
        self.hour += 1


@pytest.fixture
def day(spark: SparkSession, tmp_path: Path) -> Day:
    return Day(spark, tmp_path)


CASES = {
    "an average below a join": (AGG_JOIN, "im1", {"lines": 4, "parts": 2}),
    "a self-join": (SELF_JOIN, "all", {"lines": 2, "s0": 1}),
    "first rows, and a clock": (FIRST, "im1", {"lines": 3}),
    "no blocking operator": (NOTHING_BELOW, "im1", {"lines": 3, "parts": 2}),
    "a sub-plan used twice": (SHARED, "im1", {"lines": 3, "s0": 2}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_last_flush_is_what_recomputing_gives(day: Day, case: str) -> None:
    sql, methods, paces = CASES[case]
    query = day.wh.add_query("q", sql, schedule=tp.Schedule.paced(SIX, strategy=paces, timezone="UTC"))
    assert isinstance(query, PacedQuery)
    labels = []
    for _ in range(6):
        day.arrive()
        report = query.run(methods=methods)
        labels += [report.label] if not report.nothing else []
        if day.hour == 3:
            day.wh.gc()
            query = day.open().query("q")
    assert len(labels) >= 2
    assert labels[-1].endswith("(last)")
    assert query.verify(), str(query.verify())
    history = query.history()
    assert [entry.label for entry in history] == labels
    assert isinstance(query, PacedQuery)
    life = query._life()
    steps = [step for segment in life.segments for step in life.steps(segment)]
    worked = {step.flush.n for step in steps if step.flush and (step.output or step.states)}
    assert all((entry.actual_cost > 0) == (entry.n in worked) for entry in history)
    assert history[-1].n in worked
    assert all(entry.predicted_cost is not None for entry in history)


def test_a_flush_of_everything_now_is_verified(day: Day) -> None:
    query = day.wh.add_query("q", AGG_JOIN, schedule=tp.Schedule.paced(SIX, final_work=0.2, timezone="UTC"))
    day.arrive()
    assert query.run(now=True).rows == 1, "the part of the other brand has no sizes"
    assert query.verify(), str(query.verify())
    day.arrive()
    assert query.run(now=True, methods="im1").label == "flush 2"
    assert query.verify(), str(query.verify())


def test_paces_are_planned_again_when_a_condition_leaves_other_rows_than_expected(day: Day) -> None:
    """Nobody knows of a pattern how many rows it leaves before it was tried: here all of them."""
    sql = """
    SELECT p.brand, SUM(t.total) AS total FROM parts p
    JOIN (SELECT part, SUM(price) AS total FROM lines WHERE CAST(part AS STRING) NOT LIKE '%x' AND supplier % 7 < 5 GROUP BY part) t
    ON t.part = p.part WHERE p.brand LIKE 'b%' GROUP BY p.brand
    """
    query = day.wh.add_query("q", sql, schedule=tp.Schedule.paced(SIX, final_work=0.2, timezone="UTC"))
    assert isinstance(query, PacedQuery)
    day.arrive()
    first = query.paces()
    assert first is not None
    assert first.off == {}
    query.run(now=True)
    again = query.paces()
    assert again is not None
    assert again.why.startswith("filter "), again.off
    assert "in segment s0 gave 12 rows, 4 were expected" in again.why
    assert again.off["s0.0"] == pytest.approx(13 / 4.8, rel=0.01)
    query.run(now=True)
    known = query.paces()
    assert known is not None
    assert known.off["s0.0"] == again.off["s0.0"]
    whys = [paces.why for paces in query._life().planned(query._site.files)]
    assert sum("segment s0 gave" in why for why in whys) == 1, "what was counted is as it was taken to be since then"
    day.arrive()
    query.run(now=True, methods="im1")
    assert query.verify(), str(query.verify())


def test_only_rows_that_somebody_reads_are_handed_over_and_compared_once(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two conditions on one sum, of which few rows meet one; both uses lead into the same segment."""
    sql = """
    WITH sums AS (SELECT part, SUM(price) AS total FROM lines GROUP BY part)
    SELECT COUNT(*) AS n, MAX(a.total) AS most FROM sums a JOIN sums b ON a.part < b.part WHERE a.total > 950 AND b.total < 600
    """
    compared: list[tuple[str, str]] = []
    engine_change = SparkEngine.change

    def change(engine: SparkEngine, old: Any, new: Any, lifted: Any) -> Any:
        compared.append((str(old and old.paths), str(new.paths)))
        return engine_change(engine, old, new, lifted)

    monkeypatch.setattr(SparkEngine, "change", change)
    paces = {"lines": 4, "s0": 4}
    query = day.wh.add_query("q", sql, schedule=tp.Schedule.paced(SIX, strategy=paces, timezone="UTC"))
    assert isinstance(query, PacedQuery)
    for _ in range(6):
        day.arrive()
        report = query.run()
        life = query._life()
        below = life.last(life.segments[0])
        if "lines to s0" in report.paths:
            assert below
            assert below.output
            rows = day.wh.table("lines").df().groupBy("part").agg({"price": "sum"}).collect()
            passing = [row for row in rows if row[1] > 950 or row[1] < 600]
            assert len(rows) == 5
            assert below.output.rows == len(passing)
    assert below
    assert below.output
    assert below.output.rows < 5, "otherwise nothing was left out"
    assert query.verify(), str(query.verify())
    assert len(set(compared)) >= 3
    changes = [pair for pair in compared if pair[0] != "None"]
    assert len(set(changes)) == len(changes), "what two paths release is found out once"
    whole = Counter(new for old, new in compared if old == "None")
    assert whole[compared[0][1]] == 1, "so is what they release first"
    # Later each of the two paths stores the result for itself, as far as most of what it released was taken back.
    assert set(whole.values()) <= {1, 2}
    assert 0 not in query._moment(life, dry=True).seen(), "its rows are not its groups"
