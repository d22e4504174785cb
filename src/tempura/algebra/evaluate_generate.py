"""The interpreter's generators: the rows that are made of one row."""

from collections.abc import Callable, Mapping
from typing import cast

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.evaluate_scalar import evaluate as value_of
from tempura.algebra.generate import Generate
from tempura.errors import TempuraError

Values = tuple[object, ...]


def evaluate_generate(rel: Generate, rows: SignedBag) -> SignedBag:
    """The signed bag of a generator. Raises TempuraError ``NOT_INTERPRETED`` for a generator that is not known here."""
    return SignedBag((row + made, weight) for row, weight in rows.items() for made in _made(rel, row))


def _made(rel: Generate, row: Row) -> list[Row]:
    name = rel.generator.function
    if name not in _GENERATORS:
        raise TempuraError("NOT_INTERPRETED", f"the interpreter does not know {rel.generator}.", "Run it on Spark.")
    env = dict(zip(rel.input.columns, row, strict=True))
    made = _GENERATORS[name](tuple(value_of(operand, env) for operand in rel.generator.operands), len(rel.outputs))
    return made or ([(None,) * len(rel.outputs)] if rel.outer else [])


def _explode(values: Values, width: int) -> list[Row]:
    (collection,) = values
    if isinstance(collection, dict):
        return list(collection.items())
    return [(item,) for item in _items(collection)]


def _posexplode(values: Values, width: int) -> list[Row]:
    return [(i, *row) for i, row in enumerate(_explode(values, width - 1))]


def _inline(values: Values, width: int) -> list[Row]:
    return [(None,) * width if item is None else tuple(cast(Row, item)) for item in _items(values[0])]


def _items(collection: object) -> list[object]:
    return [] if collection is None else list(cast(list[object], collection))


def _stack(values: Values, width: int) -> list[Row]:
    """The values in rows of ``width``, the last one filled up with NULLs."""
    count = cast(int, values[0])
    padded = values[1:] + (None,) * (count * width)
    return [padded[i * width : (i + 1) * width] for i in range(count)]


def _replicate(values: Values, width: int) -> list[Row]:
    return [values[1:]] * cast(int, values[0] or 0)


_GENERATORS: Mapping[str, Callable[[Values, int], list[Row]]] = {
    "Explode": _explode, "PosExplode": _posexplode, "Inline": _inline, "Stack": _stack, "ReplicateRows": _replicate,
}  # fmt: skip
