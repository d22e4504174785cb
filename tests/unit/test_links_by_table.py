"""Kinds of links that depend on a table, in rules of one's own: what a registry, the planner and the law runner make of them."""

from dataclasses import replace

import pytest

import tempura as tp
from tempura.algebra.rel import Aggregate, Join, JoinKind, Rel, Scan, Union
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Ref, equal
from tempura.cost.stats import TableFacts
from tempura.laws.examine import examine
from tempura.rules import (
    IM1,
    INTER_TVR,
    LOGICAL,
    Decomposition,
    Facts,
    Links,
    Part,
    Query,
    Registry,
    Rewrite,
    Rule,
    Split,
    Table,
    Time,
    Tvr,
    Tvrs,
    rewrite,
    rule,
    split,
    union_all,
)
from tempura.rules.methods import TEMPURA
from tempura.search.alike import without_the_alike
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.space import Space

OWN = Decomposition((Part("Own", "what reads the table"), Part("Rest", "the others", unaffected=True)), by_table=True)


@rule(INTER_TVR)
def split_unread_rest(Q: Tvr, T: Table, facts: Facts) -> Split:
    """Own[T](Q) = ∅      Rest[T](Q) = Q      when Q does not read T"""
    return split(Q, Own=None, Rest=Q, where=not facts.reads(Q, T))


@rule(INTER_TVR)
def split_union_by_own(terms: Tvrs, T: Table) -> Split:
    """Own[T](R + S + ...) = Own[T](R) + Own[T](S) + ...      and so Rest[T]"""
    own, rest = (union_all(tuple(R.part(kind, T) for R in terms)) for kind in ("Own", "Rest"))
    return split(union_all(terms), Own=own, Rest=rest)


@rule(INTER_TVR)
def split_read_own(Q: Tvr, T: Table) -> Split:
    """Own[T](Q) = Q      Rest[T](Q) = ∅"""
    return split(Q, Own=Q, Rest=None)


@rule(INTER_TVR)
def delta_of_own(Q: Query, T: Table, t: Time, u: Time, links: Links) -> Rewrite:
    """ΔQ = Δ Own[T](Q)      when only T moves"""
    return rewrite(Q[t:u], Q.part("Own", T)[t:u], where=links.has(Q.part("Rest", T)))


SPLITS = (split_unread_rest, split_union_by_own, split_read_own)
BY_OWN = TEMPURA.with_decomposition(OWN)
MINE = BY_OWN.with_method("mine", (*IM1, *SPLITS, delta_of_own))

