"""``tempura bench effectiveness`` without Spark: scenarios, what counts as a measurement, the summary, the figure, and going on."""

import json
import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tempura.bench.account import Taken, covered
from tempura.bench.arrivals import cut_facts
from tempura.bench.effectiveness import Comparison, phases, run_effectiveness, step_of
from tempura.bench.figure import figure
from tempura.bench.lake import SetClock
from tempura.bench.ratios import is_right, rank_correlation, ratios_of, summarised
from tempura.bench.record import Record, Row
from tempura.bench.scenario import PRICES, SHARES, Effectiveness, part, parts
from tempura.bench.suites import SUITES
from tempura.cli.effectiveness import draw
from tempura.cli.main import main
from tempura.data.tpcds import generate
from tempura.errors import TempuraError
from tempura.execute.contract import Clocks, Usage
from tempura.warehouse.times.phases import COMPUTING, LOOKING, PLANNING, STORING
from tempura.warehouse.times.slots import Slot, due
from tests.unit.test_warehouse_outputs import one_above_another


def asked(scenario: str = "pdw", **known: Any) -> Effectiveness:
    options = {
        "suite": "tpch",
        "scale": 0.01,
        "scenario": scenario,
        "pattern": "append",
        "deleted": 0.0,
        "split": "hash",
    }
    options |= {"shares": SHARES[scenario], "prices": PRICES[scenario], "methods": ("all", "im1")}
    return Effectiveness(**cast(dict[str, Any], options | known))


def quiet(text: str) -> None:
    pass


# --- scenarios -----------------------------------------------------------------------------------------------------------


def test_a_day_has_the_times_by_which_its_shares_have_come() -> None:
    found = asked("pdw")
    assert found.schedule.times == ("14:00", "19:00", "24:00")
    assert found.schedule.weights == (0.25, 0.3, 1.0)
    assert found.cut.shares == pytest.approx((14 / 24, 19 / 24))
    nine = asked("pdw9")
    assert len(nine.schedule.times) == nine.cut.times == 9
    assert nine.schedule.times[:2] == ("02:40", "05:20")
    uneven = asked(shares=parts("1/2, 0.25, 0.25"), prices=(0.1, 0.2, 1.0))
    assert uneven.schedule.times == ("12:00", "18:00", "24:00")


@pytest.mark.parametrize("scenario", ["pdw", "pdw9"])
def test_each_time_of_a_day_is_due_when_its_rows_have_arrived(scenario: str) -> None:
    found = asked(scenario)
    clock = SetClock(found.moments(date(2026, 3, 1)))
    last: Slot | None = None
    for i, time in enumerate(found.schedule.times):
        clock.at = i
        run = due(found.schedule, last, clock(), UTC)
        assert run.slot is not None
        assert (run.slot.label, run.slot.cycle, run.skipped) == (time, "2026-03-02", ())
        last = run.slot


def test_refreshes_come_a_day_apart() -> None:
    found = asked("ivm", repeat=2)
    moments = found.moments(date(2026, 3, 1))
    assert moments[:2] == (datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC))
    assert len(moments) == found.cut.times
    assert found.schedule.kind == "view"


@pytest.mark.parametrize(("warm_ups", "repeat"), [(0, 1), (1, 1), (1, 3)])
def test_a_refresh_is_measured_from_the_second_on(warm_ups: int, repeat: int) -> None:
    found = asked("ivm", warm_ups=warm_ups, repeat=repeat)
    numbers = [found.measured(i, 0) for i in range(found.cut.times)]
    # The first load, the first refresh, those to warm up; then the measured ones.
    assert numbers == [None] * (2 + warm_ups) + list(range(repeat))
    assert found.series == 1


def test_a_day_is_measured_as_a_whole() -> None:
    found = asked("pdw", warm_ups=1, repeat=2)
    assert found.series == 3
    assert [{found.measured(i, series) for i in range(3)} for series in range(3)] == [{None}, {0}, {1}]


def test_a_refresh_brings_its_share_of_the_first_load() -> None:
    sizes = asked("ivm", shares=parts("0.05")).sizes
    assert [size / sizes[0] for size in sizes[1:]] == pytest.approx([0.05] * (len(sizes) - 1))


