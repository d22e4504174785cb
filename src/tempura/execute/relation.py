"""A relation at execution time, and what can be done with weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn

from tempura.algebra.scalar import Column
from tempura.execute import functions as fn
from tempura.execute.contract import WEIGHT
from tempura.execute.draft import Draft
from tempura.execute.naming import ids, one, weight


@dataclass(frozen=True)
class Relation:
    """Rows whose columns are named by ``Column.id``. ``weighted``: it has the column ``_w``, and a row with weight n
    stands for n equal rows (negative: deletions). Otherwise it is a plain bag. ``taken`` are the entries of negative weight apart, where
    they are few and can be had without a look at the others. ``clean`` makes the rows that are left, each with weight 1, where these can
    be told without setting off others against them. ``parts``: what it is merged from, if it lies in several parts.
    ``units``: the weights, if there are some, are 1 and -1 only."""

    draft: Draft
    weighted: bool
    taken: Draft | None = None
    clean: Callable[[], Draft] | None = None
    parts: "Parts | None" = None
    units: bool = False

    @property
    def is_of_units(self) -> bool:
        """Whether each entry stands for one row that came, or one that went."""
        return self.units or not self.weighted

    def carry(self) -> tuple[str, ...]:
        """The weight column, if there is one: to be selected along with others."""
        return (WEIGHT,) if self.weighted else ()


@dataclass(frozen=True)
class Parts:
    """A relation as it lies: ``rows`` in the same columns, of which those that are equal in the first ``keys`` columns are put together by
    ``merge``. What is asked of whole groups may be asked of the rows before, and only what is left is merged."""

    rows: Relation
    keys: int
    merge: Callable[[Relation], Relation]


def with_weight(relation: Relation) -> Draft:
    """The relation with its weights written out."""
    return relation.draft if relation.weighted else relation.draft.extended(one().alias(WEIGHT))


def expand(relation: Relation, columns: Sequence[Column]) -> Draft:
    """The plain bag that a positive relation stands for: a row with weight n occurs n times.

    The job fails, with NEGATIVE_WEIGHT in its message, when a weight is negative.
    """
    if not relation.weighted:
        return relation.draft
    copies = fn.explode(fn.array_repeat(fn.lit(True), _positive().cast("int")))
    return relation.draft.select(*ids(columns), copies.alias("_copy")).select(*ids(columns))


def plain(relation: Relation, columns: Sequence[Column]) -> Relation:
    """A positive relation without weights. The job fails as that of :func:`expand`."""
    return Relation(expand(relation, columns), weighted=False)


def split_weights(relation: Relation, columns: Sequence[Column]) -> Relation:
    """The same signed bag with weights 1 and -1 only."""
    if relation.is_of_units:
        return relation
    units = fn.array_repeat(fn.signum(weight()).cast("bigint"), fn.abs(weight()).cast("int"))
    return Relation(relation.draft.select(*ids(columns), fn.explode(units).alias(WEIGHT)), weighted=True, units=True)


def _positive() -> SparkColumn:
    broken = fn.raise_error(
        fn.concat(fn.lit("NEGATIVE_WEIGHT: a row to be written has weight "), weight().cast("string"))
    )
    return fn.when(weight() >= 0, weight()).otherwise(broken.cast("bigint"))
