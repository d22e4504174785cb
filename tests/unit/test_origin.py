"""``explain`` with rules, memo and steps: where each part of a plan comes from, as text and as data."""

from pathlib import Path

import pytest

from tempura.errors import TempuraError
from tempura.rules import CORE, TEMPURA, TVR_GENERATING, On, Registry, Rewrite, Time, Tvr, rewrite, rule
from tempura.rules.delta_aggregate import finalize_state, first_state, merge_state, state_delta
from tempura.rules.delta_join import delta_left_join
from tempura.warehouse.runs.query_plan import QueryPlan
from tests.unit.test_follow import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("world") / "wh")
    made.refresh()
    made.arrive(100)
    return made


def planned(world: World, methods: str | tuple[str, ...] = "all") -> QueryPlan:
    return world.query.plan(methods)


@pytest.mark.parametrize("methods", ["im1", "im2", "all"])
def test_each_part_has_a_rule_of_a_method_of_the_plan(world: World, methods: str) -> None:
    plan = planned(world, methods)
    found = plan.to_json("rules")["rules"]
    assert {part["time"] for part in found} == {step.time for step in plan.steps if not step.is_empty}
    for part in found:
        names = [rule.name for method in part["methods"] for rule in TEMPURA.methods[method]]
        assert (part["rule"] in names) == bool(part["rule"]), part
        assert set(part["methods"]) <= set(plan.method.split("+"))
    noted = {n.rule for step in plan.steps for r in step.operators if (n := step.notes.get(r)) and n.view and n.rule}
    assert noted == {part["rule"] for part in found} - {""}


def test_the_text_has_a_line_for_each_part(world: World) -> None:
    plan = planned(world)
    lines = plan.explain("rules").splitlines()
    below = lines[lines.index(f"rules (registry {TEMPURA.fingerprint}):") + 1 :]
    parts = plan.to_json("rules")["rules"]
    assert len(below) == len(parts)
    for line, part in zip(below, parts, strict=True):
        assert line.startswith(f"  {plan.label(part['time'])}  {part['view']}  <- ")
        assert line.endswith(part["law"] if part["rule"] else "loaded")
    assert "rules (registry" not in plan.explain()


def test_only_the_parts_of_one_step_are_told(world: World) -> None:
    plan = planned(world, "im1")
    label = plan.label(plan.steps[0].time)
    lines = plan.explain("rules", step=label).splitlines()
    below = lines[lines.index(f"rules (registry {TEMPURA.fingerprint}):") + 1 :]
    assert below
    assert all(line.startswith(f"  {label}  ") for line in below)


def test_the_method_of_each_operator_is_shown(world: World) -> None:
    plan = planned(world, "im1")
    assert "method=im1" in plan.explain("method")
    assert "rule=" not in plan.explain("method")
    assert "method=im1  rule=" in plan.explain("method,rule")


def test_the_memo_has_the_query_and_what_laws_made_of_it(world: World) -> None:
    plan = planned(world)
    found = plan.to_json("memo")["memo"]
    members = [member for of_class in found.values() for member in of_class]
    laws = {law.name for law in TEMPURA.laws_at_all_times}
    assert {member["law"] for member in members} - {""} <= laws
    assert {"sales", "returns"} <= {member["operator"] for member in members}
    text = plan.explain("memo")
    for member in members:
        assert f"  {member['operator']}{'  <- ' * bool(member['law'])}{member['law']}\n" in text + "\n"


def test_the_steps_end_with_the_plan(world: World) -> None:
    plan = planned(world, "im1")
    found = plan.to_json("steps")["steps"]
    headings = [line for line in found if ": cost" in line or ": (no " in line]
    names = {rule.name for rule in (*TEMPURA.rules_of(("im1",)), *TEMPURA.laws_at_all_times)}
    assert {line.partition(":")[0] for line in headings} <= names
    text = plan.explain("steps")
    assert all(f"  {line}" in text for line in found)


@rule(TVR_GENERATING)
def three_terms(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⋈ R) = ΔL ⋈ R[:t] + L[:t] ⋈ ΔR + ΔL ⋈ ΔR"""
    terms = L[t:u].join(R[:t], on) + L[:t].join(R[t:u], on) + L[t:u].join(R[t:u], on)
    return rewrite(L.join(R, on)[t:u], terms)


def own() -> Registry:
    states = (finalize_state, first_state, state_delta, merge_state)
    return TEMPURA.with_method("mine", (*CORE, *states, delta_left_join, three_terms))


def test_a_method_of_ones_own_is_seen(tmp_path: Path) -> None:
    made = World(tmp_path / "wh")
    made.wh = made.open(own())
    plan = planned(made, ("mine",))
    assert plan.to_json()["registry"] == own().fingerprint != TEMPURA.fingerprint
    assert "mine first_state: " in plan.explain("rules")


MODULE = """
from tempura.rules import IM1, Registry

def extend(rules: Registry) -> Registry:
    return rules.with_method("of_a_module", IM1[:-1])
"""


def declare(world: World, module: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a module with a text in tempura.toml."""
    monkeypatch.syspath_prepend(str(world.folder.parent))
    (world.folder.parent / f"{module}.py").write_text(text)
    declared = world.folder / "tempura.toml"
    declared.write_text(f'[rules]\nmodules = ["{module}"]\n\n{declared.read_text()}')


def test_a_module_that_is_named_is_planned_with_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = World(tmp_path / "wh")
    made.refresh()
    declare(made, "module_of_this_test", MODULE, monkeypatch)
    made.arrive(100)
    report = made.query.run(methods="of_a_module")
    assert report.method == "of_a_module"
    assert made.query.verify().equal
    assert "of_a_module" in {found.method for found in made.query.plan().plan.alternatives}
    assert made.query.plan().to_json()["registry"] == made.wh.rules.fingerprint != TEMPURA.fingerprint
    again = made.open()
    assert "of_a_module" in again.rules.methods
    again.add_query("other", made.query.sql, schedule=made.query.schedule, methods="of_a_module")
    text = (made.folder / "tempura.toml").read_text()
    assert 'modules = ["module_of_this_test"]' in text, "kept when something else is declared"


def test_a_module_that_is_broken_stops_runs_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = World(tmp_path / "wh")
    made.refresh()
    declare(made, "broken_module_of_this_test", "from tempura.rules import no_such_name", monkeypatch)
    made.arrive(100)
    for act in (made.query.plan, made.query.run):
        with pytest.raises(TempuraError, match=r"BAD_RULES_MODULE.*broken_module_of_this_test.py, line 1"):
            act()
    assert len(made.query.history()) == 1
    assert made.query.result() is not None
    assert "error" not in made.wh.status()["queries"]["q"]
    made.wh.gc()


def test_what_cannot_be_shown_is_refused(world: World) -> None:
    plan = planned(world)
    with pytest.raises(TempuraError, match=r"UNKNOWN_SHOW.*colour.*memo, steps, rules"):
        plan.explain("rules,colour")
    with pytest.raises(TempuraError, match="UNKNOWN_SHOW"):
        QueryPlan(plan.plan, plan.labels).explain("memo")
