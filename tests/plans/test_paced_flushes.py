"""A query at paces in a warehouse: whatever the query, the paces, planned again or not, and the history, each result is what recomputing
gives over what was released, and the last one what recomputing gives over the tables."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Rel
from tempura.errors import TempuraError
from tempura.pace.cut import cut
from tempura.warehouse.commits.files import Files
from tempura.warehouse.paces import moment, paced, segments
from tempura.warehouse.paces.moment import Moment
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.paces.pacing import Known, Paces
from tempura.warehouse.tables.take import register
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.plans.random_queries import QueryGenerator, Table, random_table
from tests.plans.test_paced_run import STEPS, Oracle, leaf_rows, random_paces
from tests.unit import bag_engine
from tests.unit.bag_engine import BagEngine

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
RANDOM = "a random query"
Spoil = Callable[[pytest.MonkeyPatch], None]


@dataclass
class Day:
    """A warehouse whose clock a test moves on."""

    folder: Path
    tables: dict[str, Table]
    step: int = 0

    def open(self) -> Warehouse:
        return open_site(self.folder / "wh", BagEngine(), Files(), lambda: BEGIN + timedelta(hours=self.step))

    def begin(self) -> PacedQuery:
        wh = self.open()
        for name in self.tables:
            wh.add_table(name, schema="x INT, y INT, z INT")
        until = (BEGIN + timedelta(hours=STEPS)).isoformat()
        query = wh.add_query("q", RANDOM, schedule=Schedule.paced(until, final_work=0.5))
        assert isinstance(query, PacedQuery)
        return query

    def arrive(self) -> None:
        """What comes in the next step."""
        wh = self.open()
        for name, table in self.tables.items():
            change = table.arrivals[self.step]
            rows = [(*row, "insert" if n > 0 else "delete") for row, n in change.items() for _ in range(abs(n))]
            if rows:
                pushed: Any = rows
                wh.table(name).apply(pushed)
        self.step += 1


def with_query(random: Random, patch: pytest.MonkeyPatch) -> tuple[Rel, list[int]]:
    """A random query that the engine knows by a text, and random paces, which are planned for it, now and then others."""
    query = QueryGenerator(random, ("t", "u")).query(3)
    patch.setitem(bag_engine.QUERIES, RANDOM, lambda: query)
    made = cut(query)
    paces = random_paces(random, made)

    def plan(known: object, deadline: object, why: str) -> Paces:
        paces[:] = random_paces(random, made)
        moment, names = BEGIN.isoformat(), tuple(path.name for path in made.paths)
        until = (BEGIN + timedelta(hours=STEPS)).isoformat()
        return Paces(
            moment, moment, until, "inqp", "final work 0.5", names, tuple(paces), {}, 0, (), 0.0, 0.0, 0.0, True, why
        )

    def why_again(known: Known, last: Paces | None, deadline: object) -> str | None:
        return "by chance" if last is None or random.random() < 0.2 else None

    patch.setattr(paced, "plan", plan)
    patch.setattr(Known, "why_again", why_again)
    return query, paces


def released(query: PacedQuery, n: int) -> set[int]:
    """The paths that a flush has released, as its steps have noted them."""
    life = query._life()
    flushes = (step.flush for segment in life.segments for step in life.steps(segment))
    return {path for flush in flushes if flush and flush.n == n for path in flush.paths}


def check_due(paces: list[int], last: dict[int, int], step: int, paths: set[int]) -> None:
    """No path is released before its time: since its last release another 1 / pace of the rows has come."""
    if step < STEPS:
        assert all(step * paces[path] // STEPS > last[path] * paces[path] // STEPS for path in paths)


def run_and_compare(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns how many results before the last were compared."""
    random, compared = Random(seed), 0
    day = Day(folder, {name: random_table(random, name, STEPS) for name in ("t", "u")})
    with monkeypatch.context() as patch:
        query, paces = with_query(random, patch)
        made, methods = cut(query), random.choice(("all", "im1", "batch"))
        oracle, running, last = Oracle(made), day.begin(), dict.fromkeys(range(len(paces)), 0)
        for step in range(1, STEPS + 1):
            day.arrive()
            at_end = step == STEPS
            report = running.run(methods=methods)
            paths = set(range(len(paces))) if at_end else released(running, report.n)
            check_due(paces, last, step, paths)
            last |= dict.fromkeys(paths, step)
            tables = {name: table.snapshot(step - 1) for name, table in day.tables.items()}
            oracle.flush(paths, tables, at_end)
            if report.rows is not None:
                found: Any = running.result()
                assert found == oracle.value[-1], f"seed {seed}, step {step}, paces {paces}, {methods}\n{query}"
                compared += not at_end
            if random.random() < 0.2:
                day.open().gc(keep=1)
            if random.random() < 0.2:
                running = day.open().query("q")  # type: ignore[assignment]
        result: Any = running.result()
        assert result == evaluate(query, lambda leaf: leaf_rows(leaf, day.tables)), f"seed {seed}\n{query}"
        assert running.verify()
        assert running.is_done
    return compared


@pytest.mark.parametrize("block", range(4))
def test_each_flush_is_what_recomputing_gives(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = sum(run_and_compare(seed, tmp_path / str(seed), monkeypatch) for seed in range(block * 4, block * 4 + 4))
    assert compared >= 2


def nothing_waits(patch: pytest.MonkeyPatch) -> None:
    """A segment reads its sources as they are, whatever was released."""
    pins = Moment.pins

    def all_of_them(self: Moment, segment: segments.Segment, due: set[int], complete: bool) -> dict[str, Any]:
        return dict(pins(self, segment, set(segment.part.inputs.values()), complete))

    patch.setattr(Moment, "pins", all_of_them)


def all_at_once(patch: pytest.MonkeyPatch) -> None:
    """When one path of a segment is due, all of them are flushed."""
    patch.setattr(Moment, "released_now", lambda self, segment, complete: tuple(segment.part.inputs.values()))


def results_first(patch: pytest.MonkeyPatch) -> None:
    """Segments that read others are run before these."""
    life = PacedQuery._life
    patch.setattr(PacedQuery, "_life", lambda self: replace(life(self), segments=life(self).segments[::-1]))


def one_version_for_all_uses(patch: pytest.MonkeyPatch) -> None:
    """Both sides of a self-join read what either has released."""
    patch.setattr(segments, "use_of", lambda table, n: table)


def not_all_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """The last flush is one like the others."""
    crossed = Moment.crossed
    patch.setattr(Moment, "crossed", lambda self, segment, complete: crossed(self, segment, False))


def sources_are_not_taken_over(patch: pytest.MonkeyPatch) -> None:
    """What a segment has computed anew is not released where something was before."""
    patch.setattr(moment, "register", lambda table: table.version() or register(table))


WRONG: tuple[Spoil, ...] = (
    nothing_waits,
    all_at_once,
    results_first,
    one_version_for_all_uses,
    not_all_at_the_end,
    sources_are_not_taken_over,
)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_order_of_releases_is_refuted(wrong: Spoil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(40):
        with monkeypatch.context() as patch:
            wrong(patch)
            try:
                run_and_compare(seed, tmp_path / str(seed), patch)
            except (AssertionError, TempuraError, KeyError, ValueError):
                return
    pytest.fail("nothing was noticed in 40 cases")


@pytest.mark.full
@pytest.mark.parametrize("block", range(20))
def test_each_flush_of_many_is(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(100 + block * 20, 120 + block * 20):
        run_and_compare(seed, tmp_path / str(seed), monkeypatch)
