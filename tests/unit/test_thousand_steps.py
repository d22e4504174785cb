"""A thousand refreshes of a view whose tables stay as large as they are: what is stored and what a refresh takes stay bounded."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tempura.algebra.rel import Aggregate, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref
from tempura.explain.character import MAINTAINED
from tempura.plan.progressive import ProgressivePlan
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.warehouse.commits import manifests
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.steps import StepManifest
from tempura.warehouse.warehouse import open_site
from tests.unit import bag_engine
from tests.unit.bag_engine import BagEngine, Row, columns_of
from tests.unit.test_churn import PRICES

SWEEP = 20
"""After how many steps an operator calls gc."""

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROWS, KEYS = 200, 12
FIXED = replace(
    PRICES,
    read_row=10,
    read_byte=2,
    write_byte=5.5,
    shuffle_row=270,
    shuffle_byte=3.4,
    expression_row=4,
    group_row=180,
)
"""Prices by which the state is written twice in fifty steps, so that each window has as many writings, whatever Spark is found to take."""


def per_category() -> Rel:
    """How many sales each category has, and their total."""
    _, cat, price = columns = columns_of("s", ("o_id", "int"), ("cat", "string"), ("price", "int"))
    total = AggregateOutput(
        Column("t", "total", "bigint"), AggregateCall("Sum", (Ref(price),), "bigint", detail="ansi")
    )
    number = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint"))
    key = Output(Column("k", "cat", "string"), Ref(cat))
    return Aggregate(Scan("sales", ("o_id", "cat", "price"), columns), (key,), (number, total))


@dataclass
class Shop:
    """A view over a table in which at each step a row comes and one goes, and what each step has taken."""

    folder: Path
    random: Random = field(default_factory=lambda: Random(3))
    rows: list[Row] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.engine = BagEngine(prices=FIXED)
        files = Files(lambda operation, path: self.operations.update([operation]))
        self.wh = open_site(self.folder / "wh", self.engine, files, lambda: NOON)
        self.table = self.wh.add_table("sales", schema="o_id INT, cat STRING, price INT")
        self.query: Query = self.wh.add_query("q", "per category", schedule=Schedule.view())

    def order(self, key: int) -> Row:
        return (key, f"c{self.random.randrange(KEYS)}", self.random.randrange(100))

    def step(self, n: int) -> StepManifest:
        new = [self.order(n * ROWS + i) for i in range(1 if n else ROWS)]
        gone = [self.rows.pop(self.random.randrange(ROWS))] if n else []
        changes = [(*r, "insert") for r in new] + [(*r, "delete") for r in gone]
        self.table.apply(changes, trust=True)  # type: ignore[arg-type]
        self.rows += new
        self.query.run(methods="im1")
        return self.query.steps()[-1]

    def window(self, steps: range) -> "Taken":
        """Some steps, with gc now and then, and what they took."""
        self.operations.clear()
        self.read.clear()
        written, stored, saved, maintained = len(self.engine.written), Counter[str](), set[int](), 0
        for n in steps:
            done = self.step(n)
            maintained += done.does is not None and done.does.kind == MAINTAINED
            saved |= {part.rows for state in done.states for part in state.stored.parts}
            if n % SWEEP == SWEEP - 1:
                self.wh.gc()
                stored |= self.stored()
        assert self.query.verify()
        entry = max((self.wh.path / "queries/q/steps" / f"{n}.json").stat().st_size for n in steps if n)
        read = self.read["files"], self.read["bytes"]
        rows = sum(self.engine.written[written:])
        return Taken(maintained, self.operations.total(), *read, rows, max(saved, default=0), entry, stored)

    def stored(self) -> Counter[str]:
        """Files and bytes of what lies in the warehouse, by what it is."""
        found = Counter[str]()
        for file in self.wh.path.rglob("*"):
            if file.is_file():
                section, _, kind, *rest = (*file.relative_to(self.wh.path).parts, "", "", "")
                name = rest[1] if kind == "attempts" else f"{section} {kind}"
                found[f"{name} files"] += 1
                found[f"{name} bytes"] += file.stat().st_size
        return found


@dataclass(frozen=True)
class Taken:
    """What some steps took: how many maintained the view; operations on files, manifests read from files, rows of states written; the
    largest part of a state and the largest manifest; and the most that lay in the warehouse after gc."""

    maintained: int
    operations: int
    files: int
    bytes: int
    written: int
    part: int
    entry: int
    stored: Counter[str]


class Planner:
    """Plans. Problems that differ in nothing but in what came and went long ago are planned once:
    planning takes longer than all else here, and does not depend on how many steps there were."""

    def __init__(self) -> None:
        self._plans: dict[object, ProgressivePlan] = {}

    def __call__(self, problem: Problem, methods: tuple[str, ...], **how: Any) -> ProgressivePlan:
        came = [tuple(n - t.inserted[0] for n in t.inserted) for t in problem.tables.values()]
        parts = sorted((str(key), facts.parts) for key, facts in problem.stored.items())
        key = (problem.query, problem.points, problem.states, methods, str(how), str(came), str(parts))
        if key not in self._plans:
            self._plans[key] = make_plan(problem, methods, **how)
        return self._plans[key]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    # Nothing is lost here.
    monkeypatch.setattr("tempura.warehouse.commits.files.os.fsync", lambda descriptor: None)
    monkeypatch.setattr("tempura.warehouse.times.follow.make_plan", Planner())
    monkeypatch.setitem(bag_engine.QUERIES, "per category", per_category)
    made = Shop(tmp_path)
    real = manifests._read

    def read(path: Path) -> manifests.Entry:
        made.read.update(files=1, bytes=path.stat().st_size)
        return real(path)

    monkeypatch.setattr(manifests, "_read", read)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("steps", [240, pytest.param(1000, marks=pytest.mark.full)])
def test_results_and_states_keep_their_size_bounded_over_a_thousand_steps(shop: Shop, steps: int) -> None:
    """Line 6 of "stuck for good": what a step late in the history takes and leaves, against one early in it."""
    count = 100 if steps == 1000 else 60
    shop.window(range(count))
    early = shop.window(range(count, 2 * count))
    shop.window(range(2 * count, steps - count))
    late = shop.window(range(steps - count, steps))
    assert min(early.maintained, late.maintained) > 0.9 * count
    assert late.operations <= 1.1 * early.operations, "operations on files per step"
    assert late.files <= 1.2 * early.files, "manifests that are read per step"
    # A checkpoint of 256 entries may fall into one window and not into the other.
    assert late.bytes <= 3 * early.bytes, "bytes of manifests that are read per step"
    assert late.written <= 1.2 * early.written, "rows of states that are written per step"
    assert late.part <= 1.2 * early.part, "rows of a state"
    assert late.entry <= 1.1 * early.entry, "bytes of the entry that a step adds to the history"
    for kind in ("states files", "states bytes", "output files", "output bytes"):
        assert 0 < late.stored[kind] <= 1.2 * early.stored[kind], kind
    assert late.stored["tables data files"] <= 2 * (3 * 15 + 1), "at most fifteen of each length, inserts and deletes"
    assert late.stored["tables data bytes"] <= 3 * early.stored["tables data bytes"]
    for kind in ("tables arrivals files", "queries steps files"):
        assert late.stored[kind] <= steps + steps / 15 + 1, "one manifest per step, and the checkpoints"
    assert len(shop.query.history()) == steps
