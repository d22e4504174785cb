"""The value of a scalar sub-query as a relation: always exactly one row."""

from dataclasses import dataclass

from tempura.algebra.rel import Aggregate, Join, Project, Rel, Unary, Values
from tempura.algebra.scalar import TRUE

TOO_MANY_ROWS = "SCALAR_SUBQUERY_TOO_MANY_ROWS"
"""The code of the error for a second row: Spark's own."""


@dataclass(frozen=True, eq=False)
class One(Unary):
    """The only row of the input; a row of NULLs when it has none. To compute it over two rows is an error, also when they are
    equal, as for Spark's scalar sub-query."""

    @property
    def set_like(self) -> tuple[bool, ...]:
        return (True,)


def has_one_row(rel: Rel) -> bool:
    """Whether the relation has exactly one row, whatever the tables hold."""
    match rel:
        case One():
            return True
        case Aggregate():
            return not rel.keys
        case Project():
            return has_one_row(rel.input)
        case Values():
            return len(rel.rows) == 1
        case Join(kind="inner" | "left"):
            return rel.on == TRUE and all(map(has_one_row, rel.inputs))
    return False


def one(rel: Rel) -> Rel:
    """``One`` of a relation; the relation itself when it always has one row."""
    return rel if has_one_row(rel) else One(rel)


def beside(rel: Rel, value: Rel) -> Rel:
    """Each row of ``rel`` with the columns of ``value``, which always has one row. So this product, which is linear in both, is the
    outer join that keeps every row of ``rel``."""
    return Join(rel, value, "inner", TRUE)
