"""Rules of one's own: what a module that is named in ``tempura.toml`` needs to say them (docs/writing-a-rule.md).

A rule is a law between views of TVRs (:func:`rule`, :func:`rewrite`, :func:`split`); a method is a named set of rules, and a
:class:`Registry` is what a warehouse plans by: :data:`TEMPURA`, or one that was made of it.
"""

from tempura.rules.dsl import (
    INTER_TVR,
    INTRA_TVR,
    LOGICAL,
    TVR_GENERATING,
    Aggs,
    Always,
    AnyMarker,
    Between,
    Expected,
    Facts,
    Generated,
    Generator,
    How,
    Keys,
    Limit,
    Links,
    Marker,
    NotInner,
    On,
    OnAll,
    Order,
    Origin,
    Outer,
    Outputs,
    Partition,
    Pred,
    Projections,
    Promised,
    Query,
    Rewrite,
    Rule,
    Sides,
    Split,
    Table,
    Time,
    Tvrs,
    WindowCalls,
    rewrite,
    rule,
    split,
)
from tempura.rules.helpers import all_linear, exact_states_exist, states_exist, union_all
from tempura.rules.methods import BATCH, CORE, IM1, IM2, OJV, STATES, TEMPURA
from tempura.rules.registry import Registry
from tempura.tvr.links import Decomposition, Part
from tempura.tvr.tvr import Bag, Tvr

__all__ = [
    "BATCH", "CORE", "IM1", "IM2", "INTER_TVR", "INTRA_TVR", "LOGICAL", "OJV", "STATES", "TEMPURA", "TVR_GENERATING", "Aggs",
    "Always", "AnyMarker", "Bag", "Between", "Decomposition", "Expected", "Facts", "Generated", "Generator", "How", "Keys",
    "Limit", "Links", "Marker", "NotInner", "On", "OnAll", "Order", "Origin", "Outer", "Outputs", "Part", "Partition",
    "Pred", "Projections", "Promised", "Query", "Registry", "Rewrite", "Rule", "Sides", "Split", "Table", "Time", "Tvr", "Tvrs",
    "WindowCalls", "all_linear", "exact_states_exist", "rewrite", "rule", "split", "states_exist", "union_all",
]  # fmt: skip
