"""``tempura rules``: what is listed, and what a check says of rules that hold, that do not, and that never apply."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tempura.cli.main import main
from tempura.laws.cases import Case
from tempura.laws.check import check, draw
from tempura.laws.examine import examine, smallest
from tempura.rules import TEMPURA, TVR_GENERATING, On, Rewrite, Rule, Time, Tvr, rewrite, rule

HEAD = """
from tempura.rules import *

"""
RIGHT = """
@rule(TVR_GENERATING)
def right_first(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    "Δ(L ⋈ R) = L[:t] ⋈ ΔR + ΔL ⋈ R[:u]"
    return rewrite(L.join(R, on)[t:u], L[:t].join(R[t:u], on) + L[t:u].join(R[:u], on), where=is_safe(L.columns, R.columns, on))
"""
OLD = RIGHT.replace("R[:u], on)", "R[:t], on)").replace("right_first", "both_old")
NEVER = RIGHT.replace("where=is_safe(L.columns, R.columns, on)", "where=False").replace("right_first", "never")
RAISES = """
@rule(TVR_GENERATING)
def raises(L: Tvr, p: Pred, t: Time, facts: Facts) -> Rewrite:
    "filter(p, L)[:t] = filter(p, L[:t])"
    return rewrite(L.filter(p)[:t], L[:t].filter(p), where=facts.only_shrinks(L))
"""
BACKWARDS = """
@rule(TVR_GENERATING)
def of_two(L: Tvr, t: Time) -> Rewrite:
    "(L + L)[:t] = L[:t] + L[:t]"
    return rewrite((L + L)[:t], L[:t] + L[:t])

@rule(LOGICAL)
def of_the_first(R: Tvr, order: Order, limit: Limit) -> Rewrite:
    "top(R) = R"
    return rewrite(R.top(order, limit), R)
"""
IS_SAFE = "from tempura.rules.helpers import is_safe\n"
EXTEND = """
def extend(rules: Registry) -> Registry:
    return rules.with_method("mine", (*CORE, {names}))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Writes a module of rules and adds those named; gives its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"checked_{abs(hash(tmp_path))}"

    def write(*texts: str, add: str = "") -> str:
        extend = EXTEND.format(names=add) if add else ""
        (tmp_path / f"{name}.py").write_text(HEAD + IS_SAFE + "".join(texts) + extend)
        return name

    yield write
    sys.modules.pop(name, None)


def tempura(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_rules_that_hold(module: Callable[..., str]) -> None:
    result = tempura("rules", "check", module(RIGHT, add="right_first"), "--cases", "20")
    assert result.exit_code == 0, result.output
    assert "right_first: holds on 20 cases" in result.stdout
    assert result.stdout.endswith("1 rules: 1 hold, 0 refuted, 0 never applied\n")


def test_rules_need_not_be_added_to_be_checked(module: Callable[..., str]) -> None:
    assert tempura("rules", "check", module(RIGHT), "--cases", "5").exit_code == 0


def test_a_rule_that_never_applies_has_not_passed(module: Callable[..., str]) -> None:
    result = tempura("rules", "check", module(RIGHT, NEVER, add="never"), "--cases", "5")
    assert result.exit_code == 1
    assert "never: NEVER APPLIED: of 1,000 cases" in result.stdout
    assert "the guard does not hold" in result.stdout
    assert "1 hold, 0 refuted, 1 never applied" in result.stdout


@pytest.mark.parametrize("add", ["", "both_old"])
def test_a_counter_example_is_a_test_that_fails(module: Callable[..., str], add: str) -> None:
    name = module(OLD, RIGHT, add=add)
    result = tempura("rules", "check", name, "--json")
    assert result.exit_code == 1
    refuted, held = json.loads(result.stdout)
    assert (refuted["rule"], refuted["verdict"]) == ("both_old", "refuted")
    assert (held["rule"], held["verdict"], held["test"]) == ("right_first", "holds", None)
    assert failing(refuted["test"], "both_old").startswith("(L ⋈ R)")
    exec(refuted["test"].replace("both_old", "right_first"), scope := dict[str, Callable[[], None]]())
    scope["test_right_first"]()


def failing(text: str, name: str) -> str:
    """What the printed test says when it fails."""
    exec(text, scope := dict[str, Callable[[], None]]())
    with pytest.raises(AssertionError) as error:
        scope[f"test_{name}"]()
    return str(error.value)


def test_a_rule_that_raises_is_refuted(module: Callable[..., str]) -> None:
    result = tempura("rules", "check", module(RAISES), "--json", "--cases", "5")
    (found,) = json.loads(result.stdout)
    assert found["verdict"] == "refuted"
    assert "raises AttributeError" in found["why"]
    assert "raises AttributeError" in failing(found["test"], "raises")


def test_rules_that_cannot_be_drawn_or_are_never_found(module: Callable[..., str]) -> None:
    result = tempura("rules", "check", module(BACKWARDS), "--json", "--cases", "5")
    found = {each["rule"]: (each["verdict"], each["why"]) for each in json.loads(result.stdout)}
    assert found["of_the_first"] == ("vacuous", "there is no generator for patterns with TopK")
    assert found["of_two"][0] == "holds"
    assert result.exit_code == 1


def test_a_rule_that_is_not_found_where_it_applies_is_refuted() -> None:
    @rule(TVR_GENERATING)
    def of_another(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
        """Δ(L ⋈ R)"""
        compiling = L.columns == ()
        left = L.join(L if compiling else R, on)
        return rewrite(left[t:u], L.join(R, on)[t:u])

    found = examine(of_another, 5)
    assert found.kind == "refuted"
    assert "does not match its own left side" in found.why


def test_a_counter_example_is_small() -> None:
    @rule(TVR_GENERATING)
    def only_the_new(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
        """Δ(L ⋈ R) = ΔL ⋈ ΔR      WRONG"""
        return rewrite(L.join(R, on)[t:u], L[t:u].join(R[t:u], on))

    for start in range(3):
        found = smallest(only_the_new, first_refuted(only_the_new, start), TEMPURA)
        rows = [row for history in found.tables.values() for bag in history for row in bag.rows()]
        assert check(only_the_new, found).kind == "refuted"
        assert len(rows) <= 5, f"at most a row of each table at each time: {found.tables}"


def first_refuted(wrong: Rule, start: int) -> Case:
    drawn = (draw(wrong, seed) for seed in range(10 * start, 10 * start + 100))
    return next(case for case, verdict in drawn if verdict.kind == "refuted")


def test_what_cannot_be_checked() -> None:
    missing, other = (tempura("rules", "check", name) for name in ("no_such_module", "json"))
    assert (missing.exit_code, other.exit_code) == (1, 1)
    assert missing.stderr.startswith("[BAD_RULES_MODULE]")
    assert other.stderr.startswith("[NO_RULES]")


def test_rules_are_listed(tmp_path: Path) -> None:
    result = tempura("-C", str(tmp_path), "rules", "list", "--json")
    found = json.loads(result.stdout)
    assert found["registry"] == TEMPURA.fingerprint
    methods = {each["name"]: each["methods"] for each in found["rules"]}
    assert methods["recompute_snapshot"] == ["batch"]
    assert methods["merge_filters"] == ["all"]
    assert methods["delta_inner_join"] == ["im1", "im2", "ojv", "hov"]
    assert len(found["rules"]) == len(TEMPURA.rules)


def test_rules_of_a_warehouse_are_listed(module: Callable[..., str], tmp_path: Path) -> None:
    folder = tmp_path / "warehouse"
    folder.mkdir()
    (folder / "tempura.toml").write_text(f'[rules]\nmodules = ["{module(RIGHT, add="right_first")}"]\n')
    result = tempura("-C", str(folder), "rules", "list")
    assert result.exit_code == 0, result.output
    assert [line for line in result.stdout.splitlines() if line.startswith("right_first ")]


@pytest.mark.parametrize("text", ['modules = "mine"', 'modules = ["../x"]', "modules = [7]", 'files = ["x"]'])
def test_a_bad_section_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tempura.toml").write_text(f"[rules]\n{text}\n")
    result = tempura("-C", str(tmp_path), "rules", "list")
    assert (result.exit_code, result.stderr[:10]) == (1, "[BAD_TOML]")
