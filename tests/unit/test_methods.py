"""Registries: methods, kinds of links and modules of the user's own."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import tempura as tp
import tempura.rules
import tempura.search
from tempura.algebra.rel import Aggregate, Filter, Join, Rel, Scan, TopK
from tempura.algebra.scalar import TRUE, AggregateCall, AggregateOutput, Column, Output, Ref, SortKey, equal
from tempura.cost.stats import TableFacts
from tempura.errors import Reason
from tempura.rules import core, delta_aggregate, delta_join, dsl
from tempura.rules.dsl import (
    INTER_TVR,
    INTRA_TVR,
    LOGICAL,
    TVR_GENERATING,
    Aggs,
    Facts,
    Keys,
    Limit,
    On,
    Order,
    Origin,
    Pred,
    Query,
    Rewrite,
    Rule,
    Split,
    Time,
    rewrite,
    rule,
    split,
)
from tempura.rules.methods import BATCH, CORE, GROUPS, STATES, TEMPURA
from tempura.rules.modules import extended
from tempura.rules.registry import Registry
from tempura.search.best import explore
from tempura.search.graph import Graph
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.space import Space
from tempura.tvr.links import Decomposition, Part
from tempura.tvr.tvr import Tvr
from tempura.tvr.views import short_name

_A, _B, _C = (Column(name, name, "int") for name in "abc")
QUERY = Join(Scan("r", ("a", "b"), (_A, _B)), Scan("s", ("c",), (_C,)), "inner", equal(Ref(_A), Ref(_C)))
TABLES = {name: TableFacts((1000, 1001), (0, 0), known=2) for name in "rs"}
POINTS = (Point(1.0, True),) * 2


@rule(TVR_GENERATING)
def three_terms(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⋈ R) = ΔL ⋈ R[:t] + L[:t] ⋈ ΔR + ΔL ⋈ ΔR"""
    terms = L[t:u].join(R[:t], on) + L[:t].join(R[t:u], on) + L[t:u].join(R[t:u], on)
    return rewrite(L.join(R, on)[t:u], terms)


@rule(LOGICAL)
def drop_true(R: Tvr, p: Pred) -> Rewrite:
    """filter(TRUE, R) = R"""
    return rewrite(R.filter(p), R, where=p == TRUE)


def asked(registry: Registry, query: Rel = QUERY) -> Problem:
    return Problem(query, POINTS, TABLES, registry=registry)


def test_a_method_of_ones_own_is_used_by_its_name_and_in_all() -> None:
    mine = TEMPURA.with_method("mine", (*CORE, three_terms))
    plan = make_plan(asked(mine), ("mine",))
    assert plan.method == "mine"
    assert "three_terms" in {note.rule for step in plan.steps for note in step.notes.values()}
    assert "mine" in {found.method for found in make_plan(asked(mine)).alternatives}


def test_to_add_a_method_makes_another_registry() -> None:
    mine = TEMPURA.with_method("mine", (*CORE, three_terms))
    assert "mine" not in TEMPURA.methods
    assert mine.with_method("mine", (*CORE, three_terms)) is mine
    with pytest.raises(tp.TempuraError, match="UNKNOWN_METHOD"):
        make_plan(Problem(QUERY, POINTS, TABLES), ("mine",))


def test_its_laws_at_all_times_serve_every_method() -> None:
    mine = TEMPURA.with_method("mine", (*CORE, delta_join.delta_inner_join, drop_true))
    assert drop_true in mine.laws_at_all_times
    assert make_plan(asked(mine, Filter(QUERY, TRUE)), ("im1",)).cost == make_plan(asked(mine), ("im1",)).cost


def test_a_plan_tells_the_registry_that_made_it() -> None:
    mine = TEMPURA.with_method("mine", (*CORE, three_terms))
    assert make_plan(asked(TEMPURA)).registry == TEMPURA.fingerprint
    assert make_plan(asked(mine)).registry == mine.fingerprint != TEMPURA.fingerprint


