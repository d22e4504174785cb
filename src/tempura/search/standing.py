"""Which columns of a class have the same values whatever a table has: what the operators that compute it say of their form.

Seen through such columns the table might as well not be there: an anti join that reads no others loses and gains no row by it. In the
join-disjunctive normal form (Larson and Zhou, ICDE 2007) that is what makes a term unaffected: none of its parents has the table.
"""

from collections.abc import Callable, Sequence

from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Sort, Union
from tempura.algebra.scalar import Column, Output
from tempura.memo.edge import Edge
from tempura.memo.memo import Memo

Columns = frozenset[Column]


class Standing:
    """Whether the values in some columns stay while nothing but a table changes; ``tables_of`` says which tables an expression reads. Any
    member of a class proves it."""

    def __init__(self, memo: Memo, tables_of: Callable[[Rel], frozenset[str]]) -> None:
        self._memo = memo
        self._tables_of = tables_of
        self._asked: set[int] = set()

    def is_seen_without(self, table: str, rel: Rel, columns: Columns) -> bool:
        """Whether there are the same values in the columns: rows that agree in them may be more or fewer."""
        if table not in self._tables_of(rel):
            return True
        if isinstance(rel, Edge):
            return self._of_class(table, rel, columns)
        deciding = _deciding(rel, columns)
        return deciding is not None and all(self.is_seen_without(table, *input) for input in deciding)

    def _of_class(self, table: str, edge: Edge, columns: Columns) -> bool:
        if edge.id in self._asked:
            return False  # a class proves nothing by itself
        self._asked.add(edge.id)
        places = [i for i, column in enumerate(edge.columns) if column in columns]
        rels = (member.rel for member in self._memo.members(edge))
        found = any(self.is_seen_without(table, rel, frozenset(rel.columns[i] for i in places)) for rel in rels)
        self._asked.discard(edge.id)
        return found


def _deciding(rel: Rel, columns: Columns) -> Sequence[tuple[Rel, Columns]] | None:
    """Inputs, and columns of theirs whose values decide which values an operator has in some of its own: none of them, where it only
    matters that there is a row. None when more than that matters, or nothing is known."""
    match rel:
        case Filter():
            return [(rel.input, columns | rel.predicate.columns)]
        case Sort():
            return [(rel.input, columns)]
        case Project():
            return [(rel.input, _read(rel.outputs, columns))]
        case Aggregate() if rel.keys and columns <= {key.column for key in rel.keys}:
            return [(rel.input, _read(rel.keys, columns))]
        case Union():
            places = [i for i, column in enumerate(rel.columns) if column in columns]
            return [(term, frozenset(term.columns[i] for i in places)) for term in rel.terms]
        case Join(kind="left") if columns <= rel.left.column_set:
            return [(rel.left, columns)]
        case Join() if rel.kind != "single":
            read = columns | rel.on.columns
            return [(side, read & side.column_set) for side in rel.inputs]
    return None


def _read(outputs: tuple[Output, ...], columns: Columns) -> Columns:
    return frozenset().union(*(output.expr.columns for output in outputs if output.column in columns))