def test_days_go_on_after_a_first_one() -> None:
    found = asked("days", daily=part("1/50"))
    sizes = found.sizes
    assert sizes[:3] == pytest.approx((14 / 24, 5 / 24, 5 / 24))
    assert sizes[3:] == pytest.approx([0.02 * size for size in sizes[:3]] * 3)
    clock = SetClock(found.moments(date(2026, 3, 1)))
    last: Slot | None = None
    for i in range(found.cut.times):
        clock.at = i
        run = due(found.schedule, last, clock(), UTC)
        assert run.slot is not None
        assert (run.slot.label, run.slot.cycle) == (found.schedule.times[i % 3], f"2026-03-{2 + i // 3:02}")
        assert run.skipped == ()
        last = run.slot
    assert [found.is_due(i) for i in range(6)] == [False, False, True, False, False, True]
    assert [found.named(i) for i in (2, 3)] == ["24:00 of day 1", "14:00 of day 2"]
    assert [found.price(i) for i in range(3, 7)] == [0.25, 0.3, 1.0, 0.25]


@pytest.mark.parametrize(("warm_ups", "repeat"), [(0, 1), (1, 2)])
def test_a_day_that_goes_on_is_measured_as_a_whole_from_the_second_on(warm_ups: int, repeat: int) -> None:
    found = asked("days", warm_ups=warm_ups, repeat=repeat)
    numbers = [found.measured(i, 0) for i in range(found.cut.times)]
    assert numbers == [None] * 3 * (2 + warm_ups) + [n for n in range(repeat) for _ in range(3)]
    assert found.series == 1


def test_so_many_rows_leave_at_each_later_arrival(tmp_path: Path) -> None:
    dataset = generate(0.001, tmp_path / "cache", "tpch")
    found = asked("ivm", pattern="retract", deleted=0.02)
    arrivals = cut_facts(dataset, SUITES["tpch"], found.cut, tmp_path / "cut")["lineitem"].arrivals
    first = pq.read_metadata(arrivals[0]).num_rows
    for path in arrivals[1:]:
        changes = Counter(pq.read_table(path).column("_change").to_pylist())
        assert 0.01 < changes["delete"] / first < 0.03
        assert 0.005 < changes["insert"] / first < 0.015


def test_rows_begin_to_leave_one_refresh_before_the_measured_ones(tmp_path: Path) -> None:
    dataset = generate(0.001, tmp_path / "cache", "tpch")
    found = asked("ivm", pattern="retract", deleted=0.02, repeat=2, turn=True)
    assert [found.measured(i, 0) for i in range(len(found.sizes))] == [None, None, None, None, 0, 1]
    arrivals = cut_facts(dataset, SUITES["tpch"], found.cut, tmp_path / "cut")["lineitem"].arrivals
    first = pq.read_metadata(arrivals[0]).num_rows
    gone = [pq.read_table(path).column("_change").to_pylist().count("delete") / first for path in arrivals]
    assert gone[:3] == [0.0] * 3
    assert all(0.01 < share < 0.03 for share in gone[3:])


