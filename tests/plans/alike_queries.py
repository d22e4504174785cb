"""Relations that are alike but for conditions, projections and columns, at random."""

from collections.abc import Callable, Mapping
from random import Random

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan
from tempura.algebra.scalar import (
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    conjunction,
    equal,
)
from tests.plans.random_queries import random_row

FIELDS = ("x", "y", "z")
Shape = Callable[["Maker"], Rel]


class Maker:
    """Relations of one shape, each with columns of its own: with other conditions, other projections, and other columns of the tables."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._made = 0

    def scan(self, table: str) -> Rel:
        fields = ("x", *sorted(self._random.sample(FIELDS[1:], self._random.randint(1, 2))))
        scan = Scan(table, fields, tuple(self._column(field) for field in fields))
        return self._as_it_may_be(scan)

    def joined(self, left: Rel, right: Rel, kind: JoinKind = "inner") -> Rel:
        return self._as_it_may_be(Join(left, right, kind, equal(Ref(left.columns[0]), Ref(right.columns[0]))))

    def grouped(self, table: str) -> Rel:
        scan = Scan(table, FIELDS, tuple(map(self._column, FIELDS)))
        key, value = Output(self._column("x"), Ref(scan.columns[0])), Ref(scan.columns[1])
        call = AggregateCall("Max", (value,), "int")
        return Aggregate(scan, (key,), (AggregateOutput(self._column("m"), call),))

    def totals(self, input: Rel) -> Rel:
        calls = [self._call(input) for _ in range(self._random.randint(1, 2))]
        rel: Rel = Aggregate(input, (), tuple(AggregateOutput(self._column("a", c.type), c) for c in calls))
        if self._random.random() < 0.5:
            rel = Project(rel, tuple(Output(self._column("v", c.type), Ref(c)) for c in rel.columns))
        return rel

    def _column(self, name: str, type: str = "int") -> Column:
        self._made += 1
        return Column(f"{name}{self._made}", name, type)

    def _as_it_may_be(self, rel: Rel) -> Rel:
        if self._random.random() < 0.7:
            rel = Filter(rel, conjunction(*(self._asked(rel) for _ in range(self._random.randint(1, 2)))))
        if self._random.random() < 0.3:
            rest = [c for c in rel.columns[1:] if self._random.random() < 0.7]
            rel = Project(rel, tuple(Output(self._column(c.name, c.type), Ref(c)) for c in (rel.columns[0], *rest)))
        return rel

    def _asked(self, rel: Rel) -> Expr:
        column = Ref(self._random.choice(rel.columns))
        kind = self._random.choice(("EqualTo", "LessThan", "GreaterThanOrEqual", "IsNull", "IsNotNull", "Or"))
        if kind == "Or":
            return Call("Or", (self._asked(rel), self._asked(rel)), "boolean")
        operands = (column,) if kind.startswith("Is") else (column, Literal(self._random.randint(0, 3), "int"))
        return Call(kind, operands, "boolean")

    def _call(self, input: Rel) -> AggregateCall:
        kind, arg = (
            self._random.choice(("Count", "CountAll", "Sum", "Min", "Max")),
            Ref(self._random.choice(input.columns)),
        )
        filter = self._asked(input) if self._random.random() < 0.3 else None
        if kind == "CountAll":
            return AggregateCall("Count", (), "bigint", filter=filter)
        type = "bigint" if kind in ("Count", "Sum") else "int"
        return AggregateCall(kind, (arg,), type, filter=filter, detail="ansi" if kind == "Sum" else "")


SHAPES: Mapping[str, Shape] = {
    "a table": lambda make: make.scan("r"),
    "a join": lambda make: make.joined(make.scan("r"), make.scan("s")),
    "a join with itself": lambda make: make.joined(make.scan("r"), make.scan("r")),
    "a join of three": lambda make: make.joined(make.joined(make.scan("r"), make.scan("s")), make.scan("t")),
    "a join with groups": lambda make: make.joined(make.scan("r"), make.grouped("s")),
}


def bags(seed: int) -> Callable[[Rel], SignedBag]:
    random = Random(seed)
    tables = {name: [random_row(random) for _ in range(random.choice((0, 2, 6, 9)))] for name in "rst"}

    def rows(leaf: Rel) -> SignedBag:
        assert isinstance(leaf, Scan)
        return SignedBag.of(tuple(row[FIELDS.index(f)] for f in leaf.fields) for row in tables[leaf.table])

    return rows


def full(rel: Rel) -> Rel:
    """With scans of all columns, which is what the tables of histories have."""
    if isinstance(rel, Scan):
        more = [Column(f"{rel.outputs[0].id}.{f}", f, "int") for f in FIELDS if f not in rel.fields]
        known = dict(zip(rel.fields, rel.outputs, strict=True)) | {c.name: c for c in more}
        scan = Scan(rel.table, FIELDS, tuple(known[f] for f in FIELDS))
        return Project(scan, tuple(Output(c, Ref(c)) for c in rel.outputs))
    return rel.with_inputs(*map(full, rel.inputs))
