"""Which rows have no partner among the changes of another relation, by the references of tables.

A row of a snapshot has a value that is a key of some table (``memo.references``), as that table was when the snapshot was. If the table
has only got rows since then, what it has got has other keys: no two of its rows have the same. If it only loses rows until then, what it
has lost has other keys, too. Of a table that does both, a row may have been put in the place of another one of its key.
"""

from collections.abc import Callable, Mapping
from math import ceil

from tempura.algebra.generate import Generate
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan, Sort, Union
from tempura.algebra.scalar import Column, Expr, Ref
from tempura.cost.stats import TableFacts
from tempura.memo.edge import Edge
from tempura.memo.memo import AnyMember, Memo
from tempura.memo.references import Inclusion, References, fields_of
from tempura.tvr.staircase import Staircase, Time

Unchanged = Callable[[Rel, Time, Time], bool]

_BY_LEFT_ROWS: tuple[JoinKind, ...] = ("inner", "left", "single", "semi", "anti", "exists")
"""Joins whose result changes only for changed rows of the left side, and for those that match changed rows of the right side."""


class Partners:
    """``unchanged`` says whether nothing that an expression reads changes between two times."""

    def __init__(
        self, tables: Mapping[str, TableFacts], memo: Memo, staircase: Staircase, unchanged: Unchanged
    ) -> None:
        self._tables = tables
        self._any_member = AnyMember(memo)
        self._seen = staircase.seen
        self._unchanged = unchanged
        self._references = References(memo, {name: table.keys for name, table in tables.items()})
        self._none: dict[tuple[Rel, Rel, Expr, Time, Time, Time], bool] = {}
        self.are_known = any(table.keys.references for table in tables.values())

    def none(self, left: Rel, right: Rel, on: Expr, s: Time, t: Time, u: Time) -> bool:
        """Whether certainly no row of ``left`` at s matches a row that ``right`` gets or loses after t up to u."""
        if not self.are_known:
            return False
        asked = (left, right, on, s, t, u)
        if asked not in self._none:
            self._none[asked] = False  # nothing proves itself
            self._none[asked] = self._unchanged(right, t, u) or any(
                self._apart(right, tuple(b for _, b in pairs), i, p, t, u)
                for pairs in self._references.pairs(on, left.columns, right.columns)
                for i in self._references.included(left, tuple(a for a, _ in pairs))
                for p in self._points(i, s, u)
            )
        return self._none[asked]

    def _points(self, inclusion: Inclusion, s: Time, u: Time) -> list[int]:
        """The times at which the table has the keys, not after those that are asked about: the origins are as they are at s."""
        origins = [(self._tables[name], self._seen(name, s)) for name in inclusion.origins]
        times = range(max(ceil(s), ceil(u)) + 1)
        return [p for p in times if all(table.is_unchanged(*sorted((p, at))) for table, at in origins)]

    def _apart(self, rel: Rel, columns: tuple[Column, ...], keys: Inclusion, p: int, t: Time, u: Time) -> bool:
        """Whether all rows that a relation gets or loses after t up to u have other values than the table has keys at p."""
        if self._unchanged(rel, t, u):
            return True
        match rel:
            case Edge():
                return self._any_member.proves(rel, columns, lambda own, of: self._apart(own, of, keys, p, t, u))
            case Scan():
                return self._table_apart(rel, columns, keys, p, t, u)
            case Filter() | Sort() | Generate():
                kept = set(columns) <= set(rel.input.columns)
                return kept and self._apart(rel.input, columns, keys, p, t, u)
            case Project() | Aggregate():
                outputs = rel.outputs if isinstance(rel, Project) else rel.keys
                values = {output.column: output.expr for output in outputs}
                named = tuple(e.column for c in columns if isinstance(e := values.get(c), Ref))
                return len(named) == len(columns) and self._apart(rel.input, named, keys, p, t, u)
            case Union():
                places = [rel.columns.index(column) for column in columns]
                terms = ((term, tuple(term.columns[i] for i in places)) for term in rel.terms)
                return all(self._apart(term, own, keys, p, t, u) for term, own in terms)
            case Join():
                return self._join_apart(rel, columns, keys, p, t, u)
        return False

    def _table_apart(self, scan: Scan, columns: tuple[Column, ...], keys: Inclusion, p: int, t: Time, u: Time) -> bool:
        table, old, new = self._tables[scan.table], self._seen(scan.table, t), self._seen(scan.table, u)
        if scan.table != keys.table or fields_of(scan, columns) != keys.key:
            return False
        if set(keys.key) != set(table.keys.unique):
            return False
        return (p <= old and table.is_insert_only(p, new)) or (p >= new and table.is_delete_only(old, p))

    def _join_apart(self, join: Join, columns: tuple[Column, ...], keys: Inclusion, p: int, t: Time, u: Time) -> bool:
        """The changes come from those of one side: no row of it matches a changed row of the other, before or after."""
        sides = [(join.left, join.right)] if join.kind in _BY_LEFT_ROWS else []
        sides += [(join.right, join.left)] if join.kind == "inner" else []
        return any(
            set(columns) <= set(own.columns)
            and self._apart(own, columns, keys, p, t, u)
            and (self.none(own, other, join.on, t, t, u) or self.none(own, other, join.on, u, t, u))
            for own, other in sides
        )
