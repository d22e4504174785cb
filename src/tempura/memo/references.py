"""Keys and references of tables as facts about classes: which columns have values that are keys of a table, and which classes have all of
these. Any member of a class proves it.

That a table has no two rows of one key is so whenever that table is looked at. That a row has its partner is so whenever *both* tables
are seen at the same time, and says nothing of rows of different times (``search.partners`` does, with what is known of their changes).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, Sort, TopK, Union
from tempura.algebra.scalar import Call, Column, Expr, Literal, Output, Ref, conjuncts
from tempura.algebra.window import Window
from tempura.memo.edge import Edge
from tempura.memo.memo import AnyMember, Memo
from tempura.memo.unique import Unique
from tempura.tvr.tvr import Tvr


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: each row of which none of the ``columns`` is NULL has exactly one partner, the row of ``table`` that has these values
    as its ``key``, column by column. ``total``: none of the columns is NULL in any row."""

    columns: tuple[str, ...]
    table: str
    key: tuple[str, ...]
    total: bool = False


@dataclass(frozen=True, slots=True)
class Keys:
    """What is certain of a table's keys: no two rows agree in the columns ``unique`` (none are named: nothing is known), NULL being equal
    to NULL; and its ``references``."""

    unique: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()


NO_KEYS = Keys()


@dataclass(frozen=True, slots=True)
class Inclusion:
    """The values of some columns of a row, if none of them is NULL, are a ``key`` of ``table``, column by column: of that table as it is
    when the ``origins``, the tables from which the values come, are as they are."""

    origins: frozenset[str]
    table: str
    key: tuple[str, ...]


Pairs = tuple[tuple[Column, Column], ...]


def equated(on: Expr, left: Sequence[Column], right: Sequence[Column]) -> Pairs:
    """The columns of two relations of which a condition asks that they are equal; NULL is equal to nothing."""
    found = (_sides(part, frozenset(left), frozenset(right)) for part in conjuncts(on))
    return tuple(dict.fromkeys(pair for pair in found if pair))


def _sides(part: Expr, left: frozenset[Column], right: frozenset[Column]) -> tuple[Column, Column] | None:
    match part:
        case Call("EqualTo", (Ref(a), Ref(b))) if a in left and b in right:
            return a, b
        case Call("EqualTo", (Ref(a), Ref(b))) if b in left and a in right:
            return b, a
    return None


