"""Windows by definition: places, peers, frames, ties; and their text."""

from dataclasses import replace

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.canonical import fingerprint
from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Scan
from tempura.algebra.scalar import AggregateCall, Column, Literal, Ref, SortKey
from tempura.algebra.window import CURRENT_ROW, Frame, Window, WindowOutput
from tempura.cost.estimate import Estimator
from tempura.cost.model import SPARK
from tempura.cost.stats import TableFacts
from tempura.errors import TempuraError
from tempura.physical.operators import Read
from tempura.tvr.views import Snapshot

K, V, X = (Column(c, c, "int") for c in "kvx")
TABLE = Scan("t", ("k", "v", "x"), (K, V, X))
ROWS = SignedBag([((1, 5, 9), 2), ((1, 5, 7), 1), ((1, None, 1), 1), ((None, 2, 3), 1), ((None, 2, 4), 1)])
SO_FAR = Frame("rows", None, CURRENT_ROW)
ONE = Literal(1, "int")


def window(
    function: str, *operands: Ref | Literal, frame: Frame = SO_FAR, type: str = "int", detail: str = ""
) -> Window:
    call = AggregateCall(function, operands, type, detail=detail)
    return Window(TABLE, (Ref(K),), (SortKey(Ref(V)),), (WindowOutput(Column("w", "w", type), call, frame),))


def values(rel: Window) -> list[object]:
    """In the order of partition, v, x: NULLs first."""
    found = evaluate(rel, lambda _: ROWS).rows()
    return [r[3] for r in sorted(found, key=lambda r: tuple((c is not None, c or 0) for c in r))]


def test_places_and_peers() -> None:
    assert values(window("RowNumber")) == [1, 2, 1, 2, 3, 4]
    assert values(window("Rank")) == [1, 1, 1, 2, 2, 2]
    assert values(window("DenseRank")) == [1, 1, 1, 2, 2, 2]
    assert values(window("PercentRank")) == [0.0, 0.0, 0.0, 1 / 3, 1 / 3, 1 / 3]
    assert values(window("CumeDist")) == [1.0, 1.0, 0.25, 1.0, 1.0, 1.0]
    assert values(window("NTile", Literal(3, "int"))) == [1, 2, 1, 1, 2, 3]


def test_other_rows() -> None:
    assert values(window("Lag", Ref(X), ONE, Literal(None, "int"))) == [None, 3, None, 1, 7, 9]
    assert values(window("Lead", Ref(X), ONE, Literal(0, "int"))) == [4, 0, 7, 9, 0, 9]
    assert values(window("First", Ref(X))) == [3, 3, 1, 1, 1, 1]
    assert values(window("Last", Ref(X), frame=Frame("range", None, CURRENT_ROW))) == [4, 4, 1, 9, 9, 9]


def test_frames() -> None:
    def total(frame: Frame) -> list[object]:
        return values(window("Sum", Ref(X), frame=frame, type="bigint", detail="ansi"))

    assert total(Frame()) == [7, 7, 26, 26, 26, 26]
    assert total(SO_FAR) == [3, 7, 1, 8, 17, 26]
    assert total(Frame("range", None, CURRENT_ROW)) == [7, 7, 1, 26, 26, 26]
    assert total(Frame("range", CURRENT_ROW, None)) == [7, 7, 26, 25, 25, 25]
    assert total(Frame("rows", Literal(-2, "int"), Literal(-1, "int"))) == [None, 3, None, 1, 8, 16]


def test_what_is_not_known_is_not_guessed() -> None:
    for rel in (
        window("NthValue", Ref(X), ONE),
        window("First", Ref(X), detail="ignoreNulls=True"),
        window("Sum", Ref(X), frame=Frame("range", Literal(-1, "int"), None), type="bigint"),
    ):
        with pytest.raises(TempuraError, match="NOT_INTERPRETED"):
            evaluate(rel, lambda _: ROWS)
    with pytest.raises(TempuraError, match="NEGATIVE_WEIGHT"):
        evaluate(window("RowNumber"), lambda _: -ROWS)


def test_the_text_has_frame_partition_and_order() -> None:
    base = window("Sum", Ref(X))
    others = [
        window("Sum", Ref(X), frame=Frame("range", None, CURRENT_ROW)),
        window("Sum", Ref(X), frame=Frame("rows", CURRENT_ROW, None)),
        Window(TABLE, (), base.order, base.functions),
        Window(TABLE, base.partition, (), base.functions),
        window("Sum", Ref(V)),
    ]
    assert len({fingerprint(rel) for rel in (base, *others)}) == 6
    renamed = Window(
        TABLE, base.partition, base.order, (WindowOutput(Column("z", "z", "int"), base.functions[0].call, SO_FAR),)
    )
    assert fingerprint(renamed) == fingerprint(base)


@pytest.mark.parametrize(
    ("partition", "order", "times"),
    [
        (("bigint",), (), 0.4),
        (("int",), ("date",), 1.0),
        (("int", "decimal(15,2)"), ("date", "timestamp"), 1.0),
        (("string",), (), 2.0),
        (("int",), ("bigint", "string"), 2.0),
    ],
)
def test_one_number_is_sorted_by_its_bits_and_texts_are_compared(
    partition: tuple[str, ...], order: tuple[str, ...], times: float
) -> None:
    columns = tuple(Column(f"c{i}", f"c{i}", type) for i, type in enumerate((*partition, *order)))
    by, keys = columns[: len(partition)], columns[len(partition) :]
    rank = WindowOutput(Column("w", "w", "int"), AggregateCall("RowNumber", (), "int"), SO_FAR)
    table = Scan("t", tuple(c.name for c in columns), columns)
    read = Read(table, Snapshot(0))
    found = Window(read, tuple(map(Ref, by)), tuple(SortKey(Ref(c)) for c in keys), (rank,))
    estimate = Estimator({"t": TableFacts((1_000_000,), (0,), 1)})
    sorted_apart = replace(SPARK, sort_row=0)
    taken = SPARK.operator(found, estimate) - sorted_apart.operator(found, estimate)
    assert taken == 1_000_000 * SPARK.sort_row * times
