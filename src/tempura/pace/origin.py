"""Which columns of tables the keys of an aggregation are, within its segment."""

from collections.abc import Iterator, Sequence

from tempura.algebra.rel import Aggregate, Filter, Join, Project, Scan, Sort
from tempura.algebra.scalar import Column, Expr, Ref
from tempura.cost.conditions import split_equalities
from tempura.pace.cut import Operator, Path, Segment

Origin = tuple[Path, str]
"""A use of a table, and the name of a column."""


def key_origins(segment: Segment, only_inner: bool = False) -> Iterator[dict[Path, str]]:
    """Per key of the aggregation at the top of a segment that is a column of a table, that, and the columns that joins equate with it
    (``only_inner``: inner joins, which have no rows without)."""
    root = segment.root
    if not isinstance(root, Operator) or not isinstance(root.rel, Aggregate):
        return
    equal = [(left, right) for op, left, right in equalities(segment) if not only_inner or _is_inner(op)]
    for key in root.rel.keys:
        origin = _origin(root.inputs[0], _place(key.expr, root.rel.input.columns))
        if origin is None:
            continue
        found = dict([origin])
        for left, right in equal * len(equal):  # a chain of equalities in any order
            for one, other in ((left, right), (right, left)):
                if found.get(one[0]) == one[1]:
                    found.setdefault(*other)
        yield found


def equalities(segment: Segment) -> Iterator[tuple[Operator, Origin, Origin]]:
    """Columns of tables that joins equate."""
    for op in segment.operators:
        if isinstance(op.rel, Join):
            for left, right in split_equalities(op.rel)[0]:
                one = _origin(op.inputs[0], _place(left, op.rel.left.columns))
                other = _origin(op.inputs[1], _place(right, op.rel.right.columns))
                if one is not None and other is not None:
                    yield op, one, other


def _is_inner(op: Operator) -> bool:
    return isinstance(op.rel, Join) and op.rel.kind == "inner"


def _place(expr: Expr, columns: Sequence[Column]) -> int | None:
    """The position of the column that an expression is; None for one that is computed."""
    if not isinstance(expr, Ref):
        return None
    return next((i for i, column in enumerate(columns) if column.id == expr.column.id), None)


def _origin(node: Operator | Path, place: int | None) -> Origin | None:
    """The column of a table that stands at a place of an operator's rows: the use of the table, and its name."""
    if place is None:
        return None
    if isinstance(node, Path):
        return (node, node.rel.fields[place]) if isinstance(node.rel, Scan) else None
    match node.rel:
        case Filter() | Sort():
            return _origin(node.inputs[0], place)
        case Project():
            return _origin(node.inputs[0], _place(node.rel.outputs[place].expr, node.rel.input.columns))
        case Join():
            width = len(node.rel.left.columns)
            if place < width:
                return _origin(node.inputs[0], place) if node.rel.kind != "full" else None
            return _origin(node.inputs[1], place - width) if node.rel.kind in ("inner", "single") else None
    return None
