"""Simulation and search: what must hold whatever the query, and the strategies against each other."""

from random import Random

import numpy as np
import pytest

from tempura.algebra.rel import Rel
from tempura.errors import TempuraError
from tempura.pace.arrivals import arriving
from tempura.pace.cut import cut
from tempura.pace.goal import STRATEGIES, Goal
from tempura.pace.search import Search, incrementability, ladder
from tempura.pace.simulate import FOLLOWS, Simulation
from tempura.pace.statistics import estimated
from tempura.pace.strategies import paces_by_name, plan_paces, planned_again
from tempura.pace.work import nanoseconds
from tests.unit.pace_queries import SALES, counted, dearest, facts, joined, per_item

ROWS = {"sales": 10_000.0, "items": 500.0}
FACTS = facts(10_000, 500)
QUERIES: dict[str, Rel] = {
    "per item": per_item(), "dearest": dearest(), "outer": counted(joined("left")), "anti": counted(joined("anti")),
    "scan": SALES,
}  # fmt: skip


def simulation(query: Rel, steps: int = 20, rate: str = "steady") -> Simulation:
    made = cut(query)
    return Simulation(made, estimated(made, FACTS), arriving(ROWS, steps, rate))


def test_incrementability_is_the_paper_s() -> None:
    # From one flush (final 100, total 100) to one with final 40, total 130: 60 saved for 30 more.
    assert incrementability((100, 40), (100, 130)) == 2
    assert incrementability((100, 40), (100, 100)) == float("inf")
    assert incrementability((100, 120), (100, 130)) < 0
    assert incrementability((100, 100), (100, 130)) == 0
    assert incrementability((100, 120), (100, 100)) == -float("inf")


@pytest.mark.parametrize("name", QUERIES)
def test_one_flush_is_the_batch_and_all_work_is_final(name: str) -> None:
    sim = simulation(QUERIES[name])
    found = sim.run([[1] * len(sim.cut.paths)])
    assert found.total[0] == pytest.approx(found.final[0])


@pytest.mark.parametrize("name", QUERIES)
def test_configurations_are_simulated_alike_alone_and_together(name: str) -> None:
    sim = simulation(QUERIES[name])
    drawn = Search(sim, Goal(final_work=0.1)).random(12, Random(3).choice)
    together = sim.run(drawn)
    for i, paces in enumerate(drawn):
        alone = sim.run([list(map(int, paces))])
        assert (alone.total[0], alone.final[0]) == pytest.approx((together.total[i], together.final[i]))


@pytest.mark.parametrize("name", QUERIES)
def test_a_uniform_pace_is_micro_batches_of_the_whole_query(name: str) -> None:
    """Every path is flushed at the same steps, so the work of the k-th flush is that of a query whose tables grow in
    k parts."""
    sim = simulation(QUERIES[name], steps=20)
    coarse = simulation(QUERIES[name], steps=4)
    paths = len(sim.cut.paths)
    fine_steps = sim.run([[4] * paths]).steps[0]
    assert fine_steps[[4, 9, 14, 19]] == pytest.approx(coarse.run([[4] * paths]).steps[0])
    assert float(fine_steps.sum()) == pytest.approx(float(fine_steps[[4, 9, 14, 19]].sum()))


def test_insert_only_joins_are_fully_incrementable() -> None:
    sim = simulation(joined())
    found = sim.run([[1, 1], [20, 20], [5, 2]])
    assert found.total == pytest.approx(np.full(3, found.total[0]))


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("bound", [0.5, 0.1, 0.05])
@pytest.mark.parametrize("strategy", ["inqp", "greedy", "uniform", "hand", "sample"])
def test_no_path_is_faster_than_one_below(name: str, bound: float, strategy: str) -> None:
    sim = simulation(QUERIES[name])
    plan = plan_paces(sim, Goal(final_work=bound), strategy)  # type: ignore[arg-type]
    assert all(sim.cut.respects(point.paces) for point in plan.curve)
    assert plan.meets == (plan.chosen.final <= bound * plan.batch * (1 + 1e-9))
    assert [plan.chosen.total, plan.chosen.final] == pytest.approx(
        [sim.run([plan.paces]).total[0], sim.run([plan.paces]).final[0]]
    )


@pytest.mark.parametrize("name", ["per item", "dearest", "outer", "anti"])
@pytest.mark.parametrize("bound", [0.5, 0.25, 0.2])
def test_exhaustive_search_is_never_worse_and_greedy_close(name: str, bound: float) -> None:
    goal = Goal(final_work=bound)
    totals = {s: plan_paces(simulation(QUERIES[name], 8), goal, s) for s in STRATEGIES if s != "leaf"}
    best = totals["exhaustive"]
    for name_of, plan in totals.items():
        if plan.meets:
            assert best.meets
            assert best.chosen.total <= plan.chosen.total * (1 + 1e-9), name_of
    if best.meets:
        assert totals["inqp"].meets
        assert totals["inqp"].chosen.total <= 1.05 * best.chosen.total


@pytest.mark.parametrize("name", QUERIES)
def test_inqp_is_never_worse_than_a_uniform_pace(name: str) -> None:
    for bound in (0.5, 0.2, 0.1, 0.05):
        inqp, uniform = (plan_paces(simulation(QUERIES[name]), Goal(final_work=bound), s) for s in ("inqp", "uniform"))
        assert inqp.meets >= uniform.meets
        if uniform.meets:
            assert inqp.chosen.total <= uniform.chosen.total + 1e-4 * uniform.batch


