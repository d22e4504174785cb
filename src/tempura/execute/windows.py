"""Windows on Spark."""

from tempura.algebra.scalar import Column
from tempura.algebra.window import Window
from tempura.execute.identity import is_exact, is_ordered
from tempura.execute.naming import ids
from tempura.execute.relation import Relation, expand
from tempura.frontend.bind_window import bind_place, bind_window, in_range, tie_breaks
from tempura.frontend.expressions import column

_PLACE = "_place"


def window(rel: Window, input: Relation) -> Relation:
    """The rows of a window, a plain bag: ties have the order of all columns, as in the interpreter."""
    rows = expand(input, rel.input.columns)
    ties = tie_breaks(rel.input.columns, is_ordered, is_exact)
    if any(map(in_range, rel.functions)):
        rows = rows.extended(column(bind_place(rel, ties, _name)).alias(_PLACE))
    values = [column(bind_window(rel, f, ties, _name, _PLACE)).alias(f.column.id) for f in rel.functions]
    return Relation(rows.select(*ids(rel.input.columns), *values), weighted=False)


def _name(column: Column) -> str:
    return column.id
