"""Generators by definition, and their text."""

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.canonical import fingerprint
from tempura.algebra.evaluate import evaluate
from tempura.algebra.generate import Generate
from tempura.algebra.rel import Scan
from tempura.algebra.scalar import Call, Column, Literal, Ref
from tempura.errors import TempuraError

K, XS = Column("k", "k", "int"), Column("xs", "xs", "array<int>")
A, B = Column("a", "a", "int"), Column("b", "b", "int")
TABLE = Scan("t", ("k", "xs"), (K, XS))
ROWS = SignedBag([((2, [5, 5, None]), -3), ((1, []), 1), ((None, None), 2)])


def made(function: str, *operands: Ref | Literal, outputs: tuple[Column, ...] = (A,), outer: bool = False) -> SignedBag:
    rel = Generate(TABLE, Call(function, operands, "struct<a:int>"), outputs, outer)
    return SignedBag((row[0:1] + row[2:], w) for row, w in evaluate(rel, lambda _: ROWS).items())


def test_arrays() -> None:
    assert made("Explode", Ref(XS)) == SignedBag([((2, 5), -6), ((2, None), -3)])
    outer = SignedBag([((2, 5), -6), ((2, None), -3), ((1, None), 1), ((None, None), 2)])
    assert made("Explode", Ref(XS), outer=True) == outer
    assert made("PosExplode", Ref(XS), outputs=(A, B)) == SignedBag(
        [((2, 0, 5), -3), ((2, 1, 5), -3), ((2, 2, None), -3)]
    )


def test_maps_and_structs() -> None:
    entries = Literal({1: 10, 2: None}, "map<int,int>")
    assert made("Explode", entries, outputs=(A, B)).weight((1, 2, None)) == 1
    structs = Literal([(1, 2), None], "array<struct<a:int,b:int>>")
    assert made("Inline", structs, outputs=(A, B)) == SignedBag(
        (row, w) for k, w in ((2, -3), (1, 1), (None, 2)) for row in ((k, 1, 2), (k, None, None))
    )


def test_stack_and_multiplicities() -> None:
    stacked = made("Stack", Literal(2, "int"), Ref(K), Literal(7, "int"), Literal(8, "int"), outputs=(A, B))
    assert stacked == SignedBag((row, w) for k, w in ((2, -3), (1, 1), (None, 2)) for row in ((k, k, 7), (k, 8, None)))
    assert made("ReplicateRows", Ref(K), Ref(K)) == SignedBag([((2, 2), -6), ((1, 1), 1)])


def test_what_is_not_known_is_not_guessed() -> None:
    with pytest.raises(TempuraError, match="NOT_INTERPRETED"):
        made("JsonTuple", Ref(K))


def test_the_text_has_the_generator_and_outer() -> None:
    texts = {
        fingerprint(Generate(TABLE, Call(name, (Ref(XS),), "struct<a:int>"), (A,), outer))
        for name in ("Explode", "Inline")
        for outer in (False, True)
    }
    assert len(texts) == 4