def test_a_part_that_is_not_incrementable_is_delayed() -> None:
    plan = plan_paces(simulation(per_item(), 100), Goal(final_work=0.2), "greedy")
    paces = {str(path): plan.paces[path.number] for path in plan.cut.paths}
    assert plan.meets
    assert paces["p0 sales"] >= 5
    assert paces["p2 s0"] < paces["p0 sales"]


def test_the_dual_stays_within_total_work_and_saves_more_with_more_of_it() -> None:
    query, finals = per_item(least=510), []  # 20 sales of 1 to 50 each: what nearly half of the items reach
    for bound in (1.0, 1.1, 1.5, 3.0):
        plan = plan_paces(simulation(query, 50), Goal(total_work=bound))
        assert plan.meets
        assert plan.chosen.total <= bound * plan.batch * (1 + 1e-9)
        finals.append(plan.chosen.final)
    assert finals == sorted(finals, reverse=True)
    assert finals[-1] < finals[0]


def test_the_paces_between_two_rungs_leave_as_much_to_the_last_flush() -> None:
    sim = simulation(SALES, steps=100)
    rungs = ladder(sim)
    assert len(rungs) == 19
    assert ladder(sim, every=True) == tuple(range(1, 101))
    finals = {pace: float(sim.run([[pace]]).final[0]) for pace in range(1, 101)}
    for low, high in zip(rungs, [*rungs[1:], 101], strict=True):
        assert len({round(finals[pace], 6) for pace in range(low, high)}) == 1


def test_leaf_lets_inner_paths_follow() -> None:
    sim = simulation(per_item())
    plan = plan_paces(sim, Goal(final_work=0.3), "leaf")
    flushes = sim.flushes(plan.paces)
    assert [plan.paces[path.number] for path in sim.cut.paths if path.source is not None] == [FOLLOWS, FOLLOWS]
    assert (flushes[2] == flushes[0]).all()
    assert (flushes[3] == (flushes[1] | flushes[2])).all()


@pytest.mark.parametrize("pace", [1, 2, 3, 7, 19, 20])
def test_a_path_is_flushed_as_often_as_its_pace_says_and_at_the_end(pace: int) -> None:
    flushed = simulation(SALES).flushes([pace])[0]
    assert flushed.sum() == pace
    assert flushed[-1]


def test_a_burst_brings_as_many_rows_and_moves_flushes_to_it() -> None:
    steady, burst = (arriving(ROWS, 100, rate) for rate in ("steady", "burst-end"))
    assert burst.shares[-1] == steady.shares[-1] == 1
    assert (1 - burst.shares[89]) == pytest.approx(0.5)
    assert burst.flushes(10)[90:].sum() > steady.flushes(10)[90:].sum()


def test_flushes_that_have_been_stay_when_paces_are_planned_again() -> None:
    sim = simulation(per_item())
    first = sim.flushes([20, 1, 10, 1])
    again = planned_again(sim.cut, sim.statistics, sim.arrivals, Goal(final_work=0.2), first, 8)
    assert (again[:, :8] == first[:, :8]).all()
    assert again[:, -1].all()


def test_work_in_nanoseconds_counts_what_every_flush_costs() -> None:
    made = cut(joined())
    sim = Simulation(made, estimated(made, FACTS), arriving(ROWS, 20), nanoseconds(made, FACTS))
    found = sim.run([[1, 1], [20, 20]])
    jobs = 19 * 120_000_000
    assert found.total[1] - found.total[0] > jobs
    assert found.final[1] > 120_000_000


def refused(call: object) -> str:
    with pytest.raises(TempuraError) as caught:
        call()  # type: ignore[operator]
    assert caught.value.code == "BAD_PACES"
    return caught.value.what


def test_what_makes_no_sense_is_refused() -> None:
    sim = simulation(per_item())
    made = sim.cut
    with pytest.raises(TempuraError, match=r"BAD_PACES.*both or none"):
        Goal()
    assert "not on both" in refused(lambda: Goal())
    assert "not on both" in refused(lambda: Goal(0.1, 1.3))
    assert "0" in refused(lambda: Goal(final_work=0.0))
    assert "0.9" in refused(lambda: Goal(total_work=0.9))
    assert "'never'" in refused(lambda: plan_paces(sim, Goal(0.1), "never"))  # type: ignore[arg-type]
    assert "'orders'" in refused(lambda: paces_by_name(made, {"orders": 3}, 100))
    assert "101" in refused(lambda: paces_by_name(made, {"sales": 101}, 100))
    assert "below it 3" in refused(lambda: paces_by_name(made, {"sales": 3, "s0": 4}, 100))
    assert "spike" in refused(lambda: arriving(ROWS, 100, "burst-end", spike=11)).lower()
    assert "100,000" in refused(lambda: plan_paces(simulation(counted(per_item()), 300), Goal(0.01), "exhaustive"))


def test_paces_by_name_leave_the_others_as_fast_as_they_can_be() -> None:
    assert paces_by_name(cut(per_item()), {"sales": 6, "items": 4}, 100) == (6, 4, 6, 4)


@pytest.mark.parametrize("name", ["per item", "dearest", "outer", "anti"])
def test_raising_by_one_gives_nothing_that_rungs_do_not(name: str) -> None:
    """Algorithm 2 to the letter goes through the paces between the rungs, and ends no better."""
    for bound in (0.5, 0.25):
        sim = simulation(QUERIES[name])
        letter, rungs = (Search(sim, Goal(final_work=bound), every).greedy() for every in (True, False))
        assert rungs[-1].final <= bound * rungs[0].total
        assert rungs[-1].total <= letter[-1].total * 1.01
