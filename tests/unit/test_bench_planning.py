"""``tempura bench planning`` without Spark: what is expected of the tables, what is measured, and the summary."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql.types import LongType, StructField, StructType

from tempura.algebra.rel import Aggregate, Join, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref, equal
from tempura.bench.planning import Coming, Planning, planned, summarised, table_facts
from tempura.cli.main import main
from tempura.cost.stats import TableFacts
from tempura.errors import TempuraError
from tempura.warehouse.batches.parquet import inspect
from tempura.warehouse.runs.situation import without_deletions

PLANNING = Planning("tpch", 1.0, times=3)


def facts(rows: int, arrives: bool, times: int = 3) -> TableFacts:
    inserted = tuple(rows * (i + 1) // times for i in range(times)) if arrives else (rows,) * times
    return TableFacts(inserted, (0,) * times, 1, static=not arrives, append_only=arrives)


def query() -> Rel:
    sales, items, total = (Column(name, name, "bigint") for name in ("s", "i", "n"))
    on = equal(Ref(sales), Ref(items))
    joined = Join(Scan("sales", ("s",), (sales,)), Scan("items", ("i",), (items,)), "inner", on)
    counted = AggregateOutput(total, AggregateCall("Count", (), "bigint"))
    return Aggregate(joined, (Output(items.primed(), Ref(items)),), (counted,))


def test_facts_arrive_in_equal_parts_and_other_tables_are_whole(tmp_path: Path) -> None:
    schema = StructType([StructField("k", LongType())])
    pq.write_table(pa.table({"k": [1, 2, 2, 3, None, 3]}), tmp_path / "t.parquet")
    summary = inspect(tmp_path / "t.parquet", schema)
    arriving, whole = (table_facts(summary, schema, coming) for coming in (PLANNING.coming, PLANNING.coming.whole))
    assert arriving.inserted == (2, 4, 6)
    assert arriving.append_only
    assert arriving.known == 1
    assert whole.inserted == (6, 6, 6)
    assert whole.static
    assert whole.columns["k"].low == 1
    assert whole.columns["k"].null_fraction == 1 / 6


def test_parts_and_prices_may_be_given_and_rows_may_leave(tmp_path: Path) -> None:
    schema = StructType([StructField("k", LongType())])
    pq.write_table(pa.table({"k": list(range(1_020))}), tmp_path / "t.parquet")
    refreshes = replace(PLANNING, scenario="ivm", shares=(Fraction(1), Fraction(1, 100), Fraction(1, 100)))
    losing = replace(refreshes, deleted=0.002, prices=(0.0, 1.0, 1.0))
    found = table_facts(inspect(tmp_path / "t.parquet", schema), schema, losing.coming)
    assert (found.inserted, found.deleted, found.append_only) == ((1_000, 1_010, 1_020), (0, 2, 4), False)
    assert found.is_read_signed(1)
    assert without_deletions({"t": found}, 3) == {0, 1, 2}, "where deleted rows lie is noted, so Spark may be asked"
    assert [(point.weight, point.output) for point in losing.points] == [(0.0, True), (1.0, True), (1.0, True)]
    assert losing.coming.growing == Coming(refreshes.coming.parts)
    tables = {"sales": facts(3_000_000, True), "items": facts(100, False)}
    assert planned(query(), losing, tables)["cost"] < planned(query(), refreshes, tables)["cost"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shares": (Fraction(1), Fraction(1))}, "2 shares for 3 times"),
        ({"prices": (1.0,)}, "1 prices for 3 times"),
        ({"shares": (Fraction(1), Fraction(0), Fraction(1))}, "not positive"),
        ({"prices": (1.0, -1.0, 1.0)}, "negative"),
        ({"prices": (0.0, 0.0, 0.0)}, "all are 0"),
        ({"deleted": 0.5}, "More rows would leave"),
        ({"rising": True, "prices": (0.1, 0.2, 1.0)}, "do not rise"),
    ],
)
def test_what_does_not_fit_together_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(TempuraError, match=message):
        replace(PLANNING, **wrong)


def test_counts_repeat_and_grow_with_the_query() -> None:
    tables = {"sales": facts(3_000_000, True), "items": facts(100, False)}
    names = ("classes", "groups", "alternatives", "firings", "plans_costed")
    first, again = (planned(query(), PLANNING, tables) for _ in range(2))
    smaller = planned(query().inputs[0], PLANNING, tables)
    assert [first[name] for name in names] == [again[name] for name in names]
    assert all(first[name] > smaller[name] > 0 for name in names)
    assert first["choose_s"] > 0
    assert first["explore_s"] > 0
    assert first["again_cpu_s"] > 0
    assert first["cost_by_one"] >= first["cost"]


def test_times_that_are_no_cheaper_than_later_ones_take_no_planning() -> None:
    three, nine = (
        planned(query(), replace(PLANNING, times=n), {"sales": facts(3_000_000, True, n), "items": facts(9, False, n)})
        for n in (3, 9)
    )
    assert [nine[name] for name in ("groups", "alternatives")] == [three[name] for name in ("groups", "alternatives")]


def test_the_summary_counts_time_beyond_catalyst() -> None:
    times = {"catalyst_s": 1.0, "plan_cpu_s": 0.1}
    costs = {"cost": 100, "cost_by_one": 120}
    rows = [
        {"query": f"q{i}", "error": None, **times, **costs, "total_s": i / 4 + 1, "again_cpu_s": 0.03 * i}
        for i in range(1, 12)
    ]
    found = summarised([*rows, {"query": "q12", "error": "NO_PLAN: …"}])
    assert (found["queries"], found["failed"]) == (12, {"q12": "NO_PLAN: …"})
    assert (found["p50"], found["p80"], found["max"]) == (2.5, 3.25, 3.75)
    assert found["beyond_catalyst"] == {"p50": 1.5, "p80": 2.25, "max": 2.75, "under_0.5_s": 0.091, "under_3_s": 1}
    assert found["by_one_method"] == {"p50": 1.2, "p80": 1.2, "max": 1.2}
    assert found["again_cpu"] == {"p50": 0.18, "p80": 0.27, "max": 0.33, "under_0.2_s": 0.545}
    assert found["worst"] == ["q11", "q10", "q9", "q8", "q7"]


def test_memory_is_told_where_the_system_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"sales": facts(3_000_000, True), "items": facts(100, False)}
    known = {"error": None, "catalyst_s": 0.1, "lift_s": 0.1, "total_s": 0.3, **planned(query(), PLANNING, tables)}
    if Path("/proc/self/clear_refs").exists():
        assert 0 <= known["peak_mb"] < known["resident_mb"]
    rows = [{"query": name, **known, "peak_mb": mb, "resident_mb": 100 + mb} for name, mb in (("q1", 4), ("q2", 6))]
    untold = {"query": "q3", **known, "peak_mb": None, "resident_mb": None}
    found = summarised([*rows, untold])
    assert found["peak_mb"] == {"p50": 5, "p80": 5.6, "max": 6}
    assert found["resident_mb"] == {"p50": 105, "p80": 105.6, "max": 106}
    assert summarised([untold])["resident_mb"] == {"p50": None, "p80": None, "max": None}

    def printed(rows: list[dict[str, Any]]) -> str:
        monkeypatch.setattr("tempura.cli.bench.start_session", lambda *_, **__: None)
        monkeypatch.setattr("tempura.cli.bench.plan_all", lambda *_: iter(rows))
        result = CliRunner().invoke(main, ["bench", "planning", "--out", str(tmp_path / "out.json")])
        assert result.exit_code == 0, result.output
        return result.output

    assert "resident mb: p50 105.0, p80 105.6, max 106" in printed(rows).splitlines()
    assert "resident mb:" not in printed([untold])


def test_where_prices_rise_no_time_waits() -> None:
    rising = Planning("tpch", 1.0, times=4, rising=True)
    assert [round(point.weight, 4) for point in rising.points] == [0.3, 0.5333, 0.7667, 1.0]
    tables = {"sales": facts(3_000_000, True, 4), "items": facts(100, False, 4)}
    flat = planned(query(), replace(rising, rising=False), tables)
    assert planned(query(), rising, tables)["groups"] > flat["groups"]
    with pytest.raises(TempuraError, match="do not rise"):
        Planning("tpch", 1.0, scenario="ivm", rising=True)