def test_the_fingerprint_depends_on_what_rules_are_and_declare() -> None:
    mine = TEMPURA.with_method("mine", (*CORE, three_terms))
    for other in (replace(three_terms, any_time=True), replace(three_terms, law="another"), drop_true):
        assert TEMPURA.with_method("mine", (*CORE, other)).fingerprint != mine.fingerprint
    assert TEMPURA.with_method("mine", (*CORE, replace(three_terms))).fingerprint == mine.fingerprint


def test_the_fingerprint_of_a_rule_in_no_file_depends_on_its_code() -> None:
    found = set()
    for guard in ("True", "p == TRUE", "p is not TRUE"):
        text = f"def mine(R: Tvr, p: Pred) -> Rewrite:\n    'filter'\n    return rewrite(R.filter(p), R, where={guard})"
        scope = dict(globals())
        exec(compile(text, "<in no file>", "exec"), scope)
        found.add(TEMPURA.with_method("mine", [rule(LOGICAL)(scope["mine"])]).fingerprint)
    assert len(found) == 3


@pytest.mark.parametrize("name", ["im1", "all", "", "two words", "../x"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(tp.TempuraError) as error:
        TEMPURA.with_method(name, CORE)
    assert error.value.code == "BAD_METHOD"


def test_two_rules_of_one_name_are_refused() -> None:
    @rule(TVR_GENERATING)
    def delta_inner_join(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
        """Δ(L ⋈ R) = L[:u] ⋈ ΔR + ΔL ⋈ R[:t]"""
        return rewrite(L.join(R, on)[t:u], L[:u].join(R[t:u], on) + L[t:u].join(R[:t], on))

    with pytest.raises(tp.TempuraError) as error:
        TEMPURA.with_method("mine", (core.first_snapshot, delta_inner_join))
    assert error.value.code == "BAD_METHOD"
    assert "delta_inner_join" in str(error.value)


def test_what_is_no_rule_is_refused() -> None:
    with pytest.raises(tp.TempuraError, match=r"BAD_METHOD.*@rule"):
        TEMPURA.with_method("mine", (*CORE, len))  # type: ignore[arg-type]


# --- what rules declare ---------------------------------------------------------------------------------------------


def because(rel: Rel, facts: Facts) -> Reason | None:
    return (
        Reason("TOP_AGAIN", f"the first rows of {short_name(rel)} are taken again") if isinstance(rel, TopK) else None
    )


@rule(TVR_GENERATING, any_time=True, by_definition=True, why=because)
def top_again(R: Tvr, order: Order, limit: Limit, t: Time) -> Rewrite:
    """top(R)[:t] = top(R[:t])"""
    return rewrite(R.top(order, limit)[:t], R[:t].top(order, limit))


TOP = TopK(QUERY.left, (SortKey(Ref(_A), True, True),), 3)
WITHOUT = tuple(found for found in CORE if found is not core.snapshot_of_inputs)


def test_a_rule_of_ones_own_says_why_it_was_used() -> None:
    shrinking = {"r": TableFacts((1000, 1010), (0, 5), known=2)}
    mine = TEMPURA.with_method("mine", (*WITHOUT, top_again))
    plan = make_plan(Problem(TOP, POINTS, shrinking, registry=mine), ("mine",), without=("first_snapshot",))
    assert [str(reason) for reason in plan.fallbacks] == ["TOP_AGAIN: the first rows of top3(r) are taken again"]
    notes = [note for step in plan.steps for note in step.notes.values() if note.rule == "top_again"]
    assert notes
    assert all(note.by_definition and note.method == "mine" for note in notes)


@pytest.mark.parametrize("late", [True, False])
def test_a_rule_of_ones_own_runs_late_if_it_says_so(late: bool) -> None:
    """Nothing changes, and work is cheap when the result is due: only a rule that may not run then works at once."""
    points = (Point(1.0, output=False), Point(0.1, output=True))
    used = replace(top_again, any_time=late)
    mine = TEMPURA.with_method("mine", (*WITHOUT, used))
    still = {"r": TableFacts((1000, 1000), (0, 0), known=2)}
    first, _ = make_plan(Problem(TOP, points, still, registry=mine), ("mine",), without=("first_snapshot",)).steps
    assert first.is_empty == late


SUMS = Aggregate(
    Scan("r", ("a", "f"), (_A, Column("f", "f", "double"))),
    (Output(_B, Ref(_A)),),
    (
        AggregateOutput(
            Column("s", "s", "double"),
            AggregateCall("Sum", (Ref(Column("f", "f", "double")),), "double", detail="legacy"),
        ),
    ),
)
"""Sums of floats: another computation of them may give other values."""


@rule(INTRA_TVR, any_time=True, origin=Origin.STATE)
def finish(X: Tvr, keys: Keys, aggs: Aggs, t: Time) -> Rewrite:
    """aggregate(X)[:t] = finalize(state(X)[:t])"""
    A = X.aggregate(keys, aggs)
    return rewrite(A[:t], A.state[:t].finalize(keys, aggs))


def ways_to_sums(used: Rule) -> list[set[str]]:
    """The rules that may compute sums of floats at each time, where a rule is used in the place of Tempura's own."""
    theirs = (used if known is delta_aggregate.finalize_state else known for known in (*CORE, *STATES, *GROUPS))
    mine = TEMPURA.with_method("mine", theirs)
    graph = Graph(Space(asked(mine, SUMS)), mine.rules_of(("mine", "batch")))
    goals = explore(graph, graph.outputs)
    return [{way.rule.name for way in goals[graph.output(t)] if way.rule} for t in range(len(POINTS))]


def test_what_a_rule_of_ones_own_makes_of_a_state_is_the_one_way_of_sums_of_floats() -> None:
    """It says that it has them from a state. Were it not to, the first sums might be computed in three ways, and those after them would
    follow from the stored ones and their delta."""
    assert ways_to_sums(finish) == [{"finish"}, {"finish"}]
    undeclared = ways_to_sums(replace(finish, origin=Origin.ANEW))
    assert undeclared == [{"finish", "first_snapshot", "recompute_snapshot"}, {"merge_snapshot"}]


# --- kinds of links ---------------------------------------------------------------------------------------------------

HALVES = Decomposition((Part("Upper", "some rows"), Part("Lower", "the others")))


@rule(INTER_TVR)
def split_join(L: Tvr, R: Tvr, on: On) -> Split:
    """Upper(L ⋈ R) = Upper(L) ⋈ R      Lower(L ⋈ R) = Lower(L) ⋈ R"""
    return split(
        L.join(R, on),
        Upper=L.part("Upper").join(R, on),
        Lower=L.part("Lower").join(R, on),
    )


@rule(INTER_TVR)
def merge_halves(Q: Query, t: Time) -> Rewrite:
    """Q[:t] = Upper(Q)[:t] + Lower(Q)[:t]"""
    return rewrite(Q[:t], Q.part("Upper")[:t] + Q.part("Lower")[:t])


@rule(INTER_TVR)
def split_half(Q: Tvr) -> Split:
    """Upper(Q) = Q"""
    return split(Q, Upper=Q)


@pytest.mark.parametrize("used", [split_join, merge_halves], ids=lambda found: found.name)
def test_a_kind_of_link_is_added_before_the_rules_that_mention_it(used: Rule) -> None:
    with pytest.raises(tp.TempuraError, match=r"BAD_LINK.*Lower"):
        TEMPURA.with_method("mine", (*CORE, used))
    halves = TEMPURA.with_decomposition(HALVES)
    assert used in halves.with_method("mine", (*CORE, used)).rules
    assert halves.with_decomposition(HALVES) is halves


def test_a_rule_says_all_parts() -> None:
    with pytest.raises(tp.TempuraError, match=r"BAD_LINK.*Upper"):
        TEMPURA.with_decomposition(HALVES).with_method("mine", (*CORE, split_half))


@pytest.mark.parametrize("names", [("P", "Rest"), ("A", "A"), ("two words", "A"), ()])
def test_a_bad_name_of_a_kind_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(tp.TempuraError, match="BAD_LINK"):
        TEMPURA.with_decomposition(Decomposition(tuple(Part(name, "some rows") for name in names)))


# --- modules ----------------------------------------------------------------------------------------------------------

GOOD = """
from tempura.rules import CORE, TVR_GENERATING, On, Registry, Rewrite, Time, Tvr, rewrite, rule

@rule(TVR_GENERATING)
def right_first(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    'Δ(L ⋈ R) = L[:t] ⋈ ΔR + ΔL ⋈ R[:u]'
    return rewrite(L.join(R, on)[t:u], L[:t].join(R[t:u], on) + L[t:u].join(R[:u], on))

def extend(rules: Registry) -> Registry:
    return rules.with_method("mine", (*CORE, right_first))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module with a text, which Python finds; gives its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[str] = []

    def write(text: str) -> str:
        name = f"rules_of_{tmp_path.name}_{len(made)}"
        (tmp_path / f"{name}.py").write_text(text)
        made.append(name)
        return name

    yield write
    for name in made:
        sys.modules.pop(name, None)


def test_a_module_adds_its_rules(module: Callable[[str], str]) -> None:
    name = module(GOOD)
    mine = extended(TEMPURA, (name,))
    assert [found.name for found in mine.methods["mine"] if found not in CORE] == ["right_first"]
    assert extended(TEMPURA, (name,)) is mine, "imported once"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import no_such_module", ("no_such_module", "line 1")),
        ("\n\n1 / 0", ("ZeroDivisionError", "line 3")),
        ("def extend(:", ("invalid syntax", "line 1")),
        ("", ("no function extend",)),
        ("extend = 7", ("no function extend",)),
        ("def extend(rules): pass", ("NoneType",)),
        ("def extend(rules):\n    return rules.without()", ("AttributeError", "line 2")),
        ("\nraise SystemExit(0)", ("SystemExit: 0", "line 2")),
        ("def extend(rules):\n    raise SystemExit(3)", ("fails in extend: SystemExit: 3", "line 2")),
        ("class Own(BaseException): ...\nraise Own('this')", ("Own: this", "line 2")),
        ("raise ValueError('one\\ntwo')", ("ValueError: one two (",)),
        (GOOD.replace("Time, u: Time", "Time, u: float"), ("not a metavariable", "line 4")),
    ],
)
def test_what_is_wrong_with_a_module_is_told_with_the_place(
    module: Callable[[str], str], text: str, told: tuple[str, ...]
) -> None:
    with pytest.raises(tp.TempuraError) as error:
        extended(TEMPURA, (name := module(text),))
    assert error.value.code == "BAD_RULES_MODULE"
    for part in (name, *told):
        assert part in error.value.what


def test_a_module_that_is_not_there_is_told() -> None:
    with pytest.raises(tp.TempuraError, match=r"BAD_RULES_MODULE.*no_such_module"):
        extended(TEMPURA, ("no_such_module",))


def test_errors_of_the_registry_come_through(module: Callable[[str], str]) -> None:
    with pytest.raises(tp.TempuraError, match="BAD_METHOD"):
        extended(TEMPURA, (module(GOOD.replace('"mine"', '"im1"')),))


def test_every_metavariable_is_public() -> None:
    kinds = {
        name
        for name, value in vars(dsl).items()
        if any(isinstance(m, dsl.Kind) for m in getattr(value, "__metadata__", ()))
    }
    assert len(kinds) > 20
    assert {*kinds, *dsl.GIVEN_KINDS, "Tvr"} <= set(tempura.rules.__all__)


def test_a_method_on_request_is_used_where_it_is_named() -> None:
    every = tuple(TEMPURA.methods)
    assert TEMPURA.names_of(("all",)) == tuple(name for name in every if name != "hov")
    assert TEMPURA.names_of(("hov", "all")) == every
    assert TEMPURA.names_of(("hov",)) == ("hov",)
    assert replace(TEMPURA, on_request=frozenset()).names_of(("all",)) == every
    assert replace(TEMPURA, on_request=frozenset()).fingerprint != TEMPURA.fingerprint


# --- methods that recompute -------------------------------------------------------------------------------------------

OTHERS = {name: rules for name, rules in TEMPURA.methods.items() if name not in TEMPURA.recomputing}
RENAMED = replace(TEMPURA, methods={**OTHERS, "anew": BATCH}, recomputing=frozenset({"anew"}))
DEADLINE = (Point(0.25, output=False), Point(1.0, output=True))


def totals(early: int, late: int, registry: Registry, as_written: frozenset[int] = frozenset()) -> Problem:
    """Of rows that come early and late, at a quarter of the price and at the price."""
    tables = {"r": TableFacts((early, early + late), (0, 0), known=1)}
    return Problem(SUMS, DEADLINE, tables, registry=registry, as_written=as_written)


@pytest.mark.parametrize("as_written", [frozenset[int](), frozenset({1})], ids=["by-operators", "may-be-asked"])
@pytest.mark.parametrize("doubt", [1.0, 3.0, 9.0])
@pytest.mark.parametrize(("early", "late"), [(40_000_000, 4_000_000), (1_000, 4_000_000)])
def test_what_recomputes_is_known_by_what_is_declared_of_it(
    early: int, late: int, doubt: float, as_written: frozenset[int]
) -> None:
    """By another name the method ``batch`` is what the others are compared with, too."""
    ours, renamed = (
        make_plan(totals(early, late, registry, as_written), margin=0.15, doubt=doubt, uses=30)
        for registry in (TEMPURA, RENAMED)
    )
    assert renamed.method == ours.method.replace("batch", "anew")
    assert (renamed.cost, renamed.recomputes, renamed.begun) == (ours.cost, ours.recomputes, ours.begun)
    assert ours.recomputes == (ours.method == "batch")
    told = {other.method: other.recomputes for other in renamed.alternatives}
    assert told == {other.method.replace("batch", "anew"): other.method == "batch" for other in ours.alternatives}


def test_what_is_not_declared_to_recompute_is_doubted_like_any_other() -> None:
    certain, undeclared = (
        make_plan(totals(40_000_000, 4_000_000, registry), margin=0.15, doubt=9.0)
        for registry in (TEMPURA, replace(TEMPURA, recomputing=frozenset()))
    )
    assert (certain.method, certain.recomputes) == ("batch", True)
    assert (undeclared.method, undeclared.recomputes) == ("im1", False)
    assert replace(TEMPURA, recomputing=frozenset()).fingerprint != TEMPURA.fingerprint


def test_methods_that_recompute_are_named_where_there_is_no_plan() -> None:
    with pytest.raises(tp.TempuraError, match=r"NO_PLAN.*Allow all or anew"):
        make_plan(totals(10, 10, RENAMED), ("anew",), without=("recompute_snapshot",))


SEARCH = Path(tempura.search.__file__).parent


def names_in(text: str) -> set[str]:
    """The names of methods and rules among the words of a module's texts, but for what documents it."""
    tree = ast.parse(text)
    documented = (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    documents = {id(line.value) for node in documented for line in node.body if isinstance(line, ast.Expr)}
    texts = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
    )
    known = {*TEMPURA.methods, *(found.name for found in TEMPURA.rules)}
    return {word for found in texts for word in re.findall(r"\w+", found)} & known


@pytest.mark.parametrize("file", sorted(SEARCH.glob("*.py")), ids=lambda file: file.stem)
def test_the_search_knows_no_method_and_no_rule_by_its_name(file: Path) -> None:
    assert names_in(file.read_text()) == set()


def test_a_name_among_texts_is_found() -> None:
    assert names_in('def f(plan):\n    """As by batch."""\n    return plan.method != "batch"') == {"batch"}
    assert names_in('def f(rule):\n    return f"{rule} and merge_snapshot"') == {"merge_snapshot"}
    assert names_in('"""By im1."""\nclass A:\n    """By im2."""\n    x = 1\n    """By ojv."""') == set()
