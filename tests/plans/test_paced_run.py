"""Queries run path by path, each at a pace of its own, are what recomputing gives: at the end, and at each flush of the result."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from tempura.algebra.bag import EMPTY, SignedBag
from tempura.algebra.evaluate import Evaluation, evaluate
from tempura.algebra.rel import Rel, Scan
from tempura.errors import TempuraError
from tempura.pace.cut import Cut, Operator, Path, cut
from tempura.pace.run import PacedRun
from tempura.pace.run_groups import Grouping
from tempura.pace.run_join import Joining
from tempura.pace.run_linear import Change
from tests.plans.random_queries import QueryGenerator, Table, random_table

STEPS = 6
Spoil = Callable[[PacedRun, pytest.MonkeyPatch], None]


class Oracle:
    """What each segment is by the interpreter, over the rows that each path has released."""

    def __init__(self, made: Cut) -> None:
        self.cut = made
        self.released: list[SignedBag] = [EMPTY for _ in made.paths]
        self.value: list[SignedBag] = [EMPTY for _ in made.segments]

    def flush(self, paths: set[int], tables: dict[str, SignedBag], at_end: bool) -> None:
        for segment in self.cut.segments:
            if not at_end and not any(path.number in paths for path in segment.paths):
                continue
            for path in segment.paths:
                if path.number in paths:
                    self.released[path.number] = self.snapshot(path, tables)
            self.value[segment.number] = self.of(segment.root)

    def snapshot(self, path: Path, tables: dict[str, SignedBag]) -> SignedBag:
        return tables[path.table] if path.table is not None else self.value[path.source or 0]

    def of(self, node: Operator | Path) -> SignedBag:
        if isinstance(node, Path):
            return self.released[node.number]
        return Evaluation(lambda rel: EMPTY).operator(node.rel, tuple(map(self.of, node.inputs)))


def random_paces(random: Random, made: Cut) -> list[int]:
    """Paces at most those of the paths below."""
    paces: list[int] = []
    for path in made.paths:
        most = min((paces[child.number] for child in made.below(path)), default=STEPS)
        paces.append(random.randint(1, most))
    return paces


def due(paces: list[int], step: int) -> set[int]:
    return {i for i, pace in enumerate(paces) if step * pace // STEPS > (step - 1) * pace // STEPS}


def tables_of(random: Random) -> dict[str, Table]:
    return {name: random_table(random, name, STEPS) for name in ("t", "u")}


def run_and_compare(seed: int, spoil: Callable[[PacedRun], None] = lambda run: None) -> PacedRun:
    random = Random(seed)
    tables = tables_of(random)
    query = QueryGenerator(random, tuple(tables)).query(3)
    made = cut(query)
    run, oracle, paces = PacedRun(made, dict.fromkeys(tables, ("x", "y", "z"))), Oracle(made), []
    spoil(run)
    paces = random_paces(random, made)
    assert made.respects(paces)
    for step in range(1, STEPS + 1):
        for name, table in tables.items():
            run.arrive(name, table.arrivals[step - 1].items())
        at_end, paths = step == STEPS, due(paces, step)
        run.flush(paths, at_end)
        oracle.flush(paths, {name: table.snapshot(step - 1) for name, table in tables.items()}, at_end)
        if at_end or any(path.number in paths for path in made.result.paths):
            assert run.result == oracle.value[-1], f"seed {seed}, step {step}, paces {paces}\n{query}"
    assert run.result == evaluate(query, lambda leaf: leaf_rows(leaf, tables)), f"seed {seed}\n{query}"
    return run


def leaf_rows(leaf: Rel, tables: dict[str, Table]) -> SignedBag:
    assert isinstance(leaf, Scan)
    return tables[leaf.table].snapshot(STEPS - 1)


def reversed_segments(run: PacedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that read others run before these."""
    monkeypatch.setattr(run, "cut", replace(run.cut, segments=run.cut.segments[::-1]))


def only_old_sides(run: PacedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the right side meets the left side as it was before the flush."""

    def apply(join: Joining, *changes: Change) -> Change:
        left, right = changes
        return BEFORE(join, [], right) + BEFORE(join, left, [])

    monkeypatch.setattr(Joining, "apply", lambda join, *changes: [*apply(join, *changes)][1:])


def only_released_once(run: PacedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited on a path through two flushes of its source is released without the first."""
    release = PacedRun._release

    def last(self: PacedRun, path: Path, paths: set[int]) -> Change:
        if path.source is not None and len(self._waiting[path.number]) > 1:
            self._waiting[path.number] = self._waiting[path.number][1:]
        return release(self, path, paths)

    monkeypatch.setattr(PacedRun, "_release", last)


def groups_stay(run: PacedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group's new row comes without its old one being taken away."""
    emit = Grouping._emit

    def forgetful(self: Grouping, name: object, out: Change) -> None:
        self._given.pop(name, None)
        emit(self, name, out)

    monkeypatch.setattr(Grouping, "_emit", forgetful)


def matches_forgotten(run: PacedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that match something only now are not seen by those that kept them alone."""
    monkeypatch.setattr(Joining, "_settle", lambda self, side, touched, out: SETTLE(self, side, {}, out))


BEFORE, SETTLE = Joining.apply, Joining._settle


@pytest.mark.parametrize(
    "mutant", [reversed_segments, only_old_sides, only_released_once, groups_stay, matches_forgotten]
)
def test_a_wrong_run_is_refuted(mutant: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    refuted = 0
    for seed in range(120):
        with monkeypatch.context() as patch:
            try:
                run_and_compare(seed, lambda run, patch=patch: mutant(run, patch))  # type: ignore[misc]
            except (AssertionError, TempuraError, KeyError, IndexError):
                refuted += 1
    assert refuted >= 3


@pytest.mark.parametrize("block", range(20))
def test_any_paces_give_what_recomputing_gives(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        run_and_compare(seed)
