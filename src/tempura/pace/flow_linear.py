"""Cardinalities of filters, projections, unions and generators (Thrifty Query Execution via Incrementability, 3.1.2,
select and project).

A filter with selectivity ``s`` multiplies the vector (inserts, updates, deletes) by a matrix. Inserts and deletes
pass with probability s. An update whose condition is decided anew with probability h passes as

    update  s (1 - (1 - s) h)        insert  s (1 - s) h        delete  s (1 - s) h

so that h = 0, a condition that does not look at what changed, leaves updates updates, and h = 1 takes both values for
independent. The paper leaves the nine entries to statistics; here one selectivity and ``h`` (``flow.flips``) give them.
"""

import numpy as np

from tempura.pace.flow import Array, Flow


def filtered(rows: Flow, selectivity: float, flip: Array) -> Flow:
    """The changes that pass a filter."""
    crossing = rows.upd * (selectivity * (1.0 - selectivity)) * flip
    return Flow(
        rows.ins * selectivity + crossing,
        rows.upd * selectivity - crossing,
        rows.dele * selectivity + crossing,
        rows.moved,
    )


def multiplied(rows: Flow, times: float) -> Flow:
    """Each row so many times: projections (once), GROUPING SETS, generators."""
    if times == 1.0:
        return rows
    return Flow(rows.ins * times, rows.upd * times, rows.dele * times, rows.moved)


def added(*terms: Flow) -> Flow:
    """The changes of all terms of a union."""
    first, *others = terms
    for term in others:
        first = Flow(
            first.ins + term.ins, first.upd + term.upd, first.dele + term.dele, np.maximum(first.moved, term.moved)
        )
    return first
