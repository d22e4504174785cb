"""What views of TVRs mean, by definition, over tables whose rows are known at every time. No rule is used.

A table is a list of positive bags, one per time. ``View(tvr, Snapshot(t))`` is the query over the tables at t, ``Delta(t, u)``
the difference of two snapshots, a state the partial aggregate of the input's snapshot or delta. What SQL leaves open is decided by a die,
once for each class and each time at which its tables change: another computation of the same may give another answer, also at the same
time. The rows of an aggregation that has states are those of its state. Parts of Q are any that add up to Q: ``Q.P``, which never loses a
row, are rows that Q has now and at all later times, some of them or none, chosen by checksums; ``Q.N`` are the others. Of parts by table
the unaffected ones are rows that Q has whichever of its versions the table has, the other tables being as they are; again some of them,
by checksums. No rule may rely on more than that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from zlib import crc32

from tempura.algebra.bag import EMPTY, SignedBag, identity
from tempura.algebra.die import FIXED, Die
from tempura.algebra.evaluate import Evaluation, evaluate
from tempura.algebra.rel import Aggregate, Rel, Scan, scans
from tempura.algebra.scalar import Column, Expr
from tempura.algebra.states import Finalize, Partial
from tempura.rules.helpers import is_order_sensitive, states_exist
from tempura.rules.methods import TEMPURA
from tempura.tvr.links import Decomposition, Linked
from tempura.tvr.staircase import TOGETHER, Staircase, Time, whole
from tempura.tvr.tvr import Tvr
from tempura.tvr.views import Delta, Snapshot, State, StateDelta, View, ViewKind

Tables = Mapping[str, list[SignedBag]]
"""Per table its rows at times 0, 1, 2 ..."""


@dataclass(frozen=True)
class Definition:
    """The meaning of views over some tables. Also the facts for a rule's guard, as sharp as they can be: what is so."""

    tables: Tables
    known: dict[tuple[Rel, Time], SignedBag] = field(default_factory=dict)
    staircase: Staircase = TOGETHER
    die: Die = FIXED
    decompositions: tuple[Decomposition, ...] = TEMPURA.decompositions
    _versions: dict[str, tuple["Definition", ...]] = field(default_factory=dict)

    def snapshot(self, tvr: Rel, t: Time) -> SignedBag:
        """The result of a time-free query over the tables as they are seen at t."""
        t = self._since(tvr, t)
        if (tvr, t) not in self.known:
            self.known[tvr, t] = self._computed(tvr, t)
        return self.known[tvr, t]

    def _computed(self, tvr: Rel, t: Time) -> SignedBag:
        if isinstance(tvr, Aggregate) and is_order_sensitive(tvr) and states_exist(tvr.aggregates):
            state = View(tvr, State(t))
            return self.value(Finalize(state, tvr.keys, tvr.aggregates))
        operator = Evaluation(lambda leaf: self._leaf(leaf, t), self.die)
        return operator.operator(tvr, tuple(self.snapshot(input, t) for input in tvr.inputs))

    def _since(self, tvr: Rel, t: Time) -> Time:
        """The first time since which nothing that a query reads has changed."""
        if any(isinstance(rel, Linked) for rel in tvr.walk()):
            return t
        tables = {scan.table for scan in scans(tvr)}
        while isinstance(t, int) and t > 0 and all(self._rows(name, t - 1) == self._rows(name, t) for name in tables):
            t -= 1
        return t

    def _rows(self, table: str, t: Time) -> SignedBag:
        return self.tables[table][self.staircase.seen(table, t)]

    @cached_property
    def times(self) -> range:
        """All times."""
        return range(min(map(len, self.tables.values()), default=1))

    def delta(self, tvr: Rel, t: Time, u: Time) -> SignedBag:
        """What has changed in the result."""
        return self.snapshot(tvr, u) - self.snapshot(tvr, t)

    def view(self, view: Rel) -> SignedBag:
        """The bag that a view denotes."""
        assert isinstance(view, View)
        match view.at:
            case Snapshot(t):
                return self.snapshot(view.tvr, t)
            case Delta(t, u):
                return self.delta(view.tvr, t, u)
            case State(t):
                return self._state(replace(view, at=State(self._since(view.tvr, t))))
            case StateDelta():
                return self._state(view)

    def value(self, rel: Rel, die: Die | None = None) -> SignedBag:
        """The bag that an expression over views denotes."""
        return evaluate(rel, self.view, die or self.die)

    def insert_only(self, tvr: Tvr, t: Time, u: Time) -> bool:
        """Whether nothing is deleted between t and u."""
        return self.delta(tvr.rel, t, u).is_positive

    def points(self, tvr: Tvr, t: Time, u: Time) -> tuple[Time, ...]:
        """Some points between t and u: the times. A law holds whatever changes between two of them."""
        return tuple(range(whole(t) + 1, whole(u)))

    def is_first(self, t: Time) -> bool:
        """Whether t is the first time."""
        return t == 0

    def unchanged(self, tvr: Tvr, t: Time, u: Time) -> bool:
        """Whether the rows at t are the rows at u."""
        return self.snapshot(tvr.rel, t) == self.snapshot(tvr.rel, u)

    def only_grows(self, tvr: Tvr) -> bool:
        """Whether no row is ever lost."""
        return all(self.insert_only(tvr, t, t + 1) for t in self.times[:-1])

    def never_changes(self, tvr: Tvr) -> bool:
        """Whether the rows are the same at all times."""
        return all(self.unchanged(tvr, 0, t) for t in self.times)

    def is_unique(self, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether at no time two rows agree in some columns."""
        places = [tvr.columns.index(column) for column in columns]
        bags = (self.snapshot(tvr.rel, t) for t in self.times)
        counts = (Counter(identity(tuple(row[i] for i in places)) for row in bag.rows()) for bag in bags)
        return all(max(count.values(), default=1) == 1 for count in counts)

    def matches_no_change(self, left: Tvr, right: Tvr, on: Expr, s: Time, t: Time, u: Time) -> bool:
        """Whether no row of ``left`` at s matches a row that ``right`` gets or loses between t and u."""
        changed = right[t:u].support()
        return not self.value(left[:s].semi_join(changed, on).rel)

    def has_partner(self, left: Tvr, right: Tvr, on: Expr) -> bool:
        """Whether at each time every row of ``left``, none of whose columns in a condition is NULL, matches exactly one of ``right``."""
        own = [i for i, column in enumerate(left.columns) if column in on.columns]
        both = ((self.snapshot(left.rel, t), self.snapshot(left.join(right, on).rel, t)) for t in self.times)
        return all(
            Counter(identity(row) for row in rows.rows() if all(row[i] is not None for i in own))
            == Counter(identity(row[: len(left.columns)]) for row in joined.rows())
            for rows, joined in both
        )

    def never_null(self, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether at no time a row has a NULL in some columns."""
        places = [tvr.columns.index(column) for column in columns]
        return not any(row[i] is None for t in self.times for row in self.snapshot(tvr.rel, t).rows() for i in places)

    def shrinks(self, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """A law holds whatever is expected."""
        return True

    def reduces(self, tvr: Tvr, other: Tvr, on: Expr) -> bool:
        """The same."""
        return True

    def is_far_smaller(self, tvr: Tvr, other: Tvr) -> bool:
        """The same."""
        return True

    def has(self, part: Tvr) -> bool:
        """Whether a part has rows at some time."""
        return any(len(self.snapshot(part.rel, t)) for t in self.times)

    def move_apart(self, one: Tvr, other: Tvr, t: Time, u: Time) -> bool:
        """Whether two TVRs read no table that moves in common."""
        return not self.moving(one.rel, t, u) & self.moving(other.rel, t, u)

    def reads(self, tvr: Tvr, table: str) -> bool:
        """Whether a TVR is computed from a table."""
        return any(scan.table == table for scan in scans(tvr.rel))

    def is_seen_without(self, table: str, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether there are the same values in some columns, whichever of its versions the table has."""
        places = [tvr.columns.index(column) for column in columns]

        def seen(world: Definition, t: int) -> set[object]:
            return {identity(tuple(row[i] for i in places)) for row in world.snapshot(tvr.rel, t).rows()}

        return all(seen(world, t) == seen(self, t) for world in self.versions(table) for t in self.times)

    def moving(self, tvr: Rel, t: Time, u: Time) -> frozenset[str]:
        """The tables that a TVR reads and that change from one time to another."""
        read = {scan.table for scan in scans(tvr)}
        return frozenset(name for name in read if self._rows(name, t) != self._rows(name, u))

    def versions(self, table: str) -> tuple["Definition", ...]:
        """The same over tables of which one has the same rows at all times: once with each that it ever has."""
        if table not in self._versions:
            held = (replace(self, staircase=Held(table=table, at=v), known={}, _versions={}) for v in self.times)
            self._versions[table] = tuple(held)
        return self._versions[table]

    def _leaf(self, leaf: Rel, t: Time) -> SignedBag:
        if isinstance(leaf, Linked):
            return self._part(leaf, whole(t))
        assert isinstance(leaf, Scan)
        return self._rows(leaf.table, t)

    def _state(self, view: View) -> SignedBag:
        """The state of an aggregation: the partial aggregate of one view of its input."""
        if (view, 0) not in self.known:
            self.known[view, 0] = self.value(self.definition_of(view))
        return self.known[view, 0]

    def definition_of(self, view: View) -> Rel:
        """The operator that a view is of, over views of its inputs. Of a difference of snapshots the later one."""
        match view.at:
            case Snapshot(t) | Delta(_, t):
                return view.tvr.with_inputs(*(View(input, Snapshot(t)) for input in view.tvr.inputs))
            case State(t):
                at: ViewKind = Snapshot(t)
            case StateDelta(t, u):
                at = Delta(t, u)
        assert isinstance(view.tvr, Aggregate)
        return Partial(View(view.tvr.input, at), view.tvr.keys, view.tvr.aggregates)

    def _part(self, part: Linked, t: int) -> SignedBag:
        """The rows of a part: of one that grows, some of those that stay; of another, some of those that are left then, which may be
        others at another time."""
        parts = decomposition_of(self.decompositions, part.kind).parts
        promised = [p.name for p in parts if p.grows or p.unaffected]
        others = [p.name for p in parts if p.name not in promised]
        if not promised:
            stays = EMPTY
        elif part.table is None:
            stays = self._stays([self.snapshot(part.rel, u) for u in self.times[t:]], part.rel)
        else:
            stays = self._unaffected(part.rel, part.table, t)
        if part.kind in promised:
            return SignedBag((row, w) for row, w in stays.items() if promised[_mark(row) % len(promised)] == part.kind)
        everything, since = self.snapshot(part.rel, t), self._since(part.rel, t)
        copies = ((row, i) for row, weight in (everything - stays).items() for i in range(weight))
        return SignedBag((row, 1) for row, i in copies if others[_mark((row, since, i)) % len(others)] == part.kind)

    def _unaffected(self, tvr: Rel, table: str, t: int) -> SignedBag:
        """Rows that are there whatever a table has. None where another computation may give others."""
        if any(map(is_order_sensitive, tvr.walk())):
            return EMPTY
        return self._stays([world.snapshot(tvr, t) for world in self.versions(table)], tvr)

    def _stays(self, bags: Sequence[SignedBag], tvr: Rel) -> SignedBag:
        """Some of the rows that are in all of several bags."""
        if _mark(tvr) % 3 == 0:
            return EMPTY
        chosen = (row for row, _ in bags[0].items() if _mark(row) % 4)
        return SignedBag((row, min(bag.weight(row) for bag in bags)) for row in chosen)


@dataclass(frozen=True)
class Held(Staircase):
    """All tables move together, but for one that stays at a time."""

    table: str = ""
    at: int = 0

    def seen(self, table: str, t: Time) -> int:
        """The time at which a table is seen."""
        return self.at if table == self.table else whole(t)


def decomposition_of(known: Iterable[Decomposition], kind: str) -> Decomposition:
    """The decomposition to which a kind of link belongs. Raises KeyError."""
    for decomposition in known:
        if any(part.name == kind for part in decomposition.parts):
            return decomposition
    raise KeyError(kind)


def _mark(value: object) -> int:
    return crc32(repr(value).encode())
