"""Which columns updates change: those of aggregates and windows, and what is computed of them. What does not look at
these is not decided anew by an update."""

from collections.abc import Mapping

from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.rel import Aggregate, Project, Rel, Values
from tempura.algebra.scalar import Output
from tempura.algebra.window import Window
from tempura.pace.cut import Cut, Operator, Path

Node = Operator | Path
Positions = frozenset[int]


def changing_columns(cut: Cut) -> Mapping[Operator, tuple[frozenset[str], ...]]:
    """Per operator and input, the identities of the columns, as the operator's expressions name them, that updates change."""
    out: dict[Node, Positions] = {}
    found: dict[Operator, tuple[frozenset[str], ...]] = {}
    for segment in cut.segments:
        for node in segment.nodes:
            if isinstance(node, Path):
                out[node] = frozenset() if node.source is None else out[cut.segments[node.source].root]
            else:
                found[node] = tuple(
                    frozenset(input.columns[i].id for i in out[below])
                    for input, below in zip(node.rel.inputs, node.inputs, strict=True)
                )
                out[node] = _given_out(node.rel, frozenset[str]().union(*found[node]))
    return found


def _given_out(rel: Rel, changing: frozenset[str]) -> Positions:
    """The positions of the columns of an operator's rows that updates change."""
    match rel:
        case Aggregate():
            return frozenset(range(len(rel.keys), len(rel.columns)))
        case Project():
            return frozenset(i for i, output in enumerate(rel.outputs) if _reads(output, changing))
        case Expand():
            rows = rel.projections
            return frozenset(i for outputs in rows for i, output in enumerate(outputs) if _reads(output, changing))
        case Window() | Generate():
            own = range(len(rel.input.columns), len(rel.columns))
            return frozenset(own) | _named(rel.input, changing)
        case Values():
            return frozenset()
    if rel.inputs and all(len(input.columns) == len(rel.columns) for input in rel.inputs):
        return frozenset[int]().union(*(_named(input, changing) for input in rel.inputs))
    # A join's columns are those of its inputs, by identity; of anything else all that it makes may change.
    return _named(rel, changing) if rel.inputs else frozenset()


def _named(rel: Rel, changing: frozenset[str]) -> Positions:
    return frozenset(i for i, column in enumerate(rel.columns) if column.id in changing)


def _reads(output: Output, changing: frozenset[str]) -> bool:
    return any(column.id in changing for column in output.expr.columns)


def reads_changes(rel: Aggregate, changing: frozenset[str]) -> bool:
    """Whether an aggregation reads a column that updates change."""
    return any(column.id in changing for expr in rel.computed for column in expr.columns)