class References:
    """Implements ``rules.dsl.Promised``. ``keys`` are those of the tables by their names; without any, nothing is found."""

    def __init__(self, memo: Memo, keys: Mapping[str, Keys]) -> None:
        self._memo = memo
        self._keys = {name: of for name, of in keys.items() if of != NO_KEYS}
        self._unique = Unique(memo, {name: of.unique for name, of in self._keys.items()})
        self._widest = max((len(r.key) for of in self._keys.values() for r in of.references), default=0)
        self._included: dict[tuple[int, tuple[int, ...]], frozenset[Inclusion]] = {}
        self._any_member = AnyMember(memo)
        self._seen = 0

    # --- questions of rules -------------------------------------------------------------------------------------------

    def has_partner(self, left: Tvr, right: Tvr, on: Expr) -> bool:
        """Whether each row of ``left``, none of whose columns in a condition is NULL, matches exactly one of ``right``, whenever all tables
        are seen at the same time."""
        pairs = equated(on, left.columns, right.columns)
        if not pairs or len(pairs) != len(conjuncts(on)) or not self._keys:
            return False
        own, others = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
        found = any(self.covers(right.rel, others, i) for i in self.included(left.rel, own))
        return found and self._unique.is_unique(right, others)

    def never_null(self, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether some columns have no NULL."""
        return all(self._never_null(tvr.rel, column) for column in columns)

    # --- what columns have --------------------------------------------------------------------------------------------

    def pairs(self, on: Expr, left: Sequence[Column], right: Sequence[Column]) -> Iterator[Pairs]:
        """The columns that a condition equates, and each part of them that may be a key."""
        found = equated(on, left, right) if self._widest else ()
        return (chosen for size in range(1, self._widest + 1) for chosen in combinations(found, size))

    def included(self, rel: Rel, columns: tuple[Column, ...]) -> frozenset[Inclusion]:
        """Of which tables the values of some columns are keys, column by column."""
        if not self._keys:
            return frozenset()
        match rel:
            case Edge():
                return self._of_class(rel, columns)
            case Scan():
                return frozenset(self._of_table(rel, columns))
            case Project():
                named = _named(rel.outputs, columns)
                return self.included(rel.input, named) if named else frozenset()
            case Aggregate():
                named = _named(rel.keys, columns)
                return self.included(rel.input, named) if named else frozenset()
            case Expand():
                return self._of_all([self._of_projection(rel.input, p, columns) for p in rel.projections])
            case Union():
                places = [rel.columns.index(column) for column in columns]
                return self._of_all([self.included(term, tuple(term.columns[i] for i in places)) for term in rel.terms])
            case Filter() | Sort() | TopK() | Join() | Window() | Generate() | One():
                sides = (side for side in rel.inputs if set(columns) <= set(side.columns))
                return frozenset().union(*(self.included(side, columns) for side in sides))
        return frozenset()

    def _of_class(self, edge: Edge, columns: tuple[Column, ...]) -> frozenset[Inclusion]:
        if len(self._memo.made) != self._seen:
            self._seen, self._included = len(self._memo.made), {}
        places = tuple(edge.columns.index(column) for column in columns)
        key = (self._memo.find(edge).id, places)
        if key not in self._included:
            self._included[key] = frozenset()  # a class proves nothing by itself
            rels = [member.rel for member in self._memo.members(edge)]
            found = (self.included(rel, tuple(rel.columns[i] for i in places)) for rel in rels)
            self._included[key] = frozenset().union(*found)
        return self._included[key]

    def _of_table(self, scan: Scan, columns: tuple[Column, ...]) -> Iterator[Inclusion]:
        names, known = fields_of(scan, columns), self._keys.get(scan.table, NO_KEYS)
        for reference in known.references:
            if len(names) == len(reference.columns) and set(names) == set(reference.columns):
                key = dict(zip(reference.columns, reference.key, strict=True))
                yield Inclusion(frozenset((scan.table,)), reference.table, tuple(key[name] for name in names))
        if len(names) == len(known.unique) and set(names) == set(known.unique):
            yield Inclusion(frozenset((scan.table,)), scan.table, names)

    def _of_projection(
        self, input: Rel, outputs: tuple[Output, ...], columns: tuple[Column, ...]
    ) -> frozenset[Inclusion] | None:
        """None where a column is NULL: of such rows nothing is said."""
        values = {output.column: output.expr for output in outputs}
        if any(isinstance(e, Literal) and e.value is None for c in columns if (e := values[c])):
            return None
        named = _named(outputs, columns)
        return self.included(input, named) if named else frozenset()

    def _of_all(self, parts: Sequence[frozenset[Inclusion] | None]) -> frozenset[Inclusion]:
        """What is so of the rows of every part, from wherever they come."""
        known = [part for part in parts if part is not None]
        found: frozenset[Inclusion] = known[0] if known else frozenset()
        for part in known[1:]:
            both = ((a, b) for a in found for b in part if (a.table, a.key) == (b.table, b.key))
            found = frozenset(Inclusion(a.origins | b.origins, a.table, a.key) for a, b in both)
        return found

    # --- what rows there are ------------------------------------------------------------------------------------------

    def covers(self, rel: Rel, columns: tuple[Column, ...], wanted: Inclusion) -> bool:
        """Whether every key of a table, as ``wanted`` names its columns, is the value of some columns of a row."""
        match rel:
            case Edge():
                return self._any_member.proves(rel, columns, lambda own, of: self.covers(own, of, wanted))
            case Scan():
                whole = set(wanted.key) == set(self._keys.get(rel.table, NO_KEYS).unique)
                return whole and rel.table == wanted.table and fields_of(rel, columns) == wanted.key
            case Project():
                named = _named(rel.outputs, columns)
                return bool(named) and self.covers(rel.input, named, wanted)
            case Sort() | Window() | Join(kind="left" | "single" | "exists"):
                side = rel.inputs[0]
                return set(columns) <= set(side.columns) and self.covers(side, columns, wanted)
        return False

    def _never_null(self, rel: Rel, column: Column) -> bool:
        match rel:
            case Edge():
                return self._any_member.proves(rel, (column,), lambda own, of: self._never_null(own, *of))
            case Scan():
                (name,), known = fields_of(rel, (column,)), self._keys.get(rel.table, NO_KEYS)
                return any(reference.total and name in reference.columns for reference in known.references)
            case Filter():
                asked = any(part == _present(column) for part in conjuncts(rel.predicate))
                return asked or self._never_null(rel.input, column)
            case Project() | Aggregate():
                named = _named(rel.outputs if isinstance(rel, Project) else rel.keys, (column,))
                return bool(named) and self._never_null(rel.input, named[0])
            case Union():
                place = rel.columns.index(column)
                return all(self._never_null(term, term.columns[place]) for term in rel.terms)
            case Join(kind="inner") if any(
                column in pair for pair in equated(rel.on, rel.left.columns, rel.right.columns)
            ):
                return True
            case Sort() | TopK() | Window() | Join(kind="inner" | "left" | "single" | "semi" | "anti" | "exists"):
                kept = rel.inputs if isinstance(rel, Join) and rel.kind == "inner" else rel.inputs[:1]
                return any(column in side.columns and self._never_null(side, column) for side in kept)
        return False


def fields_of(scan: Scan, columns: tuple[Column, ...]) -> tuple[str, ...]:
    """What a table calls some columns of a scan."""
    return tuple(scan.fields[scan.columns.index(column)] for column in columns)


def _present(column: Column) -> Call:
    return Call("IsNotNull", (Ref(column),), "boolean")


def _named(outputs: tuple[Output, ...], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """What columns are called below outputs that only rename them; none where one of them is computed."""
    values = {output.column: output.expr for output in outputs}
    named = tuple(e.column for c in columns if isinstance(e := values.get(c), Ref))
    return named if len(named) == len(columns) else ()
