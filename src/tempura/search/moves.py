"""Which tables expressions read, and between which times these change: what all other facts about time points rest on."""

from collections.abc import Mapping

from tempura.algebra.rel import Rel, Scan
from tempura.cost.stats import TableFacts
from tempura.memo.memo import Memo
from tempura.tvr.staircase import Staircase, Time


class Moves:
    """The moves of the tables below the classes of a memo; ``staircase`` says when each table is seen."""

    def __init__(self, tables: Mapping[str, TableFacts], memo: Memo, staircase: Staircase) -> None:
        self._tables = tables
        self._memo = memo
        self._staircase = staircase
        self._read: dict[Rel, frozenset[str]] = {}

    def tables_of(self, rel: Rel) -> frozenset[str]:
        """The tables that an expression reads."""
        if rel not in self._read:
            rel_or_class = self._memo.representative(rel)
            own = {rel_or_class.table} if isinstance(rel_or_class, Scan) else ()
            self._read[rel] = frozenset(own).union(*map(self.tables_of, rel_or_class.inputs))
        return self._read[rel]

    def is_unchanged(self, rel: Rel, t: Time, u: Time) -> bool:
        """Whether nothing that an expression reads changes after t up to u."""
        seen = self._staircase.seen
        return all(self._tables[name].is_unchanged(seen(name, t), seen(name, u)) for name in self.tables_of(rel))

    def moving(self, rel: Rel, t: Time, u: Time) -> tuple[str, ...]:
        """The tables that an expression reads and that change from one point to another."""
        seen = self._staircase.seen
        moved = (n for n in self.tables_of(rel) if not self._tables[n].is_unchanged(seen(n, t), seen(n, u)))
        return tuple(sorted(moved))
