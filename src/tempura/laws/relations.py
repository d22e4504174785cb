"""Random tables over three times, and relations and metavariables over them, for laws.

Rows repeat, are deleted, updated and NULL; tables are empty, static or only grow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tempura.algebra.bag import Row, SignedBag, identity
from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan, Sort, TopK, Union
from tempura.algebra.scalar import (
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    conjunction,
)
from tempura.algebra.window import Window
from tempura.laws import generators, mixtures
from tempura.laws.scalars import DOMAINS, Scalars
from tempura.tvr.tvr import Tvr

TIMES = 3

JOINS: tuple[JoinKind, ...] = ("inner", "left", "full", "semi", "anti", "exists")


class NoCaseError(Exception):
    """There is no generator for what a rule speaks of."""


@dataclass
class CaseMaker(Scalars):
    """Draws the parts of a case. ``tables`` collects the tables that the relations scan, ``types`` those of their columns."""

    tables: dict[str, list[SignedBag]] = field(default_factory=dict)
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)

    # --- tables and relations -----------------------------------------------------------------------------------------

    def relation(self, name: str, kind: str) -> Tvr | tuple[Tvr, ...]:
        """A value for a metavariable that stands for one or more relations."""
        if kind == "Sides":
            return tuple(Tvr(self.scan(f"{name}{i}")) for i in range(self.rng.choice((2, 3, 3))))
        if kind == "Tvrs":
            return tuple(map(Tvr, self.terms(name)))
        return Tvr(self.query(name) if kind == "Query" or self.chance(0.2) else self.scan(name))

    def scan(self, name: str) -> Scan:
        """A scan of a new table or, sometimes, of one that another scan reads too."""
        if self.tables and self.chance(0.2):
            table = self.rng.choice(list(self.tables))
        else:
            table = self.table(name, ("int", *self.rng.sample(list(DOMAINS), self.rng.choice((1, 1, 2)))))
        fields = tuple(f"c{i}" for i in range(len(self.types[table])))
        columns = (Column(f"{name}.{f}", f, type) for f, type in zip(fields, self.types[table], strict=True))
        return Scan(table, fields, tuple(columns))

    def terms(self, name: str) -> tuple[Scan, ...]:
        """Scans of one to three tables that provide the same columns."""
        first = self.scan(name)
        types = tuple(c.type for c in first.columns)
        others = [self.table(f"{name}{i}", types) for i in range(self.rng.choice((0, 1, 1, 2)))]
        return (first, *(Scan(table, first.fields, first.outputs) for table in others))

    def table(self, name: str, types: tuple[str, ...]) -> str:
        """A new table with its history."""
        self.types[name] = types
        history = [SignedBag.of(self.rows(types, (0, 1, 2, 2, 3, 4)))]
        change = self.rng.choices((self.grown, self.changed, lambda bag, types: bag), (3, 6, 1))[0]
        while len(history) < TIMES:
            history.append(change(history[-1], types))
        self.tables[name] = history
        return name

    def rows(self, types: tuple[str, ...], counts: Sequence[int]) -> list[Row]:
        """Some rows, not all different."""
        rows = [tuple(self.rng.choice(DOMAINS[type]) for type in types) for _ in range(self.rng.choice(counts))]
        return rows + rows[:1] * self.rng.choice((0, 0, 1))

    def grown(self, bag: SignedBag, types: tuple[str, ...]) -> SignedBag:
        """The bag with rows added, some of which it has already."""
        again = [row for row in bag.rows() if self.chance(0.2)]
        return bag + SignedBag.of(again + self.rows(types, (0, 1, 1, 2)))

    def changed(self, bag: SignedBag, types: tuple[str, ...]) -> SignedBag:
        """The bag with rows added and deleted, often updated: deleted and inserted with one other value."""
        gone = [row for row in bag.rows() if self.chance(0.5)]
        updated = [self.updated(row, types) for row in gone if self.chance(0.5)]
        return self.grown(bag - SignedBag.of(gone) + SignedBag.of(updated), types)

    def updated(self, row: Row, types: tuple[str, ...]) -> Row:
        """The row with another value in one column."""
        column = self.rng.randrange(len(types))
        value = self.rng.choice([v for v in DOMAINS[types[column]] if identity(v) != identity(row[column])])
        return (*row[:column], value, *row[column + 1 :])

    def query(self, name: str) -> Rel:
        """One operator over scans."""
        return self.rng.choice(
            (
                self._filter,
                self._project,
                self._join,
                self._aggregate,
                self._aggregate,
                self._union,
                self._ordered,
                self._one,
                self._window,
                self._expand,
                self._generate,
            )
        )(name)

    def _filter(self, name: str) -> Rel:
        source = self.scan(name)
        return Filter(source, self.predicate(source.columns))

    def _project(self, name: str) -> Rel:
        source = self.scan(name)
        return Project(source, self.outputs(source.columns, f"{name}.o"))

    def _join(self, name: str) -> Rel:
        left, right = self.scan(name), self.scan(name + "2")
        kind = self.rng.choice(JOINS)
        on = self.condition(left.columns, right.columns)
        return Join(left, right, kind, on, self.marker(name) if kind == "exists" else None)

    def _aggregate(self, name: str) -> Rel:
        source = self.scan(name)
        keys, aggregates = self.keys(source.columns, f"{name}.k"), self.aggregates(source.columns, f"{name}.a")
        return Aggregate(source, keys, aggregates)

    def _union(self, name: str) -> Rel:
        return Union(self.terms(name))

    def _ordered(self, name: str) -> Rel:
        source = self.scan(name)
        order = self.order(source.columns)
        return self.rng.choice((Sort(source, order), TopK(source, order, self.limit())))

    def _one(self, name: str) -> Rel:
        source = self.scan(name)
        return One(TopK(source, self.order(source.columns), self.rng.choice((0, 1, 1, 1))))

    def _expand(self, name: str) -> Rel:
        source = self.scan(name)
        return Expand(source, self.projections(source.columns, f"{name}.e"))

    def projections(self, columns: tuple[Column, ...], prefix: str = "e") -> tuple[tuple[Output, ...], ...]:
        """One to three projections to the same columns, as grouping sets make them: some values NULL, a number in the end."""
        kept = [self.rng.choice(columns) for _ in range(self.rng.choice((1, 2)))]
        made = [Column(f"{prefix}{i}", f"{prefix}{i}", c.type) for i, c in enumerate(kept)]
        set_id = Column(f"{prefix}set", "set", "bigint")

        def projection() -> tuple[Output, ...]:
            values: list[Expr] = [Ref(c) if self.chance(0.6) else Literal(None, c.type) for c in kept]
            number = Literal(self.rng.randrange(2), "bigint")
            return (*map(Output, made, values), Output(set_id, number))

        return tuple(projection() for _ in range(self.rng.choice((1, 2, 3))))

    def marker(self, name: str) -> Column:
        """The column in which an existence join answers."""
        return Column(f"{name}.found", "found", "boolean")

    def _window(self, name: str) -> Rel:
        source = self.scan(name)
        partition = generators.partition(self, source.columns)
        functions = generators.functions(self, source.columns, f"{name}.w")
        return Window(source, partition, self.order(source.columns), functions)

    def _generate(self, name: str) -> Rel:
        source = self.scan(name)
        made = (Column(f"{name}.g", "g", "int"),)
        return Generate(source, generators.generator(self, source.columns), made, self.chance(0.4))

    # --- the other metavariables --------------------------------------------------------------------------------------

    def parameter(self, kind: str, sides: list[tuple[Column, ...]]) -> object:
        """A value for a metavariable over the columns of the relations."""
        match kind:
            case "On":
                return self.condition(*sides)
            case "OnAll":
                return conjunction(*(self.condition(a, b) for a, b in pairwise(sides)))
            case "Pred":
                return self.predicate(sum(sides, ()))
            case "Marker" | "AnyMarker":
                return self.marker("M")
            case "How":
                return self.rng.choice(JOINS)
            case "NotInner":
                return self.rng.choice([kind for kind in JOINS if kind != "inner"])
            case "Outputs":
                return self.outputs(sides[0])
            case "Projections":
                return self.projections(sides[0])
            case "Keys":
                return self.keys(sum(sides, ()))
            case "Aggs":
                return self.aggregates(sides[0]) if len(sides) == 1 else mixtures.aggregates(self, sides)
            case "Order":
                return self.order(sides[0])
            case "Generator":
                return generators.generator(self, sides[0])
            case "Generated":
                return generators.MADE
            case "Outer":
                return self.chance(0.4)
            case "Partition":
                return generators.partition(self, sides[0])
            case "WindowCalls":
                return generators.functions(self, sides[0])
            case "Limit":
                return self.limit()
        raise NoCaseError(f"there is no generator for the kind {kind}")
