"""Incremental methods of the user's own: by name, and as a part of ``all``."""

from collections.abc import Iterator

import pytest

import tempura as tp
from tempura.algebra.rel import Filter, Join, Scan
from tempura.algebra.scalar import TRUE, Column, Ref, equal
from tempura.cost.stats import TableFacts
from tempura.rules import core, delta_join
from tempura.rules.dsl import LOGICAL, TVR_GENERATING, On, Pred, Rewrite, Time, rewrite, rule
from tempura.rules.methods import CORE, METHODS, laws_at_all_times
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.tvr.tvr import Tvr

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


@pytest.fixture(autouse=True)
def methods_as_they_were() -> Iterator[None]:
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


def test_a_method_of_ones_own_is_used_by_its_name_and_in_all() -> None:
    tp.add_method("mine", (*CORE, three_terms))
    tp.add_method("mine", (*CORE, three_terms))
    plan = make_plan(Problem(QUERY, POINTS, TABLES), ("mine",))
    assert plan.method == "mine"
    assert "three_terms" in {note.rule for step in plan.steps for note in step.notes.values()}
    assert "mine" in {found.method for found in make_plan(Problem(QUERY, POINTS, TABLES)).alternatives}


def test_its_laws_at_all_times_serve_every_method() -> None:
    tp.add_method("mine", (*CORE, delta_join.delta_inner_join, drop_true))
    assert drop_true in laws_at_all_times()
    query = Problem(Filter(QUERY, TRUE), POINTS, TABLES)
    assert make_plan(query, ("im1",)).cost == make_plan(Problem(QUERY, POINTS, TABLES), ("im1",)).cost


@pytest.mark.parametrize("name", ["im1", "all", "", "two words", "../x"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(tp.TempuraError) as error:
        tp.add_method(name, CORE)
    assert error.value.code == "BAD_METHOD"


def test_two_rules_of_one_name_are_refused() -> None:
    @rule(TVR_GENERATING)
    def delta_inner_join(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
        """Δ(L ⋈ R) = L[:u] ⋈ ΔR + ΔL ⋈ R[:t]"""
        return rewrite(L.join(R, on)[t:u], L[:u].join(R[t:u], on) + L[t:u].join(R[:t], on))

    with pytest.raises(tp.TempuraError) as error:
        tp.add_method("mine", (core.first_snapshot, delta_inner_join))
    assert error.value.code == "BAD_METHOD"
    assert "delta_inner_join" in str(error.value)
