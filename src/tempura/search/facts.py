"""What is certain about TVRs at the time points of a plan, derived from the tables; and the enforcement of set-like inputs."""

from collections.abc import Mapping
from copy import copy
from functools import cached_property, partial
from math import ceil, floor

from tempura.algebra.failing import operator_can_fail
from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Aggregate, Consolidate, Join, Negate, Rel, Scan, Support
from tempura.algebra.scalar import Column, Expr
from tempura.algebra.states import Partial
from tempura.cost.stats import TableFacts
from tempura.memo.edge import Edge
from tempura.memo.memo import Member, Memo
from tempura.physical.operators import Read
from tempura.rules.helpers import is_order_sensitive
from tempura.search.moves import Moves
from tempura.search.partners import Partners
from tempura.search.standing import Standing
from tempura.tvr.staircase import Staircase, Time
from tempura.tvr.tvr import Tvr
from tempura.tvr.views import Delta, Snapshot, State, StateDelta, View, ViewKind


class PlanFacts:
    """Facts about every TVR over the tables of one planning problem. Implements ``rules.dsl.Facts``. ``begins`` is the last time point
    at which incremental work may begin; ``staircase`` says when each table is seen. ``together``: the memo has classes of what is the
    same only where rows have their partners."""

    def __init__(
        self,
        tables: Mapping[str, TableFacts],
        memo: Memo,
        begins: int,
        staircase: Staircase,
        together: bool = False,
    ) -> None:
        self._tables = tables
        self._memo = memo
        self._begins = begins
        self._since = 0
        self._staircase = staircase
        self._together = together
        self._insert_only: dict[tuple[Rel, Time, Time], bool] = {}
        self._lineage: dict[Rel, frozenset[Rel]] = {}
        self._netted: set[Rel] = set()
        self._moves = Moves(tables, memo, staircase)
        self._partners = Partners(tables, memo, staircase, self._moves.is_unchanged)
        self._standing = Standing(memo, self._moves.tables_of)

    def beginning_by(self, t: int) -> "PlanFacts":
        """The same facts, with incremental work that begins at a time point or earlier. What is found out is shared."""
        other = copy(self)
        other._begins = t
        return other

    def since(self, t: int) -> "PlanFacts":
        """The same facts for work that begins at a time point: what happened to tables before is nothing to it."""
        other = copy(self)
        other._since = t
        return other

    def beginnings(self, upto: int) -> tuple[int, ...]:
        """The first of the time points since which the same tables only grow, and the same ones never change."""
        found: dict[object, int] = {}
        for t in range(upto + 1):
            still = [
                (table.is_insert_only(t, self.last), table.is_unchanged(t, self.last))
                for table in self._tables.values()
            ]
            found.setdefault(tuple(still), t)
        return tuple(found.values())

    def is_first(self, t: Time) -> bool:
        """Whether incremental work may begin at t."""
        return t <= self._begins

    @cached_property
    def last(self) -> int:
        """The last time point."""
        return max((len(table.inserted) for table in self._tables.values()), default=1) - 1

    def unchanged(self, tvr: Tvr, t: Time, u: Time) -> bool:
        """Whether nothing that the TVR reads changes after t up to u."""
        return self.is_unchanged(tvr.rel, t, u)

    def never_changes(self, tvr: Tvr) -> bool:
        """Whether nothing that the TVR reads changes from a time point to the last: the first one, or that of :meth:`since`."""
        return self.is_unchanged(tvr.rel, self._since, self.last)

    def only_grows(self, tvr: Tvr) -> bool:
        """Whether the TVR loses no row from a time point to the last: the first one, or that of :meth:`since`."""
        return self.grows(tvr.rel, self._since, self.last)

    def knows_references(self) -> bool:
        """Whether tables of the query refer to each other."""
        return self._partners.are_known

    def matches_no_change(self, left: Tvr, right: Tvr, on: Expr, s: Time, t: Time, u: Time) -> bool:
        """Whether certainly no row of ``left`` at s matches a row that ``right`` gets or loses after t up to u."""
        return self._partners.none(left.rel, right.rel, on, s, t, u)

    def tables_of(self, rel: Rel) -> frozenset[str]:
        """The tables that an expression reads."""
        return self._moves.tables_of(rel)

    def move_apart(self, one: Tvr, other: Tvr, t: Time, u: Time) -> bool:
        """Whether two TVRs read no table that moves in common, and tables may be looked at one by one: not where values depend on the
        physical order of rows."""
        ordered = self.has_order_sensitive_values(one.rel) or self.has_order_sensitive_values(other.rel)
        return not ordered and not set(self.moving(one.rel, t, u)) & set(self.moving(other.rel, t, u))

    def reads(self, tvr: Tvr, table: str) -> bool:
        """Whether a TVR is computed from a table."""
        return table in self.tables_of(tvr.rel)

    def is_seen_without(self, table: str, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether there are the same values in some columns, whatever a table has."""
        return self._standing.is_seen_without(table, tvr.rel, frozenset(columns))

    def moving(self, rel: Rel, t: Time, u: Time) -> tuple[str, ...]:
        """The tables that an expression reads and that change from one point to another."""
        return self._moves.moving(rel, t, u)

    def has_order_sensitive_values(self, rel: Rel) -> bool:
        """Whether two computations of an expression over the same tables may differ."""
        return bool(self.lineage(rel))

    def lineage(self, rel: Rel) -> frozenset[Rel]:
        """The operators from which an expression has values that depend on the physical order of rows. Those of a class are those of
        the member after which it is named when it is stored."""
        known = self._lineage.get(rel)
        if known is None:
            meant = self._memo.representative(rel)
            own = frozenset([meant]) if is_order_sensitive(meant) else frozenset()
            known = self._lineage[rel] = own or frozenset().union(*map(self.lineage, meant.inputs))
        return known

    def is_computed_once(self, rel: Rel) -> bool:
        """Whether two computations of an expression over the same inputs may differ."""
        return self._memo.representative(rel) in self.lineage(rel)

    def members(self, edge: Edge) -> tuple[Member, ...]:
        """The operators that compute a class. Values that depend on the physical order of rows are computed in one way: members that have
        them from elsewhere are left out."""
        lineage = self.lineage(edge)
        return tuple(member for member in self._memo.members(edge) if self.lineage(member.rel) == lineage)

    def is_unchanged(self, rel: Rel, t: Time, u: Time) -> bool:
        """Whether nothing that the TVR reads changes after t up to u."""
        return self._moves.is_unchanged(rel, t, u)

    def normal(self, rel: Rel, at: ViewKind) -> ViewKind | None:
        """The one name of a view: its times are restricted to the tables that it reads, and a snapshot or state has the first of
        the times at which it is the same. None for a delta that is empty."""
        match at:
            case Delta(t, u) | StateDelta(t, u):
                return (
                    None if self.is_unchanged(rel, t, u) else type(at)(self.restricted(rel, t), self.restricted(rel, u))
                )
            case Snapshot(t) | State(t):
                return type(at)(self._first_same(rel, self.restricted(rel, t)))

    def restricted(self, rel: Rel, t: Time) -> Time:
        """A point, restricted to the tables that an expression reads."""
        return t if isinstance(t, int) else self._staircase.projected(self.tables_of(rel), t)

    def _first_same(self, rel: Rel, t: Time) -> Time:
        return next((s for s in range(ceil(t)) if self.is_unchanged(rel, s, t)), t)

    def between(self, rel: Rel, t: Time, u: Time) -> tuple[Time, ...]:
        """The points between two times at which some of the tables that an expression reads have moved on, but not all."""
        if ceil(u) - floor(t) != 1 or not self._keeps_references(floor(t), ceil(u)):
            return ()
        points = self._staircase.between(self.tables_of(rel), ceil(u))
        return tuple(
            p for p in points if t < p < u and not (self.is_unchanged(rel, t, p) or self.is_unchanged(rel, p, u))
        )

    def _keeps_references(self, t: int, u: int) -> bool:
        """Whether rows have their partners at all points between two times, too, if that matters."""
        if not self._together:
            return True
        order = self._staircase.order
        pairs = ((name, r.table) for name, table in self._tables.items() for r in table.keys.references)
        moving = [(a, b) for a, b in pairs if a != b and a in order and b in order]
        return all(self._keeps(a, b, t, u, first=order.index(a) < order.index(b)) for a, b in moving)

    def _keeps(self, name: str, partner: str, t: int, u: int, first: bool) -> bool:
        """Whether rows have their partners while one of two tables has moved on and the other has not; ``first``: that of the rows."""
        rows, partners = self._tables[name], self._tables[partner]
        if rows.is_unchanged(t, u) or partners.is_unchanged(t, u):
            return True
        lost = rows.is_delete_only(t, u) or partners.is_delete_only(t, u)
        return lost if first else rows.is_insert_only(t, u) or partners.is_insert_only(t, u)

    def points(self, tvr: Tvr, t: Time, u: Time) -> tuple[Time, ...]:
        """The same of a TVR; none for values that depend on the physical order of rows, which are computed at times only."""
        return () if self.has_order_sensitive_values(tvr.rel) else self.between(tvr.rel, t, u)

    def insert_only(self, tvr: Tvr, t: Time, u: Time) -> bool:
        """Whether the delta from t to u certainly has no deletions."""
        return self.grows(tvr.rel, t, u)

    def grows(self, rel: Rel, t: Time, u: Time) -> bool:
        """Whether the snapshot at u certainly contains the snapshot at t."""
        key = (rel, t, u)
        if key not in self._insert_only:
            self._insert_only[key] = False  # a class proves nothing by itself
            self._insert_only[key] = self.is_unchanged(rel, t, u) or self._grows(rel, t, u)
        return self._insert_only[key]

    def _grows(self, rel: Rel, t: Time, u: Time) -> bool:
        inputs = [self.grows(i, t, u) for i in rel.inputs]
        match rel:
            case Edge():
                return any(self._grows(member.rel, t, u) for member in self._memo.members(rel))
            case Scan():
                return self._loses_nothing(rel.table, t, u)
            case Join(kind="inner" | "semi") | MultiJoin():
                return all(inputs)
            case Join(kind="left" | "anti" | "exists" | "single"):
                return inputs[0] and (
                    self.is_unchanged(rel.right, t, u) or self._partners.none(rel.left, rel.right, rel.on, t, t, u)
                )
            case Aggregate():
                return not rel.aggregates and all(inputs)
            case _:
                return rel.row_by_row and all(inputs)

    def _loses_nothing(self, table: str, t: Time, u: Time) -> bool:
        seen = self._staircase.seen
        return self._tables[table].is_insert_only(seen(table, t), seen(table, u))

    def read(self, scan: Scan, at: Snapshot | Delta) -> Read:
        """The read of a table's arrivals that gives a view of it."""
        seen = partial(self._staircase.seen, scan.table)
        table = self._tables[scan.table]
        if isinstance(at, Snapshot):
            return Read(scan, Snapshot(seen(at.t)), signed=table.is_read_signed(seen(at.t)))
        since, until = seen(at.t), seen(at.u)
        return Read(scan, Delta(since, until), signed=not table.is_insert_only(since, until))

    # --- positivity: of values (facts) and of representations ---

    def has_positive_value(self, view: View) -> bool:
        """Whether the view's weights are certainly positive once it is consolidated."""
        return not isinstance(view.at, Delta) or self.grows(view.tvr, view.at.t, view.at.u)

    def is_positive(self, rel: Rel) -> bool:
        """Whether no entry of the relation, as computed, carries a negative weight."""
        match rel:
            case View():
                return self.has_positive_value(rel)
            case Read():
                return not rel.signed
            case Negate():
                return False
            case Consolidate():
                return rel not in self._netted
            case Support() | Partial():
                return True
            case _:
                others = (i for i, strict in zip(rel.inputs, rel.set_like, strict=True) if not strict)
                return all(map(self.is_positive, others))

    def positive(self, rel: Rel) -> Rel:
        """The relation, consolidated where that is what makes it positive. Its value is known to be positive."""
        return rel if self.is_positive(rel) else Consolidate(rel)

    def netted(self, rel: Rel) -> Rel:
        """The relation without rows that it has and takes away. Its value may have negative weights."""
        if self.is_positive(rel) or isinstance(rel, Consolidate | Support):
            return rel
        made = Consolidate(rel)
        self._netted.add(made)
        return made

    def without_support(self, rel: Rel) -> Rel:
        """A semi, anti or existence join asks only whether a row exists: the support of what is positive anyway is superfluous there."""
        if not (isinstance(rel, Join) and rel.kind in ("semi", "anti", "exists")):
            return rel
        right = rel.right
        while isinstance(right, Support) and self.is_positive(right.input):
            right = right.input
        return rel.with_inputs(rel.left, right)

    def enforce(self, rel: Rel) -> Rel:
        """The operator with its set-like inputs made positive. What may fail for a row is computed for rows that are there: those that were
        inserted and deleted again are taken out first."""
        fails = operator_can_fail(rel)
        if not (fails or any(rel.set_like)):
            return rel
        both = zip(rel.inputs, rel.set_like, strict=True)
        return rel.with_inputs(*(self.positive(i) if strict else self.netted(i) if fails else i for i, strict in both))
