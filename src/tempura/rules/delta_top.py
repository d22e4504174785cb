"""The first rows of an order. Their delta is the difference of two snapshots, each of which is a few rows."""

from tempura.rules.dsl import INTRA_TVR, Facts, Limit, Order, Rewrite, Time, rewrite, rule
from tempura.tvr.tvr import Tvr


@rule(INTRA_TVR, cite=(2,))
def merge_top(R: Tvr, order: Order, limit: Limit, t: Time, u: Time, facts: Facts) -> Rewrite:
    """top(R)[:u] = top(top(R)[:t] + R[t:u])      when R only grows

    A row that was not among the first does not come back when others come. It may when one of the first is deleted: then the
    first rows are taken again from R[:u].
    """
    Q = R.top(order, limit)
    return rewrite(
        Q[:u],
        (Q[:t] + R[t:u]).top(order, limit),
        where=facts.insert_only(R, t, u),
    )
