"""``tempura bench paces`` without Spark: cases of a query over rows, the ratios, and what is refused."""

from random import Random
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Rel
from tempura.bench.paces import (
    PAPERS,
    STATISTICS,
    Paces,
    Trial,
    chosen_with_papers,
    measured_trial,
    ratio,
    require_equal,
    summarised,
)
from tempura.bench.paces_cpu import filling_up, sizes_of
from tempura.bench.paces_spread import pictured, require_one_varies, settings, spread
from tempura.bench.suites import SUITES
from tempura.errors import TempuraError
from tempura.pace.arrivals import RATES, arriving
from tempura.pace.cut import cut
from tempura.pace.simulate import Simulation
from tempura.pace.statistics import estimated
from tests.unit.pace_queries import COLUMNS, facts, per_item

ASKED = Paces(0.01, (0.5, 0.1), ("inqp", "uniform", "leaf", "hand", "replanned"))


def trial(query: Rel, rate: str = "steady") -> Trial:
    random = Random(1)
    items = [((i, random.randrange(4)), 1) for i in range(100)]
    sales = [((random.randrange(100), random.randint(1, 50)), 1) for _ in range(3000)]
    return Trial("q", cut(query), {"items": items, "sales": sales}, COLUMNS, rate)


def test_every_case_counts_what_its_flushes_did() -> None:
    asked = trial(per_item())
    row = measured_trial(asked, ASKED, estimated(asked.cut, facts(3000, 100)))
    assert [(c["constraint"], c["strategy"]) for c in row["cases"]] == [
        (bound, strategy) for bound in ASKED.constraints for strategy in ASKED.strategies
    ]
    for case in row["cases"]:
        assert case["error"] is None
        assert case["met"] == (case["final_share"] <= case["constraint"])
    by = {(c["strategy"], c["constraint"]): c for c in row["cases"]}
    assert by["inqp", 0.1]["met"]
    assert by["inqp", 0.1]["additional"] < 0.2 * by["uniform", 0.1]["additional"]
    assert by["hand", 0.1]["paces"] == [10] * 4
    assert list(row["accuracy"]) == ["measured", "tables", "sample"]
    assert abs(row["accuracy"]["measured"]) < 0.2
    assert row["sample"]["p1 items"] == 100
    assert 700 < row["sample"]["p0 sales"] < 1300


def test_paces_are_planned_from_the_statistics_that_are_asked_for() -> None:
    asked = trial(per_item())
    wrong = estimated(asked.cut, facts(3000, 3))
    plans = {}
    for kind in STATISTICS:
        row = measured_trial(asked, Paces(0.01, (0.1,), ("inqp",), statistics=kind), wrong)
        plans[kind] = row["cases"][0]["expected"]
    assert plans["sample"]["additional"] == pytest.approx(plans["measured"]["additional"], rel=0.2, abs=0.01)
    assert plans["tables"] != plans["measured"] != plans["sample"]


def test_a_burst_at_the_end_is_answered_by_planning_again() -> None:
    asked = trial(per_item(), "burst-end")
    arrivals = asked.arrivals()
    assert arrivals.shares[-1] == 1
    flushes = Simulation(asked.cut, estimated(asked.cut, facts(3000, 100)), arrivals).flushes([10, 1, 2, 1])
    run = asked.run(flushes, lambda done, step, now: now if step != 50 else np.where(np.arange(100) < 50, now, True))
    assert len(run.flushes) > flushes.any(axis=0).sum()
    require_equal(asked, run.result, asked.batch().result)


def test_another_result_than_the_batch_s_is_an_error() -> None:
    asked = trial(per_item())
    with pytest.raises(TempuraError, match=r"WRONG_RESULT.*another result"):
        require_equal(asked, SignedBag.of([(1, 2)]), asked.batch().result)


def test_ratios_compare_what_is_added_and_say_nothing_of_nothing() -> None:
    assert ratio(10, 100, nothing=1) == 0.1
    assert ratio(0.5, 0.9, nothing=1) is None
    assert ratio(5, 0, nothing=1) == 5
    assert ratio(0, 100, nothing=1) == 0


def case(strategy: str, additional: float, met: bool, error: str | None = None) -> dict[str, object]:
    found = {"strategy": strategy, "constraint": 0.05, "additional": additional, "met": met, "planning_ms": 20.0}
    return found | {"error": error}


def test_the_summary_has_the_ratios_the_met_and_the_planning_times() -> None:
    cases = [
        case("inqp", 10, True),
        case("uniform", 100, False),
        case("leaf", 40, True),
        case("exhaustive", 0, False, "x"),
    ]
    found = summarised([{"query": "q1", "batch": 1000, "cases": cases, "error": None}])
    assert found == {
        "uniform_ratio": {"q1": {"0.05": 0.1}},
        "leaf_ratio": {"q1": {"0.05": 0.25}},
        "above": [],
        "met": {"inqp": 1, "uniform": 0, "leaf": 1, "exhaustive": None},
        "planning_ms": {"p80": 20.0, "max": 20.0},
    }


def test_ratios_above_the_goal_are_told_with_who_was_within_the_bound() -> None:
    cases = [case("inqp", 50, True), case("uniform", 40, True), case("leaf", 49.5, False)]
    found = summarised([{"query": "q1", "batch": 1000, "cases": cases, "error": None}])["above"]
    assert found == [
        {"query": "q1", "constraint": 0.05, "than": "uniform", "ratio": 1.25, "met": {"inqp": 1, "uniform": 1}}
    ]


