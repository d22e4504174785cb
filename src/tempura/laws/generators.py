"""Random generators for laws: with one column of integers, over arrays that depend on the row."""

from tempura.algebra.scalar import Call, Column, Expr, Literal
from tempura.laws.scalars import Scalars

MADE = (Column("g0", "g0", "int"),)


def generator(maker: Scalars, columns: tuple[Column, ...]) -> Call:
    """A generator over some columns."""
    number: Expr = Call("If", (maker.predicate(columns), Literal(2, "int"), Literal(None, "int")), "int")
    match maker.rng.choice(("Explode", "Stack", "ReplicateRows")):
        case "Explode":
            return Call("Explode", (_array(maker, columns),), "struct<col:int>")
        case "Stack":
            return Call("Stack", (Literal(maker.rng.choice((1, 2)), "int"), number), "struct<col0:int>")
    return Call("ReplicateRows", (number, number), "struct<col0:int>")


def _array(maker: Scalars, columns: tuple[Column, ...]) -> Expr:
    arrays = [Literal(value, "array<int>") for value in ([1, None, 1], [2], [], None)]
    return Call("If", (maker.predicate(columns), *maker.rng.sample(arrays, 2)), "array<int>")
