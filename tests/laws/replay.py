"""Everything that a pasted case needs: ``from tests.laws.replay import *``, then the text that a failing law printed."""

from decimal import Decimal
from math import inf, nan

from tempura.algebra.bag import SignedBag
from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Scan, Sort, TopK, Union
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Output, Ref, SortKey
from tempura.algebra.window import Frame, Window, WindowOutput
from tempura.rules.methods import TEMPURA
from tempura.tvr.tvr import Tvr
from tests.laws.cases import Case
from tests.laws.check import Verdict, check
from tests.laws.definition import Tables
from tests.laws.mutants import CONTROL, MUTANTS

__all__ = [
    "Aggregate", "AggregateCall", "AggregateOutput", "Call", "Column", "Decimal", "Expand", "Filter", "Frame", "Generate", "Join",
    "Literal", "One", "Output", "Project", "Ref", "Scan", "SignedBag", "Sort", "SortKey", "TopK", "Tvr", "Union", "Window",
    "WindowOutput", "inf", "nan", "replay",
]  # fmt: skip


def replay(rule: str, tables: Tables, bindings: dict[str, object]) -> Verdict:
    """Check a rule, given by name, on a case."""
    by_name = {r.name: r for r in (*TEMPURA.rules, *MUTANTS, CONTROL)}
    return check(by_name[rule], Case(tables, bindings))