def test_ratios_are_of_what_is_added_on_average_over_draws() -> None:
    cases = [case("inqp", 10, True), case("inqp", 50, True), case("uniform", 100, False), case("uniform", 20, False)]
    rows = [
        {"query": "q1", "bias": bias, "spike": 5.0, "batch": 1000, "cases": cases, "error": None} for bias in (2.0, 5.0)
    ]
    assert summarised(rows)["uniform_ratio"] == {"q1 bias 2": {"0.05": 0.5}, "q1 bias 5": {"0.05": 0.5}}


def test_wrong_statistics_are_drawn_several_times() -> None:
    asked = trial(per_item())
    before = estimated(asked.cut, facts(3000, 100))
    given = Paces(0.01, (0.1,), ("inqp", "uniform"))
    rows: list[dict[str, Any]] = []
    for setting in settings(given, (0.2, 1.0, 5.0), (5.0,), draws=4):
        row = measured_trial(asked, setting, before)
        rows.append({"query": "q", "bias": setting.bias, "spike": setting.spike, "error": None} | row)
    assert [len(row["cases"]) for row in rows] == [8, 2, 8]
    assert (
        measured_trial(asked, settings(given, (5.0,), (5.0,), 4)[0], before)["cases"][0]["paces"]
        == rows[2]["cases"][0]["paces"]
    )
    found = list(spread(rows))
    assert [(one["bias"], one["strategy"], one["draws"]) for one in found] == [
        (bias, strategy, 1 if bias == 1 else 4) for bias in (0.2, 1.0, 5.0) for strategy in ("inqp", "uniform")
    ]
    for one in found:
        assert one["final"]["min"] <= one["final"]["mean"] <= one["final"]["max"]
    wide = [one for one in found if one["bias"] != 1 and one["final"]["min"] < one["final"]["max"]]
    assert wide
    drawn = pictured(found)
    root = ElementTree.fromstring(drawn)
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")][1:]
    assert len(titles) == 12
    assert sum(told.startswith("inqp, 0.2:") for told in titles) == 2


def test_a_burst_brings_as_many_times_the_rows_as_is_asked_for() -> None:
    steady, five = (
        Trial("q", cut(per_item()), trial(per_item()).rows, COLUMNS, "burst-end", spike) for spike in (1.0, 5.0)
    )
    assert np.allclose(np.diff(steady.arrivals().shares), 0.01)
    assert np.diff(five.arrivals().shares)[-1] == pytest.approx(0.05)


@pytest.mark.parametrize(("biases", "spikes"), [((1.0,), (5.0,)), ((1.0, 2.0), (1.0, 5.0))])
def test_a_figure_is_by_one_quantity(biases: tuple[float, ...], spikes: tuple[float, ...]) -> None:
    with pytest.raises(TempuraError, match="BAD_BENCHMARK"):
        require_one_varies(biases, spikes)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"strategies": ("inqp", "never")}, "never"),
        ({"strategies": ()}, "No strategy"),
        ({"constraints": (0.5, 1.5)}, "1.5"),
        ({"constraints": ()}, "none"),
        ({"bias": 0.0}, "bias"),
        ({"work": "cpu", "bias": 2.0}, "statistics of its own"),
        ({"work": "cpu", "strategies": ("inqp", "replanned")}, "by itself"),
        ({"work": "cpu", "max_pace": 0}, "pace is 0"),
        ({"max_pace": 20}, "up to 100, not 20"),
        ({"draws": 0, "bias": 2.0}, "0 draws"),
        ({"draws": 10}, "same"),
        ({"statistics": "guessed"}, "guessed"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], names: str) -> None:
    given: dict[str, object] = {"scale": 0.01, "constraints": (0.5,), "strategies": ("inqp",)} | options
    with pytest.raises(TempuraError, match="BAD_BENCHMARK") as caught:
        Paces(**given)  # type: ignore[arg-type]
    assert names in caught.value.what


def test_cpu_seconds_that_differ_by_chance_make_no_ratio() -> None:
    rows = [{"query": "q1", "batch": 10.0, "cases": [case("inqp", 0, True), case("uniform", 0, True)], "error": None}]
    for found, work in ((0.0, "tuples"), (None, "cpu")):
        rows[0]["cases"][1]["additional"] = 0.3  # type: ignore[index]
        assert summarised(rows, work)["uniform_ratio"] == {"q1": {"0.05": found}}, work


@pytest.mark.parametrize("rate", RATES)
def test_all_rows_come_and_each_share_of_them_no_later_than_its_arrival(rate: str) -> None:
    sizes = sizes_of(rate, 20)
    there = np.cumsum(sizes)
    assert there[-1] == pytest.approx(1.0)
    shares = arriving({}, 20, rate).shares
    assert (there[:-1] > shares[:-1]).all(), "a hash may bring a few rows less"
    assert (there - shares).max() < 0.1 * min(sizes), "the other paces are flushed as they are planned"
    assert sizes_of(rate, 20) == sizes
    assert sizes_of("steady", 1) == (1.0,)


def test_every_table_fills_up_row_by_row() -> None:
    facts = filling_up(SUITES["tpch"]).facts
    assert len(facts) == 8
    assert facts["lineitem"].order == "l_orderkey, l_linenumber"


def test_the_paper_s_queries_come_after_those_of_the_suite() -> None:
    assert list(chosen_with_papers("all"))[-2:] == list(PAPERS)
    assert list(chosen_with_papers("q_outer,q2")) == ["q2", "q_outer"]
    assert len(chosen_with_papers("all")) == 24
