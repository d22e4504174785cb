"""The What layer of the search: an e-graph whose classes are time-varying relations.

A class holds operators over classes (*members*) that are equal **at all times**; what is equal at one time only, such as two
relations that are both empty, stays apart. A class owns its columns, and operators are recognised whatever their columns are
called, and wherever those operands stand that may change places: all scans of the same columns of a table, both uses of a CTE and
both sides of a self-join are one class each, reached by edges that name its columns. To find two classes equal merges them, and
every two operators that only differed in them (congruence closure with deferred rebuilding: Willsey et al., POPL 2021).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from tempura.algebra.canonical import fingerprint, meaning_text
from tempura.algebra.rel import Rel, renamed
from tempura.algebra.scalar import Column
from tempura.memo.edge import Edge
from tempura.memo.events import ClassCreated, ClassesMerged, Listener, ignore
from tempura.tvr.views import short_name

Key = tuple[int, ...]
"""An operator's number (see ``Memo._operators``), then the classes of its inputs."""


@dataclass(slots=True, eq=False)
class Member:
    """An operator over classes. ``rule`` made it of another member, ``source``; a part of a query was given, without rule."""

    rel: Rel
    key: Key
    home: int
    rule: str = ""
    source: "Member | None" = None

    def __str__(self) -> str:
        inputs = ", ".join(f"c{id}" for id in self.key[1:])
        return f"{self.rel.label} ({inputs})" if inputs else self.rel.label


@dataclass(slots=True, eq=False)
class _Class:
    """``users`` are the operators over the class. ``size`` counts the operators of the smallest tree, whose root is ``smallest``; that
    it has no circle follows from sizes growing upward."""

    columns: tuple[Column, ...]
    name: str
    members: list[Member] = field(default_factory=list)
    users: dict[Member, None] = field(default_factory=dict)
    size: float = inf
    smallest: Member | None = None


