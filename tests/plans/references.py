"""Random tables that refer to one another, over time, and random queries that join them by their references.

At each time every row has its partner: rows come with new partners or after them, go before them or with them; rows that are referred to
change in other columns; keys are given again to other rows once nobody refers to them, also between two times.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan
from tempura.algebra.scalar import Call, Column, Expr, Output, Ref, conjunction, equal
from tempura.cost.stats import TableFacts
from tempura.memo.references import NO_KEYS, Keys, Reference
from tests.plans.random_queries import JOINS, QueryGenerator, Row, Table

FIELDS = ("x", "y", "z")
UNIQUE: Mapping[str, tuple[str, ...]] = {"c": ("x",), "o": ("x",), "p": ("y", "x"), "l": ()}
REFERENCES: Mapping[str, tuple[Reference, ...]] = {
    "c": (),
    "o": (Reference(("y",), "c", ("x",)),),
    "p": (Reference(("x",), "c", ("x",)),),
    "l": (Reference(("x",), "o", ("x",)), Reference(("y", "z"), "p", ("x", "y"))),
}
"""Orders of customers; lines of orders, which refer to a pair of columns as well."""

STYLES = ("grows", "grows", "mixed", "mixed", "shrinks", "static")


@dataclass(frozen=True)
class Referring(Table):
    """A table with keys."""

    keys: Keys = NO_KEYS

    def facts(self, known: int) -> TableFacts:
        """As far as it is known, no column is NULL, or some are."""
        rows = [row for t in range(known) for row in self.snapshot(t).rows()]
        references = tuple(
            replace(r, total=all(row[FIELDS.index(c)] is not None for row in rows for c in r.columns))
            for r in self.keys.references
        )
        return replace(super().facts(known), keys=replace(self.keys, references=references))


def random_tables(random: Random, times: int, styles: tuple[str, ...] = STYLES) -> dict[str, Referring]:
    """Tables that keep their promises at each time."""
    style = {name: random.choice(styles) for name in REFERENCES}
    nulls = random.choice((0.0, 0.2))
    history = [_repaired({name: [] for name in REFERENCES}, {n: _rows(random, 5, nulls) for n in REFERENCES}, {})]
    while len(history) < times:
        now = history[-1]
        history.append(_repaired(now, {n: _moved(random, now[n], style[n], nulls) for n in REFERENCES}, style))
    return {name: _table(name, [rows[name] for rows in history], style[name] == "static") for name in REFERENCES}


def _table(name: str, history: list[list[Row]], static: bool) -> Referring:
    bags = [SignedBag(), *map(SignedBag.of, history)]
    arrivals = tuple(after - before for before, after in pairwise(bags))
    return Referring(name, arrivals, static, Keys(UNIQUE[name], REFERENCES[name]))


def _rows(random: Random, most: int, nulls: float) -> list[Row]:
    def value() -> int | None:
        return None if random.random() < nulls else random.randrange(5)

    return [(value(), value(), value()) for _ in range(random.choice((0, 2, most)))]


def _moved(random: Random, rows: list[Row], style: str, nulls: float) -> list[Row]:
    if style == "static":
        return rows
    stay = [row for row in rows if style == "grows" or random.random() < 0.6]
    gone = [row for row in rows if row not in stay]
    updated = [(row[0], row[1], random.randrange(5)) for row in gone if random.random() < 0.5]
    return stay + ([] if style == "shrinks" else updated + _rows(random, 4, nulls))


def _repaired(
    before: dict[str, list[Row]], after: dict[str, list[Row]], style: Mapping[str, str]
) -> dict[str, list[Row]]:
    """The rows after, without what would break a promise: new rows first, then old ones; where a table loses none, its partners stay. Where
    that leads in a circle, nothing happens."""
    for _ in range(100):
        wrong = next(((n, row, lost) for n in REFERENCES for row, lost in _wrong(n, after)), None)
        if wrong is None:
            return after
        name, row, lost = wrong
        if lost is None or after[name].count(row) > before[name].count(row):
            after[name].remove(row)
        elif style.get(name) in ("mixed", "shrinks"):
            after[name] = [other for other in after[name] if other != row]
        else:
            table, key = lost
            found = [other for other in before[table] if _values(other, key[0]) == key[1]]
            taken = [other for other in after[table] if _values(other, key[0]) == key[1]]
            after[table] = [other for other in after[table] if other not in taken] + found
    return before


Lost = tuple[str, tuple[tuple[str, ...], Row]]


def _wrong(name: str, rows: dict[str, list[Row]]) -> list[tuple[Row, Lost | None]]:
    """Rows whose key another has, the last first; rows without a partner, and which."""
    key = UNIQUE[name]
    found: list[tuple[Row, Lost | None]] = []
    if key:
        keys = [_values(row, key) for row in rows[name]]
        found += [(row, None) for i, row in reversed(list(enumerate(rows[name]))) if keys[i] in keys[:i]]
    for r in REFERENCES[name]:
        there = {_values(row, r.key) for row in rows[r.table]}
        wanted = ((row, _values(row, r.columns)) for row in rows[name])
        found += [(row, (r.table, (r.key, v))) for row, v in wanted if None not in v and v not in there]
    return found


def _values(row: Row, fields: tuple[str, ...]) -> Row:
    return tuple(row[FIELDS.index(field)] for field in fields)


class ReferringQueries(QueryGenerator):
    """Random queries whose joins are by a reference, mostly."""

    def any(self, number: int) -> Rel:
        """By turns of all kinds."""
        return (self.chain, self.partners, lambda: self.join(1), lambda: self.join(2))[number % 4]()

    def join(self, depth: int) -> Rel:
        left, right = self.query(depth), self.query(self.random.randrange(depth + 1))
        on = self.reference(left, right)
        if on is None or self.random.random() < 0.1:
            return super().join(depth)
        if self.random.random() < 0.2:
            on = conjunction(on, self.predicate(right))
        kind = self.random.choice(JOINS)
        marker = self.column("boolean") if kind == "exists" else None
        joined = Join(left, right, kind, on, marker)
        if self.random.random() < 0.5 or kind not in ("inner", "left"):
            return joined
        some = self.random.choice((left, left, right))
        return Project(joined, tuple(self._key(some) for _ in range(2)))

    def chain(self) -> Rel:
        """Lines with their orders, these with their customers, perhaps filtered, joined in some order; and perhaps grouped."""
        lines, orders, customers = (self._some(table) for table in ("l", "o", "c"))
        inner = (lines, orders) if self.random.random() < 0.5 else (orders, customers)
        other = customers if lines in inner else lines
        first = self._joined(inner)
        whole = self._joined((first, other) if self.random.random() < 0.5 else (other, first))
        grouped = (self._key(self.random.choice((lines, orders, customers))),)
        return Aggregate(whole, grouped, (self._aggregate(whole),)) if self.random.random() < 0.6 else whole

    def partners(self) -> Rel:
        """Some rows with all of their partners, of which nothing is read but keys, perhaps."""
        rows, partners = self._some("l"), Scan("o", FIELDS, tuple(self.column() for _ in FIELDS))
        kinds: tuple[JoinKind, ...] = ("inner", "inner", "left", "left", "semi", "anti")
        kind = self.random.choice(kinds)
        swapped = kind == "inner" and self.random.random() < 0.5
        joined = self._joined((partners, rows) if swapped else (rows, partners), kind)
        if kind in ("semi", "anti") or self.random.random() < 0.3:
            return joined
        key = Output(self.column(), Ref(partners.columns[0] if kind == "inner" else rows.columns[1]))
        return Project(joined, (self._key(rows), key))

    def _joined(self, sides: tuple[Rel, Rel], kind: JoinKind = "inner") -> Rel:
        return Join(sides[0], sides[1], kind, self._on(*sides))

    def _some(self, table: str) -> Rel:
        scan = Scan(table, FIELDS, tuple(self.column() for _ in FIELDS))
        return Filter(scan, self.predicate(scan)) if self.random.random() < 0.3 else scan

    def _on(self, left: Rel, right: Rel) -> Expr:
        on = self.reference(left, right)
        assert on is not None
        return on

    def reference(self, left: Rel, right: Rel) -> Expr | None:
        """A condition that asks for the partner of a row, of whichever side refers to the other."""
        found = [(a, b) for pair in ((left, right), (right, left)) for a, b in self._references(*pair)]
        if not found:
            return None
        columns, keys = self.random.choice(found)
        return conjunction(*(equal(Ref(a), Ref(b)) for a, b in zip(columns, keys, strict=True)))

    def _references(self, rows: Rel, partners: Rel) -> list[tuple[list[Column], list[Column]]]:
        found = []
        for name, references in REFERENCES.items():
            for r in references:
                columns = [self._column(rows, name, field) for field in r.columns]
                keys = [self._column(partners, r.table, field) for field in r.key]
                if all(columns) and all(keys):
                    found.append(([c for c in columns if c], [k for k in keys if k]))
        return found

    def _column(self, rel: Rel, table: str, field: str) -> Column | None:
        known = [column for column in rel.columns if (table, field) == origin(rel, column)]
        return self.random.choice(known) if known else None


def origin(rel: Rel, column: Column) -> tuple[str, str] | None:
    """The table and the field from which a column comes."""
    match rel:
        case Scan():
            return rel.table, rel.fields[rel.columns.index(column)]
        case Project() | Aggregate():
            outputs = rel.outputs if isinstance(rel, Project) else rel.keys
            value = next((o.expr for o in outputs if o.column == column), None)
            return origin(rel.input, value.column) if isinstance(value, Ref) else None
        case Filter() | Join():
            side = next((side for side in rel.inputs if column in side.columns), None)
            return origin(side, column) if side is not None else None
    return None


def null_safe(on: Expr) -> Expr:
    """A condition by which NULL is equal to NULL."""
    match on:
        case Call("EqualTo", operands):
            return Call("EqualNullSafe", operands, "boolean")
        case Call(function, operands):
            return Call(function, tuple(map(null_safe, operands)), on.type)
    return on
