"""``tempura bench paces`` without Spark: cases of a query over rows, the ratios, and what is refused."""

from random import Random

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
from tempura.errors import TempuraError
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
    assert ratio(10, 100, batch=1000) == 0.1
    assert ratio(0.5, 0.9, batch=1000) is None
    assert ratio(5, 0, batch=1000) == 5
    assert ratio(0, 100, batch=1000) == 0


def case(strategy: str, additional: int, met: bool, error: str | None = None) -> dict[str, object]:
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
        "met": {"inqp": 1, "uniform": 0, "leaf": 1, "exhaustive": None},
        "planning_ms": {"p80": 20.0, "max": 20.0},
    }


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"strategies": ("inqp", "never")}, "never"),
        ({"strategies": ()}, "No strategy"),
        ({"constraints": (0.5, 1.5)}, "1.5"),
        ({"constraints": ()}, "none"),
        ({"bias": 0.0}, "bias"),
        ({"statistics": "guessed"}, "guessed"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], names: str) -> None:
    given: dict[str, object] = {"scale": 0.01, "constraints": (0.5,), "strategies": ("inqp",)} | options
    with pytest.raises(TempuraError, match="BAD_BENCHMARK") as caught:
        Paces(**given)  # type: ignore[arg-type]
    assert names in caught.value.what


def test_the_paper_s_queries_come_after_those_of_the_suite() -> None:
    assert list(chosen_with_papers("all"))[-2:] == list(PAPERS)
    assert list(chosen_with_papers("q_outer,q2")) == ["q2", "q_outer"]
    assert len(chosen_with_papers("all")) == 24
