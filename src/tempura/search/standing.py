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
Goal = tuple[str, Edge, tuple[int, ...]]
"""To be shown without a table: of a class, the columns at some places."""


class Standing:
    """Whether the values in some columns stay while nothing but a table changes; ``tables_of`` says which tables an expression reads. Any
    member of a class proves it, from other classes; a class proves nothing by itself."""

    def __init__(self, memo: Memo, tables_of: Callable[[Rel], frozenset[str]]) -> None:
        self._memo = memo
        self._tables_of = tables_of
        self._shown: dict[Goal, bool] = {}

    def is_seen_without(self, table: str, rel: Rel, columns: Columns) -> bool:
        """Whether there are the same values in the columns: rows that agree in them may be more or fewer."""
        goals = self._goals(table, rel, columns)
        return goals is not None and all(map(self._is_shown, goals))

    def _goals(self, table: str, rel: Rel, columns: Columns) -> list[Goal] | None:
        """What has to be shown of classes; None when nothing would do."""
        if table not in self._tables_of(rel):
            return []
        if isinstance(rel, Edge):
            places = tuple(i for i, column in enumerate(rel.columns) if column in columns)
            return [(table, self._memo.own(rel), places)]
        deciding = _deciding(rel, columns)
        parts = None if deciding is None else [self._goals(table, *input) for input in deciding]
        return None if parts is None or None in parts else [goal for part in parts for goal in part or ()]

    def _is_shown(self, goal: Goal) -> bool:
        if goal not in self._shown:
            ways = self._ways(goal)
            shown: set[Goal] = set()
            while new := {g for g in ways.keys() - shown if any(shown.issuperset(way) for way in ways[g])}:
                shown |= new
            self._shown |= {g: g in shown for g in ways}
        return self._shown[goal]

    def _ways(self, goal: Goal) -> dict[Goal, list[list[Goal]]]:
        """By which other goals a goal, and each of these, is shown: by all of one of its ways."""
        ways: dict[Goal, list[list[Goal]]] = {}
        left = [goal]
        while left:
            table, edge, places = asked = left.pop()
            if asked in ways:
                continue
            rels = [member.rel for member in self._memo.members(edge)]
            found = (self._goals(table, rel, frozenset(rel.columns[i] for i in places)) for rel in rels)
            ways[asked] = [way for way in found if way is not None]
            left += [next for way in ways[asked] for next in way]
        return ways


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
