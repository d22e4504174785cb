"""Random windows for laws; and random generators, with one column of integers, over arrays that depend on the row."""

from tempura.algebra.scalar import AggregateCall, Call, Column, Expr, Literal, Ref
from tempura.algebra.window import CURRENT_ROW, Frame, WindowOutput
from tempura.laws.scalars import Scalars

_NUMBERS = {"RowNumber": "int", "Rank": "int", "DenseRank": "int", "PercentRank": "double", "CumeDist": "double"}


def partition(maker: Scalars, columns: tuple[Column, ...]) -> tuple[Expr, ...]:
    """No, one or two expressions to partition by."""
    return tuple(maker.expression(columns) for _ in range(maker.rng.choice((0, 1, 1, 1, 2))))


def functions(maker: Scalars, columns: tuple[Column, ...], prefix: str = "w") -> tuple[WindowOutput, ...]:
    """One or two window functions."""
    made = [_function(maker, columns) for _ in range(maker.rng.choice((1, 2)))]
    return tuple(WindowOutput(Column(f"{prefix}{i}", f"{prefix}{i}", c.type), c, f) for i, (c, f) in enumerate(made))


def _function(maker: Scalars, columns: tuple[Column, ...]) -> tuple[AggregateCall, Frame]:
    column = maker.rng.choice(columns)
    match maker.rng.choice(("number", "offset", "end", "aggregate", "aggregate")):
        case "number":
            name = maker.rng.choice(list(_NUMBERS))
            return AggregateCall(name, (), _NUMBERS[name]), Frame("rows", None, CURRENT_ROW)
        case "offset":
            name, one = maker.rng.choice(("Lag", "Lead")), Literal(1, "int")
            frame = Frame("rows", one, one)
            return AggregateCall(name, (Ref(column), one, maker.literal(column.type)), column.type), frame
        case "end":
            return AggregateCall(maker.rng.choice(("First", "Last")), (Ref(column),), column.type), _frame(maker)
    call = maker.aggregate(columns)
    while call.distinct:
        call = maker.aggregate(columns)
    return call, _frame(maker)


def _frame(maker: Scalars) -> Frame:
    return maker.rng.choice(
        (
            Frame(),
            Frame("rows", None, CURRENT_ROW),
            Frame("range", None, CURRENT_ROW),
            Frame("range", CURRENT_ROW, None),
            Frame("rows", Literal(-1, "int"), Literal(1, "int")),
            Frame("rows", Literal(-2, "int"), Literal(-1, "int")),
        )
    )


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
