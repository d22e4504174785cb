"""Everything that a pasted case needs: ``from tempura.laws.replay import *``, then the text that a failing law printed."""

from decimal import Decimal
from math import inf, nan

from tempura.algebra.bag import SignedBag
from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Scan, Sort, TopK, Union
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Output, Ref, SortKey
from tempura.algebra.window import Frame, Window, WindowOutput
from tempura.laws.cases import Case
from tempura.laws.check import Verdict
from tempura.laws.definition import Tables
from tempura.laws.examine import judged
from tempura.rules.dsl import Rule
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry
from tempura.tvr.tvr import Tvr

__all__ = [
    "TEMPURA",
    "Aggregate",
    "AggregateCall",
    "AggregateOutput",
    "Call",
    "Column",
    "Decimal",
    "Expand",
    "Filter",
    "Frame",
    "Generate",
    "Join",
    "Literal",
    "One",
    "Output",
    "Project",
    "Ref",
    "Scan",
    "SignedBag",
    "Sort",
    "SortKey",
    "TopK",
    "Tvr",
    "Union",
    "Window",
    "WindowOutput",
    "inf",
    "nan",
    "replay",
]  # fmt: skip


def replay(rule: Rule, tables: Tables, bindings: dict[str, object], registry: Registry = TEMPURA) -> Verdict:
    """Check a rule on a case."""
    return judged(rule, Case(tables, bindings), registry)