class Memo:
    """Classes of equal expressions. ``listener`` is told of each new class and merger."""

    def __init__(self, listener: Listener = ignore) -> None:
        self._listener = listener
        self._parent: list[int] = []
        self._classes: dict[int, _Class] = {}
        self._operators: dict[str, int] = {}
        self._members: dict[Key, Member] = {}
        self._known: dict[Rel, Edge] = {}
        self._edges: dict[int, Edge] = {}
        self._dirty: dict[int, None] = {}
        self._fingerprints: dict[Rel, str] = {}
        self.made: list[Member] = []
        """All members in the order in which they were made, also those that became the same as another."""

    # --- expressions into classes ---

    def add(self, rel: Rel, rule: str = "", source: Member | None = None) -> Edge:
        """The class of a time-free expression, as an edge that has the expression's columns. ``rule`` and ``source`` say where its
        operators come from, if they are new. Raises TempuraError ``NOT_CANONICAL`` for what is bound to a time."""
        if isinstance(rel, Edge):
            return self.find(rel)
        if rel not in self._known:
            inputs = (self.add(input, rule, source) for input in rel.inputs)
            home = self._member(rel.with_inputs(*inputs), rule, source).home
            self._known[rel] = Edge(home, rel.columns, self._class(home).name)
        return self.find(self._known[rel])

    def operator(self, rel: Rel) -> Rel:
        """The member that stands for an operator: it has the same inputs, and parameters that mean the same."""
        return self._member(rel.with_inputs(*map(self.add, rel.inputs))).rel

    def _member(self, rel: Rel, rule: str = "", source: Member | None = None) -> Member:
        number = self._operators.setdefault(meaning_text(rel), len(self._operators))
        key = (number, *_ids(rel))
        if key not in self._members:
            id = len(self._parent)
            self._parent.append(id)
            self._classes[id] = _Class(rel.columns, short_name(rel))
            self._enlist(Member(rel, key, id, rule, source))
            self._listener(ClassCreated(id, str(self._members[key]), rule))
        return self._members[key]

    def _enlist(self, member: Member) -> None:
        self._members[member.key] = member
        self.made.append(member)
        self._class(member.home).members.append(member)
        for id in member.key[1:]:
            self._class(id).users[member] = None
        self._weigh(member.home)

    # --- equality ---

    def merge(self, a: Edge, b: Edge, rule: str = "") -> bool:
        """Two expressions are equal at all times, column by column. The class that was there first keeps its columns. Call
        :meth:`rebuild` before the next question. Returns whether that was news. Raises ValueError when the types of the columns
        differ."""
        kept, gone = sorted((self._root(a.id), self._root(b.id)))
        if kept == gone:
            return False
        if [c.type for c in a.columns] != [c.type for c in b.columns]:
            raise ValueError(f"{a} and {b} have different columns, so they are not equal")
        self._parent[gone] = kept
        self._absorb(self._classes[kept], self._classes.pop(gone), kept)
        self._dirty[kept] = None
        self._fingerprints.clear()
        self._listener(ClassesMerged(kept, gone, rule))
        return True

    def _absorb(self, kept: _Class, gone: _Class, id: int) -> None:
        for member in gone.members:
            member.home = id
        kept.members += gone.members
        kept.users.update(gone.users)
        if gone.size < kept.size:
            kept.size, kept.smallest = gone.size, gone.smallest

    def rebuild(self) -> None:
        """Restore congruence after mergers: equal operators over equal classes are equal."""
        while self._dirty:
            dirty = dict.fromkeys(map(self._root, self._dirty))
            self._dirty.clear()
            for id in dirty:
                for member in tuple(self._class(id).users):
                    self._repair(member)
                self._weigh_users(id)

    def _repair(self, member: Member) -> None:
        if self._members.get(member.key) is member:
            del self._members[member.key]
        member.rel = member.rel.with_inputs(*map(self.add, member.rel.inputs))
        member.key = (member.key[0], *_ids(member.rel))
        twin = self._members.setdefault(member.key, member)
        if twin is not member:
            self._dismiss(member, twin)

    def _dismiss(self, member: Member, twin: Member) -> None:
        """Two members have become the same: so are their classes, and one of them goes."""
        self.merge(self._own(member.home), self._own(twin.home), "congruence")
        home = self._class(twin.home)
        home.members = [m for m in home.members if m is not member]
        home.smallest = twin if home.smallest is member else home.smallest
        for id in member.key[1:]:
            self._class(id).users.pop(member, None)

    def retire(self, member: Member) -> None:
        """A member need not compute its class any more, as others do. Who writes it still finds its class; and it goes on to name and to
        describe that, if it was the smallest."""
        home = self._class(member.home)
        if len(home.members) > 1:
            home.members = [m for m in home.members if m is not member]

    # --- representatives ---

    def _weigh(self, id: int) -> None:
        """See whether a class has a smaller tree now, and if so, whether its users have."""
        known = self._class(id)
        best = min(known.members, key=self._size)
        if self._size(best) < known.size:
            known.size, known.smallest = self._size(best), best
            self._weigh_users(id)

    def _weigh_users(self, id: int) -> None:
        for user in tuple(self._class(id).users):
            self._weigh(user.home)

    def _size(self, member: Member) -> float:
        return 1 + sum(self._class(id).size for id in member.key[1:])

    def representative(self, edge: Rel) -> Rel:
        """The root of the smallest tree of a class, for estimates, fingerprints and names; what is no class is returned as it is.
        Its columns are the class's, by position."""
        if not isinstance(edge, Edge):
            return edge
        smallest = self._class(edge.id).smallest
        assert smallest is not None, "every class has a member"
        return smallest.rel

    def tree(self, rel: Rel) -> Rel:
        """An expression over classes with their smallest trees in place: one without edges."""
        if isinstance(rel, Edge):
            return renamed(self.tree(self.representative(rel)), rel.columns)
        return rel.with_inputs(*map(self.tree, rel.inputs))

    def fingerprint(self, rel: Rel) -> str:
        """The fingerprint of the smallest tree of a class, or of an operator over classes."""
        if rel not in self._fingerprints:
            self._fingerprints[rel] = fingerprint(rel, self.representative)
        return self._fingerprints[rel]

    # --- questions ---

    def _root(self, id: int) -> int:
        while self._parent[id] != id:
            self._parent[id] = id = self._parent[self._parent[id]]
        return id

    def _class(self, id: int) -> _Class:
        return self._classes[self._root(id)]

    def _own(self, id: int) -> Edge:
        root = self._root(id)
        if root not in self._edges:
            self._edges[root] = Edge(root, self._classes[root].columns, self._classes[root].name)
        return self._edges[root]

    def find(self, edge: Edge) -> Edge:
        """The same use, of the class as it is known now."""
        root = self._root(edge.id)
        return edge if root == edge.id else Edge(root, edge.outputs, edge.name)

    def own(self, edge: Edge) -> Edge:
        """The class under its own columns."""
        return self._own(edge.id)

    def members(self, edge: Edge) -> tuple[Member, ...]:
        """The operators that compute a class, each with its columns in order, whatever it calls them."""
        return tuple(self._class(edge.id).members)

    def users(self, edge: Edge) -> tuple[Member, ...]:
        """The operators over a class."""
        return tuple(self._class(edge.id).users)

    @property
    def classes(self) -> tuple[Edge, ...]:
        """All classes, the oldest first."""
        return tuple(map(self._own, self._classes))

    def known(self) -> Iterator[tuple[int, tuple[Member, ...]]]:
        """The numbers of the classes, and their members."""
        return ((id, tuple(known.members)) for id, known in self._classes.items())

    def __str__(self) -> str:
        return "\n".join(f"c{id}  {' | '.join(map(str, known.members))}" for id, known in self._classes.items())


class AnyMember:
    """Proves of classes what is so of all rows that any of their members computes. While it is asked, a class proves nothing of the same
    columns by itself."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo
        self._asked: set[tuple[int, tuple[int, ...]]] = set()

    def proves(self, edge: Edge, columns: Iterable[Column], holds: Callable[[Rel, tuple[Column, ...]], bool]) -> bool:
        """Whether something ``holds`` of a member and what it calls some columns of the class."""
        places = tuple(map(edge.columns.index, columns))
        asked = (edge.id, places)
        if asked in self._asked:
            return False
        self._asked.add(asked)
        rels = [member.rel for member in self._memo.members(edge)]
        found = any(holds(rel, tuple(rel.columns[i] for i in places)) for rel in rels)
        self._asked.discard(asked)
        return found


def _ids(rel: Rel) -> Iterator[int]:
    for edge in rel.inputs:
        assert isinstance(edge, Edge)
        yield edge.id
