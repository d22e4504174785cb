"""What random cases seldom meet: rows that are there twice and go, or come back, while the other side moves."""

import pytest

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.rel import Scan
from tempura.algebra.scalar import Column, Ref, equal
from tempura.laws.cases import Case
from tempura.laws.check import check
from tempura.rules import delta_join, ojv_deltas
from tempura.rules.dsl import Rule
from tempura.tvr.tvr import Tvr
from tests.laws import ojv_mutants

_K, _J = Column("L.c0", "c0", "int"), Column("R.c0", "c0", "int")
L, R = Tvr(Scan("L", ("c0",), (_K,))), Tvr(Scan("R", ("c0",), (_J,)))
TIMES = {"t": 0, "u": 1}


def _kind(rule: Rule, left: tuple[list[Row], list[Row]], right: tuple[list[Row], list[Row]]) -> str:
    tables = {name: [SignedBag.of(rows) for rows in times] for name, times in (("L", left), ("R", right))}
    bound = {"L": L, "R": R, "on": equal(Ref(_K), Ref(_J)), "T": "R", **TIMES}
    return check(rule, Case(tables, {name: bound[name] for name in rule.parameters if name in bound})).kind


TWICE: list[Row] = [(1,), (1,)]


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (ojv_mutants.gains_looked_up_for_rows_that_cancel, "refuted"),
        (ojv_deltas.delta_left_join_of_gains, "holds"),
        (ojv_deltas.delta_anti_join_of_gains, "holds"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_of_two_equal_rows_one_goes_while_a_match_is_gained(rule: Rule, verdict: str) -> None:
    assert _kind(rule, (TWICE, [(1,)]), ([(1,)], TWICE)) == verdict


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (ojv_mutants.indirect_delta_as_printed, "refuted"),
        (delta_join.delta_anti_join, "holds"),
        (ojv_deltas.delta_anti_join_by_keys, "holds"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_two_equal_rows_come_back_when_their_match_is_deleted(rule: Rule, verdict: str) -> None:
    assert _kind(rule, (TWICE, TWICE), ([(1,)], [])) == verdict


def test_with_a_key_the_printed_form_is_right() -> None:
    assert _kind(ojv_mutants.indirect_delta_as_printed, ([(1,)], [(1,)]), ([(1,)], [])) == "holds"


@pytest.mark.parametrize(
    ("left", "law", "mutant"),
    [(TWICE, "vacuous", "refuted"), ([(1,), (2,)], "holds", "vacuous")],
    ids=["there twice", "with a key"],
)
def test_of_a_lost_match_the_join_as_it_was_tells_where_the_rows_have_a_key(
    left: list[Row], law: str, mutant: str
) -> None:
    right: tuple[list[Row], list[Row]] = ([(1,), (2,), (2,)], [(2,)])
    assert _kind(ojv_deltas.delta_left_join_of_stored, (left, left), right) == law
    assert _kind(ojv_mutants.stored_left_join_without_a_key, (left, left), right) == mutant


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (ojv_deltas.delta_full_join_of_stored, "holds"),
        (ojv_mutants.stored_full_join_like_left, "refuted"),
        (ojv_mutants.stored_full_join_that_asks_unmatched_rows, "refuted"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_of_a_full_join_rows_that_come_match_what_has_matches_or_nothing(rule: Rule, verdict: str) -> None:
    stays: list[Row] = [(1,), (2,), (None,)]
    assert _kind(rule, (stays, stays), ([(1,), (3,), (None,)], [(1,), (1,), (2,), (4,), (None,), (None,)])) == verdict


def test_the_same_while_the_left_side_moves() -> None:
    stays: list[Row] = [(1,), (2,), (None,)]
    moved: tuple[list[Row], list[Row]] = ([(1,), (3,), (None,)], [(2,), (4,), (4,)])
    assert _kind(ojv_deltas.delta_full_join_of_stored_on_left, moved, (stays, stays)) == "holds"
    assert _kind(ojv_deltas.delta_full_join_of_stored_on_left, (TWICE, TWICE[:1]), (TWICE, TWICE)) == "vacuous"
