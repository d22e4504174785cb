"""Which columns are equal because others are."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, scans
from tempura.algebra.scalar import Call, Column, Expr, Ref, conjuncts, equal

Pair = tuple[Column, Column]


def equated(part: Expr) -> Pair | None:
    """The two columns that a condition says are equal, and nothing else. They are of one type: then equality is transitive."""
    match part:
        case Call("EqualTo", (Ref(left), Ref(right))) if left != right and left.type == right.type:
            return left, right
    return None


def classes(pairs: Iterable[Pair]) -> list[frozenset[Column]]:
    """The columns that are equal to each other where the columns of each pair are."""
    found: list[frozenset[Column]] = []
    for pair in pairs:
        met = [one for one in found if not one.isdisjoint(pair)]
        found = [one for one in found if one not in met] + [frozenset(pair).union(*met)]
    return found


def are_joined(pair: Pair, pairs: Sequence[Pair]) -> bool:
    """Whether two columns are equal where the columns of each pair are."""
    return any(one.issuperset(pair) for one in classes(pairs))


def implied(parts: Sequence[Expr], apart: Sequence[frozenset[Column]]) -> Iterator[Expr]:
    """The equalities of two columns that follow from conditions that hold together, and are none of them: of columns that are not in the
    same of the sets ``apart``."""
    pairs = [pair for part in parts if (pair := equated(part))]
    written = set(map(frozenset, pairs))
    of = {column: n for n, columns in enumerate(apart) for column in columns}
    order = {column: n for n, column in enumerate(dict.fromkeys(column for pair in pairs for column in pair))}
    for one in classes(pairs):
        for left, right in combinations(sorted(one, key=order.__getitem__), 2):
            if of.get(left) != of.get(right) and frozenset((left, right)) not in written:
                yield equal(Ref(left), Ref(right))


def compared_together(query: Rel) -> set[tuple[str, frozenset[str]]]:
    """The tables of a query with fields of theirs, two or more, that it compares with those of one other row: by which it joins two uses of
    tables."""
    of = _fields(query)
    found = defaultdict[tuple[Scan, Scan], set[str]](set)
    for pair in filter(None, map(equated, _conditions(query))):
        if of.keys() >= set(pair):
            (scan, field), (other, other_field) = (of[column] for column in pair)
            if scan != other:
                found[scan, other].add(field)
                found[other, scan].add(other_field)
    return {(scan.table, frozenset(fields)) for (scan, _), fields in found.items() if len(fields) > 1}


def grouped_together(query: Rel) -> set[tuple[str, frozenset[str]]]:
    """The tables of a query with fields of theirs, two or more, that are all the keys of a grouping."""
    of = {column: (scan.table, field) for column, (scan, field) in _fields(query).items()}
    groupings = [rel for rel in query.walk() if isinstance(rel, Aggregate)]
    named = [*(o for rel in query.walk() if isinstance(rel, Project) for o in rel.outputs)]
    named += [key for rel in groupings for key in rel.keys]
    # A column that keeps its name is the same without being another.
    same = {o.column: o.expr.column for o in named if isinstance(o.expr, Ref) and o.expr.column != o.column}

    def read(column: Column) -> tuple[str, str] | None:
        while column not in of and column in same:
            column = same[column]
        return of.get(column)

    found = set[tuple[str, frozenset[str]]]()
    for grouping in groupings:
        keys = [read(key.column) for key in grouping.keys]
        tables, fields = {key[0] for key in keys if key}, frozenset(key[1] for key in keys if key)
        if None not in keys and len(tables) == 1 and len(fields) > 1:
            found.add((tables.pop(), fields))
    return found


def known_together(query: Rel) -> set[tuple[str, frozenset[str]]]:
    """The tables of a query with fields of theirs of which it matters how many values they have together."""
    return compared_together(query) | grouped_together(query)


def _fields(query: Rel) -> dict[Column, tuple[Scan, str]]:
    """The columns of a query that are fields of tables as they are read."""
    return {
        column: (scan, field) for scan in scans(query) for column, field in zip(scan.outputs, scan.fields, strict=True)
    }


def _conditions(query: Rel) -> Iterator[Expr]:
    for rel in query.walk():
        if isinstance(rel, Filter | Join):
            yield from conjuncts(rel.predicate if isinstance(rel, Filter) else rel.on)
