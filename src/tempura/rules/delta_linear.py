"""Deltas of linear operators: the operator is applied to the delta."""

from tempura.rules.dsl import (
    TVR_GENERATING,
    Generated,
    Generator,
    Order,
    Outer,
    Outputs,
    Pred,
    Projections,
    Rewrite,
    Time,
    Tvrs,
    rewrite,
    rule,
)
from tempura.rules.helpers import sum_of, union_all
from tempura.tvr.tvr import Tvr


@rule(TVR_GENERATING, cite=(2,))
def delta_filter(R: Tvr, p: Pred, t: Time, u: Time) -> Rewrite:
    """Δ filter(p, R) = filter(p, ΔR)"""
    return rewrite(
        R.filter(p)[t:u],
        R[t:u].filter(p),
    )


@rule(TVR_GENERATING, cite=(2,))
def delta_project(R: Tvr, outputs: Outputs, t: Time, u: Time) -> Rewrite:
    """Δ project(R) = project(ΔR)"""
    return rewrite(
        R.project(outputs)[t:u],
        R[t:u].project(outputs),
    )


@rule(TVR_GENERATING, cite=(2,))
def delta_expand(R: Tvr, projections: Projections, t: Time, u: Time) -> Rewrite:
    """Δ expand(R) = expand(ΔR)      GROUPING SETS, ROLLUP, CUBE"""
    return rewrite(
        R.expand(projections)[t:u],
        R[t:u].expand(projections),
    )


@rule(TVR_GENERATING, cite=(2,))
def delta_generate(R: Tvr, generator: Generator, made: Generated, outer: Outer, t: Time, u: Time) -> Rewrite:
    """Δ generate(R) = generate(ΔR)      explode, LATERAL VIEW, the multiplicities of INTERSECT ALL and EXCEPT ALL"""
    return rewrite(
        R.generate(generator, made, outer)[t:u],
        R[t:u].generate(generator, made, outer),
    )


@rule(TVR_GENERATING, cite=(2,))
def delta_union(terms: Tvrs, t: Time, u: Time) -> Rewrite:
    """Δ(R + S + ...) = ΔR + ΔS + ...      UNION ALL"""
    return rewrite(
        union_all(terms)[t:u],
        sum_of(tuple(R[t:u] for R in terms)),
    )


@rule(TVR_GENERATING, cite=(2,))
def delta_sort(R: Tvr, order: Order, t: Time, u: Time) -> Rewrite:
    """Δ sort(R) = ΔR      an order is presentation, not content"""
    return rewrite(
        R.sort(order)[t:u],
        R[t:u],
    )