_X = Column("x", "x", "int")
_BRANCHES = tuple(Scan(name, ("x",), (replace(_X, id=f"{name}.x"),)) for name in "rs")
_UNION = Union(_BRANCHES)
COUNT = Aggregate(_UNION, (), (AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint")),))
POINTS = (Point(1.0, output=True),) * 2


def _facts(*moving: str) -> dict[str, TableFacts]:
    return {name: TableFacts((1000, 1001 if name in moving else 1000), (0, 0), known=2) for name in "rs"}


@pytest.mark.parametrize("law", [*SPLITS, delta_of_own], ids=lambda law: law.name)
def test_right_rules_hold(law: Rule) -> None:
    assert examine(law, 60, MINE).kind == "holds"


@rule(INTER_TVR)
def split_everything_into_rest(Q: Tvr, T: Table) -> Split:
    """Rest[T](Q) = Q      WRONG: Q may read T"""
    return split(Q, Own=None, Rest=Q)


@rule(INTER_TVR)
def delta_of_rest(Q: Query, T: Table, t: Time, u: Time) -> Rewrite:
    """ΔQ = Δ Rest[T](Q)      WRONG: that is what does not move"""
    return rewrite(Q[t:u], Q.part("Rest", T)[t:u])


@rule(INTER_TVR)
def snapshot_of_own(Q: Query, T: Table, t: Time) -> Rewrite:
    """Q[:t] = Own[T](Q)[:t]      WRONG: the rest is there, too"""
    return rewrite(Q[:t], Q.part("Own", T)[:t])


@pytest.mark.parametrize(
    ("law", "why"),
    [(split_everything_into_rest, "Rest differs by"), (delta_of_rest, "difference"), (snapshot_of_own, "difference")],
    ids=lambda value: getattr(value, "name", None),
)
def test_wrong_rules_are_refuted(law: Rule, why: str) -> None:
    found = examine(law, 60, MINE)
    assert found.kind == "refuted"
    assert why in found.why


def test_the_table_is_the_only_one_that_moves() -> None:
    # Without the delta of a union there is no other way than by the part, if there is that.
    plan = make_plan(Problem(COUNT, POINTS, _facts("r"), registry=MINE), ("mine",), without=("delta_union",))
    assert "delta_of_own" in {note.rule for step in plan.steps for note in step.notes.values()}
    assert {str(leaf) for leaf in plan.steps[1].operators if leaf.label.startswith("read")} == {"read r[0:1]"}
    plan = make_plan(Problem(COUNT, POINTS, _facts("r", "s"), registry=MINE), ("mine",), without=("delta_union",))
    assert "delta_of_own" not in {note.rule for step in plan.steps for note in step.notes.values()}


@pytest.mark.parametrize("promise", ["grows", "unaffected"])
def test_a_promise_without_meaning_is_refused(promise: str) -> None:
    part = replace(Part("A", "some rows"), **{promise: True})  # type: ignore[arg-type]
    with pytest.raises(tp.TempuraError, match=r"BAD_LINK.*A of Q"):
        TEMPURA.with_decomposition(Decomposition((part, Part("B", "the others")), by_table=promise == "grows"))


@rule(INTER_TVR)
def own_of_no_table(Q: Query, t: Time) -> Rewrite:
    """Q[:t] = Own(Q)[:t]"""
    return rewrite(Q[:t], Q.part("Own")[:t])


@rule(INTER_TVR)
def growing_part_of_a_table(Q: Query, T: Table, t: Time) -> Rewrite:
    """Q[:t] = P[T](Q)[:t]"""
    return rewrite(Q[:t], Q.part("P", T)[:t])


@rule(INTER_TVR)
def split_by_no_table(Q: Tvr) -> Split:
    """Own(Q) = Q"""
    return split(Q, Own=Q, Rest=None)


@pytest.mark.parametrize("wrong", [own_of_no_table, growing_part_of_a_table, split_by_no_table], ids=lambda r: r.name)
def test_a_part_is_asked_for_with_its_table_or_without(wrong: Rule) -> None:
    with pytest.raises(tp.TempuraError, match=rf"BAD_LINK.*{wrong.name}"):
        BY_OWN.with_method("wrong", (*IM1, wrong))


def test_at_all_times_no_table_moves() -> None:
    with pytest.raises(TypeError, match="no table moves"):

        @rule(LOGICAL)
        def always(R: Tvr, S: Tvr, T: Table) -> Rewrite:
            """R + S = S + R"""
            return rewrite(R + S, S + R)


# --- methods that are alike ---------------------------------------------------------------------------------------------


def _joined(kind: JoinKind) -> Rel:
    r, s = _BRANCHES
    return Join(r, s, kind, equal(Ref(r.outputs[0]), Ref(s.outputs[0])))


@pytest.mark.parametrize(("kind", "like_another"), [("inner", {"ojv"}), ("left", set()), ("semi", set())])
def test_a_method_like_another_here_is_not_searched_for(kind: JoinKind, like_another: set[str]) -> None:
    """IM-1 has all rules that OJV has for inner joins."""
    names = ("im1", "im2", "ojv", "batch")
    space = Space(Problem(_joined(kind), POINTS, _facts("r", "s")))
    assert set(names) - set(without_the_alike(space, names)) == like_another
    assert without_the_alike(space, ("ojv",)) == ("ojv",)


def test_of_methods_that_are_alike_the_first_is_kept() -> None:
    fewer = Registry({"less": IM1[:-1], "im1": IM1, "same": IM1}, TEMPURA.laws, TEMPURA.decompositions)
    space = Space(Problem(_joined("left"), POINTS, _facts("r", "s"), registry=fewer))
    assert without_the_alike(space, ("im1", "less", "same")) == ("im1", "less")
    assert without_the_alike(space, ("same", "im1")) == ("same",)
