"""Which queries have a condition that may fail for a row that is read: also where it looks harmless."""

import pytest

from tempura.algebra.failing import condition_can_fail
from tempura.algebra.generate import Generate
from tempura.algebra.rel import Aggregate, Filter, Join, Opaque, Project, Rel, Scan
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
    conjunction,
)
from tempura.errors import Reason

K, V, W, X, N = (Column(name, name, "int") for name in ("k", "v", "w", "x", "n"))
ROWS = Scan("t", ("k", "v"), (K, V))
OTHERS = Scan("s", ("w",), (W,))
QUOTIENT = Call("IntegralDivide", (Ref(V), Ref(K)), "bigint", "evalMode=ANSI")
"""Fails where k is 0."""
OF_COUNT = Call("IntegralDivide", (Ref(V), Ref(N)), "bigint", "evalMode=ANSI")
"""Fails where a number of rows is 0, which nobody knows before they are counted."""


def positive(value: Expr) -> Expr:
    return Call("GreaterThan", (value, Literal(0, "int")), "boolean")


def with_quotient(rel: Rel) -> Rel:
    return Project(rel, (Output(X, QUOTIENT), Output(K, Ref(K))))


COUNT = AggregateOutput(N, AggregateCall("Count", (), "bigint"))


@pytest.mark.parametrize(
    ("query", "fails"),
    [
        (Filter(ROWS, positive(QUOTIENT)), True),
        (Filter(ROWS, positive(Ref(K))), False),
        (with_quotient(ROWS), False),
        (Filter(with_quotient(ROWS), positive(Ref(X))), True),
        (Filter(with_quotient(ROWS), positive(Ref(K))), False),
        (Filter(Project(with_quotient(ROWS), (Output(W, Ref(X)),)), positive(Ref(W))), True),
        (Filter(Aggregate(ROWS, (Output(X, QUOTIENT),), (COUNT,)), positive(Ref(X))), True),
        (Filter(Aggregate(ROWS, (Output(X, QUOTIENT),), (COUNT,)), positive(Ref(N))), False),
        (Join(with_quotient(ROWS), OTHERS, "inner", Call("EqualTo", (Ref(X), Ref(W)), "boolean")), True),
        (Join(with_quotient(ROWS), OTHERS, "inner", TRUE), False),
        (Filter(Aggregate(ROWS, (Output(K, Ref(K)),), (COUNT,)), positive(OF_COUNT)), False),
        (Filter(Aggregate(ROWS, (Output(K, Ref(K)), Output(V, Ref(V))), (COUNT,)), positive(QUOTIENT)), True),
        (
            Filter(
                Aggregate(ROWS, (Output(X, QUOTIENT),), (COUNT,)), conjunction(positive(OF_COUNT), positive(Ref(X)))
            ),
            True,
        ),
        (
            Generate(
                ROWS, Call("Explode", (Call("CreateArray", (QUOTIENT,), "array<bigint>"),), "struct<col:bigint>"), (X,)
            ),
            True,
        ),
        (
            Generate(ROWS, Call("Explode", (Call("CreateArray", (Ref(V),), "array<int>"),), "struct<col:int>"), (X,)),
            False,
        ),
        (Opaque((ROWS,), (K,), "a text", Reason("WINDOW", "what nobody looks into")), True),
    ],
)
def test_a_condition_on_what_may_fail_may_fail(query: Rel, fails: bool) -> None:
    assert condition_can_fail(query) == fails
