"""Wrong laws of higher-order views: what is forgotten when what is added up is taken apart; and Eq. 4.16 of the dissertation as it is
printed, with its correction beside it."""

from collections.abc import Callable
from functools import wraps
from unittest.mock import patch

from tempura.algebra.rel import Aggregate
from tempura.algebra.scalar import (
    TRUE,
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
)
from tempura.rules import hov
from tempura.rules.dsl import LOGICAL, TVR_GENERATING, On, Rewrite, Rule, Time, rewrite, rule
from tempura.rules.helpers import all_linear
from tempura.rules.sides import SidesOfJoin
from tempura.tvr.tvr import Bag, Tvr


def _if(test: Expr, then: Expr, otherwise: Expr) -> Expr:
    return Call("If", (test, then, otherwise), then.type)


def _is_null(value: Expr) -> Expr:
    return Call("IsNull", (value,), "boolean")


def _cast(value: Expr) -> Expr:
    return Call("Cast", (value,), "bigint", "legacy")


def _minus(value: Expr) -> Expr:
    return Call("UnaryMinus", (_cast(value),), "bigint", "legacy")


def _number(function: str, left: Expr, right: Expr) -> Expr:
    return Call(function, (left, right), "bigint", "legacy")


# --- Eq. 4.16 ---------------------------------------------------------------------------------------------------------


def _summary(L: Tvr, R: Tvr, on: On, value: Callable[[Expr, Expr], Expr]) -> tuple[Tvr, Expr, Expr]:
    """The revenue by category: L has prices and categories, R has costs. ``value`` is what a row adds."""
    price, cost = (Ref(R.columns[0]) if R.columns else TRUE for R in (L, R))
    return _by_category(L, L.left_join(R, on), value(price, cost)), price, cost


def _by_category(L: Tvr, joined: Tvr, value: Expr) -> Tvr:
    category = Output(
        Column("category", "category", L.columns[-1].type if L.columns else "int"),
        Ref(L.columns[-1]) if L.columns else TRUE,
    )
    gross = AggregateOutput(Column("gross", "gross", "bigint"), AggregateCall("Sum", (value,), "bigint", detail="ANSI"))
    return joined.aggregate((category,), (gross,))


def _revenue(price: Expr, cost: Expr) -> Expr:
    return _if(_is_null(cost), _cast(price), _minus(cost))


def _view(R: Tvr, on: On, cost: Expr) -> tuple[Tvr, Expr, Expr, Expr]:
    """M of a law, with all that the corrected one has: the number of rows, of rows with a cost, and the total cost."""
    calls = {"n": AggregateCall("Count", (), "bigint"), "nn": AggregateCall("Count", (cost,), "bigint")}
    calls["total"] = AggregateCall("Sum", (cost,), "bigint", detail="ANSI")
    outputs = tuple(AggregateOutput(Column(name, name, "bigint"), call) for name, call in calls.items())
    keys = tuple(Output(c, Ref(c)) for c in R.columns if c in on.columns)
    n, nn, total = (Ref(output.column) for output in outputs)
    return R.aggregate(keys, outputs), n, nn, total


def _is_for(price: Expr, cost: Expr, M: Tvr) -> bool:
    """Whether there are prices, costs, and something to group these by: without, there is a row of M even if there is no cost."""
    return price.type == cost.type == "int" and isinstance(M.rel, Aggregate) and bool(M.rel.keys)


@rule(LOGICAL)
def summary_by_printed_view(L: Tvr, R: Tvr, on: On) -> Rewrite:
    """γ(S ⟕ R) = γ(S ⟕ M), r = IF(total IS NULL, price, -total)      WRONG where a cost is NULL: its row adds the price"""
    whole, price, cost = _summary(L, R, on, _revenue)
    M, _, _, total = _view(R, on, cost)
    r = _if(_is_null(total), _cast(price), _minus(total))
    return rewrite(whole, _by_category(L, L.left_join(M, on), r), where=_is_for(price, cost, M))


@rule(LOGICAL)
def summary_by_corrected_view(L: Tvr, R: Tvr, on: On) -> Rewrite:
    """γ(S ⟕ R) = γ(S ⟕ M), r = IF(n IS NULL, price, (n - nn) price - COALESCE(total, 0))"""
    whole, price, cost = _summary(L, R, on, _revenue)
    M, n, nn, total = _view(R, on, cost)
    without = _number("Multiply", _number("Subtract", n, nn), _cast(price))
    # Where no row adds its price, a price that is NULL does not count; and if none adds anything, the sum is NULL.
    prices = _if(Call("EqualTo", (n, nn), "boolean"), Literal(None, "bigint"), without)
    costs = _if(_is_null(total), Literal(None, "bigint"), _minus(total))
    both = Call("Coalesce", (_number("Add", prices, costs), prices, costs), "bigint")
    r = _if(_is_null(n), _cast(price), both)
    return rewrite(whole, _by_category(L, L.left_join(M, on), r), where=_is_for(price, cost, M))


# --- what is forgotten ------------------------------------------------------------------------------------------------


def _forgetful(name: str, law: Rule, target: str, instead: object) -> Rule:
    """A rule that makes its right side with one part of ``tempura.rules`` replaced by a wrong one."""

    @wraps(law.function)
    def function(**bindings: object) -> Rewrite:
        with patch(f"tempura.rules.{target}", instead):
            return law.apply(**bindings)

    function.__name__ = name
    return rule(TVR_GENERATING)(function)


def _once(sides: SidesOfJoin, view: object) -> Expr:
    return Literal(1, "bigint")


def _at_first(addends: hov.Addends, t: Time, u: Time) -> Bag:
    """What a table adds when the others are as they were before all of it, whatever has changed before."""
    return addends.join[0:u].project(addends.outputs)


FORGETFUL: tuple[Rule, ...] = (
    _forgetful("rows_of_a_group_counted_once", hov.state_delta_by_views, "sides.SidesOfJoin._as_often", _once),
    _forgetful("products_with_a_null_added", hov.state_delta_by_views, "products.present", lambda value: ()),
    _forgetful("branches_not_taken_added", hov.state_delta_by_views, "products.unless", lambda condition: TRUE),
    _forgetful(
        "rows_without_a_match_not_added",
        hov.state_delta_by_padded_views,
        "sides.SidesOfJoin._padded",
        lambda self: None,
    ),
    _forgetful("others_as_they_were_at_first", hov.state_delta_by_views, "hov.Addends.between", _at_first),
)


values_that_fail_between_the_times: Rule = _forgetful(
    "values_that_fail_between_the_times",
    hov.state_delta_by_views,
    "hov._is_additive",
    lambda keys, aggs: all_linear(aggs),
)
"""Right unless a value fails for two rows that were never there at once (``test_guards``)."""

HOV_MUTANTS: tuple[Rule, ...] = (summary_by_printed_view, *FORGETFUL)