@pytest.mark.parametrize(
    ("scenario", "known", "said"),
    [
        ("ivm", {"turn": True}, "what loses rows can turn"),
        ("pdw", {"turn": True, "pattern": "retract"}, "what loses rows can turn"),
        ("ivm", {"turn": True, "pattern": "retract", "deleted": 0.9}, "Over 2 arrivals more rows would leave"),
        ("ivm", {"shares": parts("0.01,0.02")}, "has one share"),
        ("ivm", {"prices": (1.0,)}, "no prices"),
        ("pdw", {"shares": parts("0.5,0.5")}, "2 shares and 3 prices"),
        ("pdw", {"shares": (Fraction(1),), "prices": (1.0,)}, "1 shares and 1 prices"),
        ("pdw", {"shares": parts("1,-1,1")}, "not positive"),
        ("pdw", {"shares": parts("1,1,1/2000")}, "less than a minute"),
        ("pdw", {"prices": (-0.25, 0.3, 1.0)}, "negative"),
        ("pdw", {"prices": (0.0, 0.0, 0.0)}, "all are 0"),
        ("pdw", {"deleted": 0.01}, "Nothing is deleted"),
        ("pdw", {"pattern": "retract", "deleted": 0.9}, "more rows would leave"),
        ("pdw", {"daily": Fraction(1, 50)}, "Only several days"),
        ("days", {"daily": Fraction(0)}, "Nothing comes in a day"),
        ("days", {"prices": (1.0,)}, "3 shares and 1 prices"),
        ("days", {"turn": True, "pattern": "retract"}, "what loses rows can turn"),
        ("pdw", {"methods": ()}, "No set of methods"),
        ("pdw", {"methods": ("all", "all")}, "one twice"),
        ("pdw", {"repeat": 0}, "Nothing is measured"),
        ("pdw", {"references": True}, "come together with their lines"),
        ("ivm", {"references": True, "split": "together", "suite": "tpcds"}, "come together with their lines"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(scenario: str, known: Row, said: str) -> None:
    with pytest.raises(TempuraError, match=f"BAD_BENCHMARK.*{said}"):
        asked(scenario, **known)


def test_one_number_is_one() -> None:
    with pytest.raises(TempuraError, match=r"BAD_BENCHMARK.*not one number"):
        part("0.01,0.02")


@pytest.mark.parametrize("text", ["1/0", "half", "", "0.5,"])
def test_a_list_of_numbers_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TempuraError, match="BAD_BENCHMARK"):
        parts(text)


def test_methods_are_known_before_anything_starts() -> None:
    assert asked(methods=("im1+batch", "im2")).methods == ("im1+batch", "im2")
    with pytest.raises(TempuraError, match="UNKNOWN_METHOD"):
        asked(methods=("im1+im9",))


# --- what a run took -----------------------------------------------------------------------------------------------------


def test_time_in_which_several_jobs_run_counts_once() -> None:
    assert covered([]) == 0
    assert covered([(5.0, 6.0), (1.0, 3.0), (2.0, 4.0), (2.5, 3.0)]) == pytest.approx(4.0)


def test_the_phases_of_a_run_add_up_to_its_wall_time() -> None:
    taken = Taken(Usage(), jobs_s=1.2, jvm_s=3.0, python_s=0.5, wall_s=4.0)
    told = {name: Clocks(wall) for name, wall in ((LOOKING, 0.5), (PLANNING, 1.0), (COMPUTING, 2.0), (STORING, 0.25))}
    found = phases(told, taken)
    assert found == {"looking": 0.5, "planning": 1.0, "storing": 0.25, "building": 0.8, "jobs": 1.2, "rest": 0.25}
    assert phases({}, replace(taken, jobs_s=0.0)) == {"building": 0, "jobs": 0, "rest": 4.0}, "nothing was done"


# --- the summary ---------------------------------------------------------------------------------------------------------


def batch(query: str, *cpu: float, measured: bool = True) -> list[Row]:
    return [
        {"query": query, "measured": measured, "cpu_s": c, "wall_s": 2 * c, "jvm_s": 3 * c, "python_s": 0.0}
        for c in cpu
    ]


def run(query: str, methods: str, cpu: float, **known: Any) -> Row:
    row = {"query": query, "pattern": "append", "scenario": "pdw", "methods": methods, "price": 1.0, "measured": 0}
    row |= {"cpu_s": cpu, "wall_s": cpu, "jvm_s": 2 * cpu, "python_s": cpu, "estimated_s": cpu / 2}
    return row | {"equal": True, "error": None} | known


def test_runs_before_the_deadline_count_at_their_price() -> None:
    day = [run("q1", "all", 4.0, price=0.25, equal=None), run("q1", "all", 1.0)]
    (found,) = ratios_of(day, batch("q1", 4.0))
    assert found["cpu_ratio"] == pytest.approx((0.25 * 4 + 1) / 4)
    assert found["deadline_ratio"] == pytest.approx(1 / 4)
    assert found["wall_ratio"] == pytest.approx(2 / 8)
    assert found["wait_ratio"] == pytest.approx(1 / 8)
    assert found["all_cpu_ratio"] == pytest.approx(6 / 12)
    assert (found["recompute_s"], found["measured_s"], found["estimated_s"]) == (4.0, 2.0, 1.0)


def test_medians_of_measurements_are_compared_and_warming_up_counts_for_nothing() -> None:
    refreshes = [run("q1", "all", cpu, measured=n) for n, cpu in enumerate((1.0, 9.0, 2.0))]
    slow = run("q1", "all", 50.0, measured=None, equal=None)
    (found,) = ratios_of([slow, *refreshes], batch("q1", 3.0, 4.0, 90.0) + batch("q1", 80.0, measured=False))
    assert found["cpu_ratio"] == pytest.approx(2 / 4)


def test_what_is_not_right_has_no_ratio_and_is_told() -> None:
    rows = [
        *(run("q1", "all", 1.0), run("q1", "im1", 1.0, equal=False)),
        *(run("q2", "all", 1.0, equal=None), run("q3", "all", 1.0), run("q3", "all", 0.0, error="NO_PLAN", equal=None)),
    ]
    found = summarised(rows, [*batch("q1", 1.0), *batch("q2", 1.0), *batch("q3", 1.0)])
    assert [(row["query"], row["methods"]) for row in found["ratios"]] == [("q1", "all")]
    assert found["wrong"] == ["q1 im1"]
    assert found["failed"] == {"q3 all": "NO_PLAN"}
    assert found["queries"] == 3


def test_the_summary_is_per_set_of_methods_and_for_large_queries_apart() -> None:
    rows = [run("q1", "all", 0.5), run("q2", "all", 8.0), run("q3", "all", 1.0), run("q2", "im1", 2.0)]
    found = summarised(rows, [*batch("q1", 1.0), *batch("q2", 4.0), *batch("q3", 1.0)])
    means = found["methods"]["all"]
    assert means["n"] == 3
    assert means["cpu_ratio"] == {"geomean": 1.0, "median": 1.0, "above_1_05": 1}
    assert set(means) == {"n", "cpu_ratio", "deadline_ratio", "wall_ratio", "wait_ratio", "all_cpu_ratio", "large"}
    assert means["large"]["n"] == 1
    assert means["large"]["cpu_ratio"] == {"geomean": 2.0, "median": 2.0, "above_1_05": 1}
    assert found["methods"]["im1"]["cpu_ratio"]["geomean"] == 0.5
    assert summarised([], [])["methods"] == {}


def told(query: str, *costs: float, jobs: float, **known: Any) -> list[Row]:
    """Measurements of a refresh of which it is told how long jobs ran."""
    phases = {"looking": 0.1, "jobs": jobs}
    return [run(query, "all", cpu, measured=n, phases=phases, **known) for n, cpu in enumerate(costs)]


def test_the_fixed_cost_is_what_no_job_and_no_task_takes() -> None:
    day = [
        *told("q1", 4.0, jobs=3.0, wall_s=5.0, jvm_s=6.0, python_s=1.0, price=0.25, equal=None),
        *told("q1", 1.0, jobs=0.5, wall_s=2.0, jvm_s=1.25, python_s=0.5),
    ]
    (found,) = ratios_of(day, batch("q1", 4.0))
    assert found["fixed_wall_s"] == pytest.approx(0.25 * 2 + 1.5)
    assert found["fixed_cpu_s"] == pytest.approx(0.25 * 3 + 0.75)
    # Clocks of Java and of tasks are not the same one.
    (none,) = ratios_of(told("q1", 1.0, jobs=3.0, wall_s=2.9, jvm_s=0.9, python_s=0.0), batch("q1", 4.0))
    assert (none["fixed_wall_s"], none["fixed_cpu_s"]) == (0.0, 0.0)


def test_the_fixed_cost_is_told_of_all_queries_that_have_one() -> None:
    rows = [
        *told("q1", 1.0, 9.0, 2.0, jobs=0.5),  # measured three times: 1.5 s and 4 CPU s
        *told("q2", 4.0, jobs=0.5),  # 3.5 and 8
        *told("q3", 1.0, jobs=0.5),  # 0.5 and 2
        run("q4", "all", 50.0),  # of an older file
        run("q1", "im1", 50.0),
    ]
    found = summarised(rows, [row for n in range(1, 5) for row in batch(f"q{n}", 4.0 if n == 2 else 1.0)])
    assert found["methods"]["all"]["n"] == 4
    fixed = found["methods"]["all"]["fixed"]
    assert fixed["fixed_wall_s"] == {"mean": round(5.5 / 3, 3), "median": 1.5}
    assert fixed["fixed_cpu_s"] == {"mean": round(14 / 3, 3), "median": 4.0}
    assert found["methods"]["all"]["large"]["fixed"]["fixed_wall_s"] == {"mean": 3.5, "median": 3.5}
    assert "fixed" not in found["methods"]["im1"]
    assert all(("fixed_wall_s" in row) == (row["query"] != "q4" and row["methods"] == "all") for row in found["ratios"])


def test_of_measured_runs_it_is_told_how_long_planning_took() -> None:
    def planned(query: str, *seconds: float, methods: str = "all", **known: Any) -> list[Row]:
        return [
            run(query, methods, 1.0, measured=n, phases={"looking": 9.0, "planning": s}, **known)
            for n, s in enumerate(seconds)
        ]

    rows = [
        *planned("q1", 0.05, 0.2, 0.1, 0.15),
        *planned("q2", 7.0) * 2,
        *(row | {"measured": None} for row in planned("q2", 9.0)),  # to warm up
        run("q3", "all", 1.0),  # of an older file
        run("q3", "all", 1.0, phases={"jobs": 0.5}),
        *planned("q1", 0.1, methods="im1"),
        run("q1", "batch", 1.0),
    ]
    found = summarised(rows, [row for n in range(1, 4) for row in batch(f"q{n}", 1.0)])["methods"]
    assert found["all"]["planning"] == {"runs": 6, "median": 0.175, "under_0.2_s": 0.5}
    assert found["im1"]["planning"] == {"runs": 1, "median": 0.1, "under_0.2_s": 1.0}
    assert "planning" not in found["batch"]


def test_a_refresh_that_does_nothing_has_a_place_in_the_mean() -> None:
    found = summarised([run("q1", "all", 0.0), run("q2", "all", 1.0)], [*batch("q1", 1.0), *batch("q2", 1.0)])
    assert found["methods"]["all"]["cpu_ratio"]["geomean"] == pytest.approx(math.sqrt(0.001), abs=1e-3)


def measured(**seconds: float) -> list[Row]:
    return [{"query": "q1", "methods": name, "measured_s": s, "estimated_s": s} for name, s in seconds.items()]


def test_a_choice_is_right_within_a_tenth_or_three_tenths_of_a_second() -> None:
    assert is_right(measured(all=11.0, im1=10.0, batch=20.0)) is True
    assert is_right(measured(all=11.1, im1=10.0, batch=20.0)) is False
    assert is_right(measured(all=0.55, im1=0.25)) is True
    assert is_right(measured(all=0.56, im1=0.25)) is False
    assert is_right(measured(all=1.0, im1=9.0)) is True
    assert is_right(measured(all=1.0)) is None
    assert is_right(measured(im1=1.0, batch=2.0)) is None


def test_of_a_wrong_choice_it_is_told_whether_the_best_plan_is_the_same() -> None:
    rows = [
        *(run("q1", "all", 2.0, step="a"), run("q1", "im1", 1.0, step="a"), run("q1", "batch", 9.0, step="b")),
        *(run("q2", "all", 3.0, step="a"), run("q2", "im1", 9.0, step="a"), run("q2", "batch", 1.0, step="b")),
        *(run("q3", "all", 1.0, step="a"), run("q3", "im1", 1.2, step="b")),
        *(run("q4", "all", 2.0), run("q4", "im1", 1.0)),
        *(run("q5", "all", 2.0, step=None), run("q5", "im1", 1.0, step=None)),
    ]
    found = summarised(rows, [row for n in range(1, 6) for row in batch(f"q{n}", 4.0)])
    assert found["wrong_choices"] == [
        {"query": "q1", "best": "im1", "times": 2.0, "same": True},
        {"query": "q2", "best": "batch", "times": 3.0, "same": False},
        {"query": "q4", "best": "im1", "times": 2.0, "same": False},
        {"query": "q5", "best": "im1", "times": 2.0, "same": False},
    ]
    assert found["right_choices"] == 0.2


def test_a_step_is_known_whatever_it_was_estimated_at() -> None:
    def plan(cost: float, operator: str, later: str) -> str:
        step = f"emit\n └── {operator}  [cost={cost} s  rows={cost * 10}]\n      └── read t[:0]  [cost=0.1 s  rows=5]\n"
        return f"method im1\n\nstep refresh 1 (price 1): cost {cost} s, built\n{step}\nstep refresh 2 (price 1): cost 1 s\n{later}"

    first = step_of(plan(0.5, "filter (k > 1)", "emit"))
    assert step_of(plan(0.7, "filter (k > 1)", "nothing")) == first
    assert step_of(plan(0.5, "filter (k > 2)", "emit")) != first


def test_a_step_that_asks_spark_is_told_whatever_that_was_estimated_at() -> None:
    def plan(by_spark: float, by_operators: float, beginning: str = "as written, ") -> str:
        told = f"emit  [{beginning}planned by Spark={by_spark:.3g} s, chosen by these operators={by_operators:.3g} s]"
        return (
            f"method batch\n\nstep t1 (price 1): cost {by_spark} s\n{told}\n └── read sales[:1]  [cost=0.5 s  rows=7]\n"
        )

    assert step_of(plan(2.39, 3.35)) == step_of(plan(0.00015, 1e-05))
    assert step_of(plan(2.39, 3.35)) != step_of(plan(2.39, 3.35, beginning=""))


def test_of_a_run_the_step_is_told(tmp_path: Path) -> None:
    wh = one_above_another(tmp_path).wh
    plan, other = (wh.query(name).steps()[-1].plan for name in ("summary", "above"))
    dearer = re.sub(r"cost=\S+ s  rows=\d+", "cost=77 s  rows=7", plan)
    assert dearer != plan
    assert step_of(dearer) == step_of(plan)
    assert step_of(other) != step_of(plan)


def test_ranks_correlate_whatever_the_distances() -> None:
    assert rank_correlation([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [9, 7, 5, 3]) == pytest.approx(-1)
    # 1 - 6 Σd² / (n (n² - 1)) where no values are equal.
    assert rank_correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(1 - 6 * 4 / (5 * 24))
    # Equal values share the mean of their places: ranks 0.5, 0.5, 2 against 0, 1, 2.
    assert rank_correlation([1, 1, 2], [1, 2, 3]) == pytest.approx(math.sqrt(3) / 2)
    assert rank_correlation([1, 1], [1, 2]) is None
    assert rank_correlation([1], [1]) is None


def test_ranks_over_all_queries_hide_the_choice_within_one() -> None:
    rows = [
        *(run("q1", "all", 1.0, estimated_s=2.0), run("q1", "im1", 2.0, estimated_s=1.0)),
        *(run("q2", "all", 10.0, estimated_s=20.0), run("q2", "im1", 20.0, estimated_s=10.0)),
    ]
    found = summarised(rows, [*batch("q1", 1.0), *batch("q2", 10.0)])
    assert found["rank_correlation"] == pytest.approx(0.6)
    assert found["rank_correlation_within_queries"] == -1
    assert found["right_choices"] == 1.0
    assert found["large"]["rank_correlation"] == -1


# --- the figure ----------------------------------------------------------------------------------------------------------


def marks(text: str) -> list[tuple[str, float, float]]:
    """What the marks say, and where they are."""
    space = {"s": "http://www.w3.org/2000/svg"}
    circles = [c for c in ET.fromstring(text).findall("s:circle", space) if c.find("s:title", space) is not None]
    return [(str(c.findtext("s:title", None, space)), float(c.attrib["cx"]), float(c.attrib["cy"])) for c in circles]


def test_a_figure_shows_queries_in_the_order_of_their_ratios() -> None:
    found = marks(figure("a < b", {"all": {"q1": 2.0, "q2": 0.0, "q3": 0.5}, "im1": {"q1": 0.5}}))
    assert sorted(text for text, _, _ in found) == ["q1: 0.50", "q1: 2.00", "q2: 0.00", "q3: 0.50"]
    of = {text: (x, y) for text, x, y in found}
    assert of["q2: 0.00"][0] < of["q3: 0.50"][0] < of["q1: 2.00"][0]
    assert of["q1: 0.50"][0] == of["q1: 2.00"][0]
    assert of["q2: 0.00"][1] > of["q3: 0.50"][1] > of["q1: 2.00"][1]
    assert marks(figure("nothing", {})) == []


def test_of_several_sets_of_methods_task_cpu_is_drawn(tmp_path: Path) -> None:
    asked = SimpleNamespace(methods=("all", "im1"), suite="tpch", scale=1.0, scenario="ivm", pattern="append")
    rows = [
        {"query": "q1", "methods": methods, "cpu_ratio": ratio, "all_cpu_ratio": 7.0, "wall_ratio": 8.0}
        for methods, ratio in (("all", 0.25), ("im1", 0.5))
    ]
    draw(tmp_path / "out.svg", cast(Any, asked), {"ratios": rows})
    assert [text for text, _, _ in marks((tmp_path / "out.svg").read_text())] == ["q1: 0.25", "q1: 0.50"]


# --- the command ---------------------------------------------------------------------------------------------------------


def comparing(done: list[str], **known: Any) -> Callable[[Comparison], None]:
    """In the place of a comparison by Spark: notes the query, and finds what is ``known``."""

    def compare(comparison: Comparison) -> None:
        done.append(comparison.name)
        comparison.rows.append(run(comparison.name, "all", 1.0) | known)
        comparison.batch += batch(comparison.name, 2.0)

    return compare


@pytest.fixture
def lakeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No data is generated, no tables are laid out, no session is started."""
    from contextlib import nullcontext

    monkeypatch.setattr("tempura.bench.suites.generate", lambda *_, **__: None)
    monkeypatch.setattr("tempura.bench.effectiveness.laid_out", lambda *_: nullcontext())
    monkeypatch.setattr("tempura.cli.effectiveness.start_session", lambda *_, **__: None)


def command(out: Path, *options: str) -> tuple[int, str]:
    given = ["bench", "effectiveness", "--suite", "tpch", "--queries", "q1,q3", "--methods", "all", "--out", str(out)]
    result = CliRunner().invoke(main, [*given, *options])
    return result.exit_code, result.output


@pytest.mark.usefixtures("lakeless")
def test_the_command_tells_the_fixed_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = {"cpu_s": 0.5, "wall_s": 1.25, "jvm_s": 0.75, "python_s": 0.125, "phases": {"jobs": 0.5}}
    monkeypatch.setattr(Comparison, "run", comparing([], **fixed))
    code, output = command(tmp_path / "out.json")
    assert code == 0, output
    line = "fixed cost, all: 0.75 (median 0.75) s beside jobs, 0.38 (median 0.38) CPU s beside tasks"
    assert output.splitlines().count(line) == 2, "of all queries, and of the large ones"


@pytest.mark.usefixtures("lakeless")
def test_the_command_tells_how_long_planning_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Comparison, "run", comparing([], phases={"planning": 0.125}))
    code, output = command(tmp_path / "out.json")
    assert code == 0, output
    assert output.splitlines().count("planning, all: median 0.12 s, 100% under 0.2 s, of 2 runs") == 1
    monkeypatch.setattr(Comparison, "run", comparing([]))
    assert "planning, all" not in command(tmp_path / "other.json")[1]


@pytest.mark.usefixtures("lakeless")
def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, done = tmp_path / "out.json", list[str]()
    compare = comparing(done)

    def stopped(comparison: Comparison) -> None:
        if comparison.name == "q3":
            raise KeyboardInterrupt
        compare(comparison)

    monkeypatch.setattr(Comparison, "run", stopped)
    assert command(out)[0] != 0
    content = json.loads(out.read_text())
    assert [row["query"] for row in content["runs"]] == [row["query"] for row in content["batch"]] == ["q1"]
    monkeypatch.setattr(Comparison, "run", compare)
    assert command(out, "--resume", "--figure", str(tmp_path / "figures" / "out.svg"))[0] == 0
    assert done == ["q1", "q1", "q3", "q3"], "the first of each session once to warm up"
    content = json.loads(out.read_text())
    assert content["summary"]["methods"]["all"]["n"] == 2
    drawn = (tmp_path / "figures" / "out.svg").read_text()
    assert Counter(text for text, _, _ in marks(drawn)) == {"q1: 0.50": 2, "q1: 0.25": 1, "q3: 0.50": 2, "q3: 0.25": 1}
    assert all(f">{measure}</text>" in drawn for measure in ("task CPU", "all CPU", "time"))
    code, output = command(out)
    assert code == 1
    assert "[FILE_EXISTS]" in output
    assert "[OTHER_BENCHMARK]" in command(out, "--resume", "--scenario", "ivm")[1]


@pytest.mark.usefixtures("lakeless")
@pytest.mark.parametrize(
    ("known", "said"),
    [({"equal": False}, "wrong: q1 all"), ({"equal": None, "error": "NO_PLAN"}, "failed: q1 all: NO_PLAN")],
)
def test_a_result_that_is_not_equal_fails_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: Row, said: str
) -> None:
    monkeypatch.setattr(Comparison, "run", comparing([], **known))
    code, output = command(tmp_path / "out.json")
    assert code == 1
    assert said in output
    monkeypatch.setattr(Comparison, "run", comparing([]))
    code, output = command(tmp_path / "out.json", "--resume")
    assert code == 0, output


@pytest.mark.usefixtures("lakeless")
def test_queries_over_tables_that_stand_still_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"q1": "SELECT count(*) FROM nation", "q2": "SELECT count(*) FROM lineitem"}
    monkeypatch.setattr("tempura.bench.effectiveness.SUITES", {"tpch": replace(SUITES["tpch"], own=texts)})
    done, told = list[str](), list[str]()
    monkeypatch.setattr(Comparison, "run", comparing(done))
    record = Record(tmp_path / "out.json", asked().meta(), summarise=summarised)
    run_effectiveness(cast(SparkSession, None), asked(), "all", record, quiet, told.append)
    assert done == ["q2", "q2"], "the first of a session once to warm up"
    assert told == ["q1: left out, because no rows arrive in its tables"]


def test_options_that_do_not_fit_end_the_command_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("tempura.cli.effectiveness.start_session", refused)
    for options in (("--prices", "1,2"), ("--deleted", "0.1"), ("--shares", "x")):
        code, output = command(tmp_path / "out.json", *options)
        assert code == 1
        assert "[BAD_BENCHMARK]" in output
    assert not (tmp_path / "out.json").exists()


def test_the_help_shows_an_example() -> None:
    result = CliRunner().invoke(main, ["bench", "effectiveness", "--help"])
    assert result.exit_code == 0
    assert "tempura bench effectiveness --suite tpch" in result.output


@pytest.mark.usefixtures("lakeless")
@pytest.mark.parametrize("warm_ups", [0, 1])
def test_what_warms_up_the_session_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_ups: int
) -> None:
    ran = list[tuple[str, int]]()
    compare = comparing([])

    def compared(comparison: Comparison) -> None:
        ran.append((comparison.name, len(comparison.sets)))
        compare(comparison)

    monkeypatch.setattr(Comparison, "run", compared)
    out = tmp_path / "out.json"
    command(out, "--methods", "all,im1", "--queries", "q1,q2", "--warm-ups", str(warm_ups))
    assert ran == [("q1", 1)] * warm_ups + [("q1", 2), ("q2", 2)]
    assert [row["query"] for row in json.loads(out.read_text())["runs"]] == ["q1", "q2"]


@pytest.mark.usefixtures("lakeless")
def test_each_query_begins_with_another_set_of_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = dict[str, tuple[str, ...]]()
    compare = comparing([])

    def compared(comparison: Comparison) -> None:
        began[comparison.name] = tuple(comparison.sets)
        compare(comparison)

    monkeypatch.setattr(Comparison, "run", compared)
    command(tmp_path / "out.json", "--methods", "all,im1,batch", "--queries", "q1,q2,q3,q4")
    turns = [("all", "im1", "batch"), ("im1", "batch", "all"), ("batch", "all", "im1")]
    assert began == dict(zip(("q1", "q2", "q3", "q4"), (*turns, turns[0]), strict=True))
