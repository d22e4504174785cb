"""Random tables over time and random queries over them, for tests of whole plans. Seeded; small domains, so that keys collide."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tempura.algebra.bag import SignedBag
from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.one import One, beside
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan, TopK, Union
from tempura.algebra.scalar import (
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    SortKey,
    conjunction,
    equal,
)  # fmt: skip
from tempura.algebra.window import CURRENT_ROW, Frame, Window, WindowOutput
from tempura.cost.stats import TableFacts

Row = tuple[object, ...]
JOINS: tuple[JoinKind, ...] = ("inner", "left", "full", "semi", "anti", "exists")
_ARRAY, _NO_ARRAY = Literal([1, None], "array<int>"), Literal([], "array<int>")
AGGREGATES = ("Count", "CountAll", "Sum", "Average", "Min", "Max", "CountDistinct", "FloatSum", "Variance")


@dataclass(frozen=True)
class Table:
    """A table over time: the signed bag that arrives at each time point."""

    name: str
    arrivals: tuple[SignedBag, ...]
    static: bool = False

    def snapshot(self, t: int) -> SignedBag:
        return sum(self.arrivals[: t + 1], SignedBag())

    def delta(self, t: int, u: int) -> SignedBag:
        return sum(self.arrivals[t + 1 : u + 1], SignedBag())

    def facts(self, known: int) -> TableFacts:
        inserted = [sum(w for _, w in bag.items() if w > 0) for bag in self.arrivals]
        deleted = [-sum(w for _, w in bag.items() if w < 0) for bag in self.arrivals]
        grows = not any(deleted)
        # Every other table is also stored without what came and went.
        read_deleted = (0,) * known if sum(inserted) % 2 else ()
        counts = (_cumulative(inserted), _cumulative(deleted))
        return TableFacts(*counts, known, self.static, append_only=grows, read_deleted=read_deleted)


def _cumulative(numbers: list[int]) -> tuple[int, ...]:
    return tuple(sum(numbers[: i + 1]) for i in range(len(numbers)))


def random_row(random: Random) -> Row:
    return tuple(random.choice((None, 0, 1, 2, 3)) for _ in range(3))


ANY_STYLE = ("grows", "mixed", "mixed", "static", "emptied")
ONLY_INSERTS = ("grows", "grows", "grows", "static")


def random_table(random: Random, name: str, times: int, styles: tuple[str, ...] = ANY_STYLE) -> Table:
    """A table of three nullable integer columns; some only grow, some are static, some start empty or lose all rows."""
    style = random.choice(styles)
    arrivals = [SignedBag.of(random_row(random) for _ in range(random.choice((0, 2, 5))))]
    for _ in range(times - 1):
        arrivals.append(_arrival(random, style, sum(arrivals, SignedBag())))
    return Table(name, tuple(arrivals), style == "static")


def _arrival(random: Random, style: str, now: SignedBag) -> SignedBag:
    if style == "static":
        return SignedBag()
    if style == "emptied" and random.random() < 0.5:
        return -now
    inserted = SignedBag.of(random_row(random) for _ in range(random.choice((0, 1, 3))))
    gone = [row for row in now.rows() if random.random() < 0.3] if style == "mixed" else []
    return inserted - SignedBag.of(gone)


class QueryGenerator:
    """Random queries over tables of three integer columns. Column identities are unique within one query."""

    def __init__(self, random: Random, tables: tuple[str, ...]) -> None:
        self.random = random
        self._tables = tables
        self._columns = 0

    def column(self, type: str = "int") -> Column:
        self._columns += 1
        return Column(f"c{self._columns}", f"c{self._columns}", type)

    def query(self, depth: int) -> Rel:
        if depth == 0:
            return Scan(self.random.choice(self._tables), ("x", "y", "z"), tuple(self.column() for _ in range(3)))
        makers: tuple[Callable[[int], Rel], ...] = (
            self.join, self.join, self.join, self.filter, self.project, self.union, self.aggregate, self.aggregate, self.top,
            self.scalar, self.window, self.expand, self.generate, self.single,
        )  # fmt: skip
        return self.random.choice(makers)(depth - 1)

    def ref(self, rel: Rel) -> Expr:
        return Ref(self.random.choice(rel.columns))

    def predicate(self, rel: Rel) -> Expr:
        function = self.random.choice(("EqualTo", "LessThan", "GreaterThanOrEqual", "IsNull", "IsNotNull"))
        if function.startswith("Is"):
            return Call(function, (self.ref(rel),), "boolean")
        return Call(function, (self.ref(rel), Literal(self.random.randrange(4), "int")), "boolean")

    def filter(self, depth: int) -> Rel:
        rel = self.query(depth)
        return Filter(rel, self.predicate(rel))

    def project(self, depth: int) -> Rel:
        rel = self.query(depth)
        exprs = [self.ref(rel) for _ in range(2)]
        exprs.append(Call("If", (self.predicate(rel), Literal(7, "int"), Literal(None, "int")), "int"))
        return Project(rel, tuple(Output(self.column(e.type), e) for e in exprs))

    def union(self, depth: int) -> Rel:
        columns = (self.column("bigint"), self.column("bigint"))
        return Union(tuple(self._term(depth, columns) for _ in range(2)))

    def _term(self, depth: int, columns: tuple[Column, ...]) -> Rel:
        rel = self.query(depth)
        casts = (Call("Cast", (self.ref(rel),), "bigint", "legacy") for _ in columns)
        return Project(rel, tuple(Output(c, e) for c, e in zip(columns, casts, strict=True)))

    def join(self, depth: int) -> Rel:
        left, right = self.query(depth), self.query(self.random.randrange(depth + 1))
        condition = equal(self.ref(left), self.ref(right))
        if self.random.random() < 0.3:
            condition = Call("LessThan", (self.ref(left), self.ref(right)), "boolean")
        elif self.random.random() < 0.3:
            condition = Call("Or", (condition, Call("IsNull", (condition,), "boolean")), "boolean")
        residual = self.predicate(right) if self.random.random() < 0.3 else Literal(True, "boolean")
        kind = self.random.choice(JOINS)
        marker = self.column("boolean") if kind == "exists" else None
        return Join(left, right, kind, conjunction(condition, residual), marker)

    def preserving_groups(self, depth: int, kind: JoinKind = "left", of_right: bool = False) -> Rel:
        """An outer join of which a preserved side, the left or the right one, has a key."""
        groups, other = self.aggregate(depth), self.query(depth)
        left, right = (other, groups) if of_right else (groups, other)
        return Join(left, right, kind, equal(self.ref(left), self.ref(right)))

    def aggregate(self, depth: int) -> Rel:
        rel = self.query(depth)
        keys = tuple(self._key(rel) for _ in range(self.random.choice((0, 1, 1, 2))))
        return Aggregate(
            rel, keys, tuple(self._aggregate(rel) for _ in range(self.random.choice((0, 1, 2) if keys else (1, 2))))
        )

    def _key(self, rel: Rel) -> Output:
        expr = self.ref(rel)
        return Output(self.column(expr.type), expr)

    def _aggregate(self, rel: Rel) -> AggregateOutput:
        name = self.random.choice(AGGREGATES)
        arg = self.ref(rel)
        number = arg if arg.type == "double" else Call("Cast", (arg,), "double", "legacy")
        call = {
            "Count": AggregateCall("Count", (arg,), "bigint"),
            "CountAll": AggregateCall("Count", (), "bigint"),
            "CountDistinct": AggregateCall("Count", (arg,), "bigint", distinct=True),
            "Average": AggregateCall("Average", (arg,), "double", detail="legacy"),
            "Sum": AggregateCall("Sum", (arg,), "double" if arg.type == "double" else "bigint", detail="legacy"),
            "FloatSum": AggregateCall("Sum", (number,), "double", detail="legacy"),
            "Variance": AggregateCall("VarianceSamp", (number,), "double", detail="nullOnDivideByZero=True"),
        }.get(name) or AggregateCall(name, (arg,), arg.type)
        if self.random.random() < 0.2:
            call = AggregateCall(
                call.function, call.operands, call.type, call.distinct, self.predicate(rel), call.detail
            )
        return AggregateOutput(self.column(call.type), call)

    def expand(self, depth: int) -> Rel:
        rel = self.query(depth)
        refs = [self.ref(rel) for _ in range(2)]
        columns, number = [self.column(ref.type) for ref in refs], self.column("bigint")

        def projection(i: int) -> tuple[Output, ...]:
            kept = [ref if i & (1 << j) else Literal(None, ref.type) for j, ref in enumerate(refs)]
            return (*map(Output, columns, kept), Output(number, Literal(i, "bigint")))

        return Expand(rel, tuple(projection(i) for i in self.random.choice(((3, 1, 0), (3, 3), (2, 1)))))

    def scalar(self, depth: int) -> Rel:
        """Two scalar sub-queries, which may be the same one: of an aggregation, or of a row that may be missing."""
        rel = self.query(depth)
        source = self.query(self.random.randrange(depth + 1))
        whole = AggregateOutput(self.column("bigint"), AggregateCall("Count", (), "bigint"))
        value = self.random.choice(
            (
                Aggregate(source, (), (whole,)),
                One(TopK(source, (SortKey(self.ref(source)),), self.random.choice((0, 1)))),
            )
        )
        for _ in range(2):
            first = Output(self.column(value.columns[0].type), Ref(value.columns[0]))
            rel = beside(rel, Project(value, (first,)))
        return Filter(rel, self.predicate(rel))

    def single(self, depth: int) -> Rel:
        """A correlated scalar sub-query: at most one row matches, because it has a row per key."""
        rel, source = self.query(depth), self.query(self.random.randrange(depth + 1))
        key = self._key(source)
        value = Aggregate(
            source, (key,), (AggregateOutput(self.column("bigint"), AggregateCall("Count", (), "bigint")),)
        )
        return Join(rel, value, "single", equal(self.ref(rel), Ref(key.column)))

    def top(self, depth: int) -> Rel:
        rel = self.query(depth)
        order = SortKey(self.ref(rel), self.random.random() < 0.5, self.random.random() < 0.5)
        return TopK(rel, (order,), self.random.choice((1, 3)))

    def generate(self, depth: int) -> Rel:
        rel = self.query(depth)
        number = Call(
            "If",
            (self.predicate(rel), self.random.choice((self.ref(rel), Literal(2, "int"))), Literal(None, "int")),
            "int",
        )
        calls = (
            Call("Stack", (Literal(2, "int"), number), "struct<col0:int>"),
            Call("Explode", (Call("If", (self.predicate(rel), _ARRAY, _NO_ARRAY), "array<int>"),), "struct<col:int>"),
        )
        return Generate(rel, self.random.choice(calls), (self.column(),), self.random.random() < 0.5)

    def window(self, depth: int) -> Rel:
        rel = self.query(depth)
        partition = tuple(self.ref(rel) for _ in range(self.random.choice((0, 1, 1, 1, 2))))
        order = tuple(
            SortKey(self.ref(rel), self.random.random() < 0.5, self.random.random() < 0.5)
            for _ in range(self.random.choice((0, 1, 1)))
        )
        return Window(rel, partition, order, (self._window_function(rel),))

    def _window_function(self, rel: Rel) -> WindowOutput:
        name, arg = self.random.choice(("RowNumber", "Rank", "Lag", "First", "Count", "Min")), self.ref(rel)
        one = Literal(1, "int")
        so_far = Frame(self.random.choice(("rows", "range")), None, self.random.choice((None, CURRENT_ROW)))
        calls = {
            "RowNumber": (AggregateCall(name, (), "int"), Frame("rows", None, CURRENT_ROW)),
            "Rank": (AggregateCall(name, (), "int"), Frame("rows", None, CURRENT_ROW)),
            "Lag": (AggregateCall(name, (arg, one, Literal(None, arg.type)), arg.type), Frame("rows", one, one)),
            "Count": (AggregateCall(name, (arg,), "bigint"), so_far),
        }
        call, frame = calls.get(name, (AggregateCall(name, (arg,), arg.type), so_far))
        return WindowOutput(self.column(call.type), call, frame)
