"""The worked example of docs/writing-a-rule.md: the text of the page is the module that is checked, planned with and run."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from tempura.algebra.rel import Aggregate, Filter, Rel, Scan, Union
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Output, Ref
from tempura.cli.main import main
from tempura.cost.model import CostModel
from tempura.cost.stats import TableFacts
from tempura.plan.progressive import ProgressivePlan
from tempura.rules import IM1, TEMPURA, Registry
from tempura.rules.modules import extended
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.plans.random_queries import random_table
from tests.plans.simulate import States, run_step, truth

PAGE = (Path(__file__).parents[2] / "docs" / "writing-a-rule.md").read_text(encoding="utf-8")
SHOPS = ("north", "south", "east")
ROWS, CHANGED = 20_000_000, 100_000
DEAR_ROWS = CostModel(read_row=10_000, node=1, scan=1, file=1, job=1, exchange=1)


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """The registry that the module of the page makes."""
    (text,) = re.findall(r"```python\n(\"\"\"A state for each branch.*?)```", PAGE, re.DOTALL)
    folder = tmp_path_factory.mktemp("example")
    (folder / "branches.py").write_text(text)
    sys.path.insert(0, str(folder))
    yield extended(TEMPURA, ("branches",))
    sys.path.remove(str(folder))
    del sys.modules["branches"]


def least(fields: tuple[str, ...], shops: tuple[str, ...] = SHOPS, filtered: bool = False) -> Rel:
    """The query of the page; ``filtered``: of the rows that have a price."""
    key, value, *_ = columns = tuple(Column(field, field, "int") for field in fields)
    rows: Rel = Union(tuple(Scan(shop, fields, columns) for shop in shops))
    if filtered:
        rows = Filter(rows, Call("IsNotNull", (Ref(value),), "boolean"))
    made = AggregateOutput(Column("least", "least", "int"), AggregateCall("Min", (Ref(value),), "int"))
    return Aggregate(rows, (Output(Column("item", "item", "int"), Ref(key)),), (made,))


def changing(at: int) -> TableFacts:
    """A shop that gets and loses rows before every third of seven points."""
    changed = tuple(CHANGED * ((t - at) // 3 + 1) for t in range(7))
    return TableFacts(tuple(ROWS + n for n in changed), changed, known=7)


def planned(registry: Registry, methods: tuple[str, ...] = ("all",)) -> ProgressivePlan:
    tables = {shop: changing(at) for shop, at in zip(SHOPS, (3, 1, 2), strict=True)}
    return make_plan(Problem(least(("item", "price")), (Point(1.0, True),) * 7, tables, registry=registry), methods)


@pytest.mark.usefixtures("branches")
def test_its_rules_hold() -> None:
    result = CliRunner().invoke(main, ["rules", "check", "branches"])
    assert result.exit_code == 0, result.output
    assert "4 rules: 4 hold" in result.stdout


def test_it_is_cheaper_than_all_that_tempura_has(branches: Registry) -> None:
    without, alone, together = planned(TEMPURA), planned(branches, ("branches",)), planned(branches)
    assert alone.cost < 0.8 * without.cost
    assert together.cost <= alone.cost
    assert "branches" in together.method
    figures = {a.method: f"{a.cost / 1e9:.1f} s by `{a.method}`" for a in without.alternatives}
    assert all(f"{figures[method]}" in PAGE for method in ("im1", "im2"))
    assert f"{without.cost / 1e9:.1f} s by\nthe best plan" in PAGE
    assert f"and {together.cost / 1e9:.1f} s with it" in PAGE


def test_the_state_of_a_branch_that_has_not_changed_is_loaded(branches: Registry) -> None:
    rules = [{note.rule for note in step.notes.values()} for step in planned(branches, ("branches",)).steps]
    assert all("merge_states_of_branches" in of_step for of_step in rules[1:])


def test_its_plans_are_exact(branches: Registry) -> None:
    used = 0
    for seed in range(25):
        random = Random(seed)
        tables = {shop: random_table(random, shop, 4, ("mixed", "emptied", "static")) for shop in SHOPS}
        query = least(("a", "b", "c"), SHOPS[: random.choice((2, 3))], filtered=random.random() < 0.5)
        points = tuple(Point(1.0, output=t == 3 or random.random() < 0.6) for t in range(4))
        # Where rows cost much and the driver nothing, states are worth having even of tables as small as these.
        problem = Problem(query, points, {name: table.facts(4) for name, table in tables.items()}, prices=DEAR_ROWS)
        plan, states = make_plan(replace(problem, registry=branches), ("branches",)), States()
        outputs = [run_step(step, tables, states) for step in plan.steps]
        assert outputs == [truth(query, tables, t) if point.output else None for t, point in enumerate(points)], seed
        used += any(note.rule == "merge_states_of_branches" for step in plan.steps for note in step.notes.values())
    assert used >= 5, f"only {used} plans merge states of branches"


def test_a_wrong_variant_of_it_is_refuted(branches: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first branch is among the others, too."""
    text = Path(sys.modules["branches"].__file__ or "").read_text()
    wrong = text.replace("union_all(terms[1:])", "union_all(terms)")
    (tmp_path / "wrong_branches.py").write_text(wrong)
    monkeypatch.syspath_prepend(str(tmp_path))
    result = CliRunner().invoke(main, ["rules", "check", "wrong_branches"])
    assert result.exit_code == 1
    assert "split_union_by_branch: REFUTED" in result.stdout
    assert "4 rules: 3 hold, 1 refuted" in result.stdout
    assert branches.methods["branches"][: len(IM1)] == IM1
