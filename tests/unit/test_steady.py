"""A view is refreshed again and again: what a refresh leaves behind is what the next one needs, and no refresh recomputes in between."""

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tempura.algebra.rel import Rel
from tempura.cost.model import CostModel
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.physical.operators import Load, StateKey
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.warehouse.commits.files import Files
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import open_site
from tests.unit import bag_engine
from tests.unit.bag_engine import BagEngine, Row
from tests.unit.test_churn import VIEWS, inner, outer

REFRESHES = 10


@dataclass(frozen=True)
class Refresh:
    """What one refresh was planned to do, and its cost."""

    cost: int
    loads: int
    saves: int


def growing(rows: int, arriving: int, times: list[int], known: int) -> TableFacts:
    inserted = tuple(rows + arriving * t for t in times)
    columns = {"o_id": ColumnStats(rows), "cat": ColumnStats(20)}
    return TableFacts(inserted, (0,) * len(times), known, columns=columns)


def refreshed(query: Rel, arriving: int, method: str = "all") -> list[Refresh]:
    """The refreshes of a view over ten million sales and a quarter as many returns, each planned with what the last one left."""
    found: list[Refresh] = []
    past: list[int] = []
    states: frozenset[StateKey] = frozenset()
    for i in range(REFRESHES):
        points = Schedule.view().points_from(i, done=bool(past))
        times = [*past, *(i + j for j in range(len(points) - len(past)))]
        sizes = {"sales": (10_000_000, arriving), "returns": (2_500_000, arriving // 4)}
        tables = {name: growing(*size, times, len(past) + 1) for name, size in sizes.items()}
        step = make_plan(Problem(query, points, tables, states), (method,)).steps[0]
        loads = {rel.key for rel in step.operators if isinstance(rel, Load)}
        found.append(Refresh(step.cost, len(loads), len(step.saves)))
        if step.saves:
            past, states = [i], frozenset(replace(save.key, time=0) for save in step.saves)
    return found


@pytest.mark.parametrize("arriving", [100_000, 1_000_000, 4_000_000])
def test_an_aggregate_is_never_recomputed(arriving: int) -> None:
    first, *rest = refreshed(inner(), arriving)
    assert (first.loads, first.saves) == (0, 1)
    assert {refresh.loads for refresh in rest} == {1}
    # Where little arrives, a state is not worth writing each time: the next refresh reads what has come since.
    assert any(refresh.saves for refresh in rest)
    batch = refreshed(inner(), arriving, "batch")[1:]
    assert all(refresh.cost < other.cost for refresh, other in zip(rest, batch, strict=True))


@pytest.mark.parametrize("arriving", [100_000, 500_000, 4_000_000])
def test_a_large_state_is_kept_or_not_begun_with(arriving: int) -> None:
    """An old state is still loaded, with all that came since; where it does not pay any more, it is not built again."""
    refreshes = refreshed(outer(), arriving)
    batch = refreshed(outer(), arriving, "batch")
    recomputed = [i for i, refresh in enumerate(refreshes) if i and not refresh.loads]
    assert recomputed in ([], list(range(REFRESHES - len(recomputed), REFRESHES))), "no more than one change of mind"
    assert sum(r.cost for r in refreshes[1:]) <= sum(r.cost for r in batch[1:])


def as_if_large(by: int) -> CostModel:
    """Prices by which a few rows cost as much as ``by`` times as many."""
    model = CostModel()
    rows: dict[str, Any] = {
        f.name: getattr(model, f.name) * by for f in fields(model) if f.name.endswith(("_row", "_byte"))
    }
    sizes: dict[str, Any] = {"broadcast_bytes": model.broadcast_bytes // by, "few_groups": model.few_groups // by}
    return replace(model, **sizes, **rows)


@pytest.mark.slow
def test_ten_refreshes_of_a_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in a warehouse: each refresh leaves the state that the next one loads."""
    model = as_if_large(50_000)
    monkeypatch.setattr(bag_engine, "QUERIES", VIEWS)
    wh = open_site(tmp_path / "wh", BagEngine(prices=model), Files(), lambda: datetime(2026, 3, 1, tzinfo=UTC))
    sales = wh.add_table("sales", schema="o_id INT, cat STRING, price INT", append_only=True)
    returns = wh.add_table("returns", schema="o_id INT, cost INT", append_only=True)
    query = wh.add_query("inner", "inner", schedule=Schedule.view())
    for i in range(REFRESHES):
        rows: list[Row] = [(n, f"c{n % 6}", n % 100) for n in range(80 * i, 80 * (i + 1))]
        sales.append(rows)  # type: ignore[arg-type]
        returns.append([(n, n % 20) for n in range(80 * i, 80 * (i + 1), 4)])  # type: ignore[arg-type]
        query.run()
        assert query.verify()
    assert all(step.states for step in query.steps()[1:])
    assert all("load agg" in step.plan for step in query.steps()[2:])


@pytest.mark.slow
def test_days_that_follow_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept with the result of a day is what the next day's results are made from: none is computed from the tables again."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    monkeypatch.setattr(bag_engine, "QUERIES", VIEWS)
    wh = open_site(tmp_path / "wh", BagEngine(prices=as_if_large(50_000)), Files(), lambda: now)
    sales = wh.add_table("sales", schema="o_id INT, cat STRING, price INT", append_only=True)
    returns = wh.add_table("returns", schema="o_id INT, cost INT", append_only=True)
    sales.append([(n, f"c{n % 6}", n % 100) for n in range(2000)])  # type: ignore[arg-type]
    returns.append([(n, n % 20) for n in range(0, 2000, 4)])  # type: ignore[arg-type]
    query = wh.add_query("inner", "inner", schedule=Schedule.progressive({"14:00": 0.9, "24:00": 1.0}))
    for i in range(10):
        now = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=i // 2, hours=24 if i % 2 else 14)
        sales.append([(n, f"c{n % 6}", n % 100) for n in range(2000 + 20 * i, 2020 + 20 * i)])  # type: ignore[arg-type]
        returns.append([(n, n % 20) for n in range(20 * i, 20 * (i + 1), 4)])  # type: ignore[arg-type]
        query.run()
    assert query.verify()
    results = [step for step in query.steps() if step.output]
    assert len(results) == 5
    assert all(step.states for step in results)
    assert all("load agg" in step.plan for step in results[1:])
