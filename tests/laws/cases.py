"""Random cases for laws: tables over three times, and metavariables over them, made from the kinds of a rule's parameters.

Domains are small, so that keys collide; rows repeat, are deleted, updated and NULL; tables are empty, static or only grow.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from math import nan
from random import Random

from tempura.algebra.bag import Row, SignedBag, identity
from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan, Sort, TopK, Union
from tempura.algebra.scalar import (
    TRUE,
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
    same,
)
from tempura.algebra.window import Window
from tempura.rules.dsl import GIVEN_KINDS, Family, Rule
from tempura.tvr.tvr import Tvr
from tests.laws import generate_cases, logical_cases, window_cases

TIMES = 3

JOINS: tuple[JoinKind, ...] = ("inner", "left", "full", "semi", "anti", "exists")

DOMAINS: Mapping[str, tuple[object, ...]] = {
    "int": (None, 0, 1, 1, 2),
    "bigint": (None, 0, 1, -1, 2**40),
    "decimal(5,2)": (None, Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("10.01")),
    "decimal(14,2)": (None, Decimal("0.00"), Decimal("0.01"), Decimal("999999999999.99")),
    "double": (None, 0.0, -0.0, 0.1, 1.0, nan),
    "string": (None, "", "a", "A"),
}

SPREADS = ("VariancePop", "VarianceSamp", "StddevPop", "StddevSamp", "CovPopulation", "CovSample")

SUMS = {
    "int": "bigint",
    "bigint": "bigint",
    "decimal(5,2)": "decimal(15,2)",
    "decimal(14,2)": "decimal(24,2)",
    "double": "double",
}
AVERAGES = {
    "int": "double",
    "bigint": "double",
    "decimal(5,2)": "decimal(9,6)",
    "decimal(14,2)": "decimal(18,6)",
    "double": "double",
}


@dataclass(frozen=True)
class Case:
    """Tables over time and a value for each metavariable of a rule, facts excepted."""

    tables: Mapping[str, list[SignedBag]]
    bindings: Mapping[str, object]

    def pasteable(self, rule: Rule) -> str:
        """Python text that checks this case again, after ``from tests.laws.replay import *``."""
        bindings = ", ".join(f"{name!r}: {_text(value)}" for name, value in self.bindings.items())
        return f"replay({rule.name!r}, tables={dict(self.tables)!r}, bindings={{{bindings}}})"


def _text(value: object) -> str:
    if isinstance(value, Tvr):
        return f"Tvr({value.rel!r})"
    if isinstance(value, tuple):
        return f"({''.join(_text(item) + ', ' for item in value)})"
    return repr(value)


def random_case(rule: Rule, rng: Random) -> Case:
    """A case for a rule; its guard may or may not hold."""
    # In the others each row has a value: failures hide what else may be wrong.
    maker = CaseMaker(rng, raises=rng.random() < 0.25)
    if rule.family is Family.LOGICAL:
        builder = logical_cases.Builder(maker)
        builder.build(rule.pattern)
        return Case(maker.tables, builder.bindings)
    relations = {n: maker.relation(n, k) for n, k in rule.parameters.items() if k in ("Tvr", "Query", "Tvrs", "Sides")}
    sides = [columns for n, value in relations.items() for columns in _sides(value, rule.parameters[n])]
    times = [name for name, kind in rule.parameters.items() if kind == "Time"]
    times[1:1] = [name for name, kind in rule.parameters.items() if kind == "Between"]
    drawn = sorted(rng.sample(range(TIMES), len(times)))
    drawn_apart = {*relations, *times, *(n for n, kind in rule.parameters.items() if kind in GIVEN_KINDS)}
    others = {n: maker.parameter(k, sides) for n, k in rule.parameters.items() if n not in drawn_apart}
    return Case(maker.tables, {**relations, **others, **dict(zip(times, drawn, strict=True))})


def _sides(value: Tvr | tuple[Tvr, ...], kind: str) -> list[tuple[Column, ...]]:
    """The columns of the relations that a metavariable stands for; the terms of a union have the same."""
    if isinstance(value, Tvr):
        return [value.columns]
    return [R.columns for R in value] if kind == "Sides" else [value[0].columns]


@dataclass
class CaseMaker:
    """Draws the parts of a case. ``tables`` collects the tables that the relations scan. ``raises``: expressions may fail for some rows."""

    rng: Random
    raises: bool = True
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
        partition = window_cases.partition(self, source.columns)
        functions = window_cases.functions(self, source.columns, f"{name}.w")
        return Window(source, partition, self.order(source.columns), functions)

    def _generate(self, name: str) -> Rel:
        source = self.scan(name)
        made = (Column(f"{name}.g", "g", "int"),)
        return Generate(source, generate_cases.generator(self, source.columns), made, self.chance(0.4))

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
            case "Outputs":
                return self.outputs(sides[0])
            case "Projections":
                return self.projections(sides[0])
            case "Keys":
                return self.keys(sides[0])
            case "Aggs":
                return self.aggregates(sides[0])
            case "Order":
                return self.order(sides[0])
            case "Generator":
                return generate_cases.generator(self, sides[0])
            case "Generated":
                return generate_cases.MADE
            case "Outer":
                return self.chance(0.4)
            case "Partition":
                return window_cases.partition(self, sides[0])
            case "WindowCalls":
                return window_cases.functions(self, sides[0])
            case "Limit":
                return self.limit()
        raise TypeError(f"no generator for the kind {kind}")

    def condition(self, left: tuple[Column, ...], right: tuple[Column, ...]) -> Expr:
        """A join condition: equalities with NULL keys, residuals, theta, null-aware, TRUE."""
        pairs = [(Ref(a), Ref(b)) for a in left for b in right if a.type == b.type]
        if not pairs:
            return self.predicate(left + right)
        a, b = pairs[0] if self.chance(0.7) else self.rng.choice(pairs)
        c, d = self.rng.choice(pairs)
        equality, less = equal(a, b), Call("LessThan", (c, d), "boolean")
        if a.type == "int" and self.fails(0.6):
            of_both = self._of_both(a, b)
            keys = equal(self.raising(a), self.raising(b))
            return self.rng.choice((of_both, of_both, conjunction(equality, of_both), keys))
        return self.rng.choice(
            (
                equality,
                equality,
                equality,
                conjunction(equality, equal(c, d)),
                conjunction(equality, less),
                conjunction(equality, self.predicate(left + right)),
                less,
                Call("Or", (equality, Call("IsNull", (equality,), "boolean")), "boolean"),
                same(a, b),
                TRUE,
            )
        )

    def _of_both(self, a: Expr, b: Expr) -> Expr:
        """A condition that fails for some pairs of rows."""
        total = Call(
            "Subtract", (Call("Add", (a, b), "int", "legacy"), Literal(self.rng.randrange(5), "int")), "int", "legacy"
        )
        return Call("GreaterThan", (self.raising(total), Literal(0.4, "double")), "boolean")

    def predicate(self, columns: tuple[Column, ...], depth: int = 0) -> Expr:
        """A predicate that may be TRUE, FALSE or NULL."""
        column = self.rng.choice(columns)
        other = self.rng.choice([c for c in columns if c.type == column.type])
        functions = ("EqualTo", "EqualNullSafe", "LessThan", "GreaterThanOrEqual")
        forms: list[Callable[[], Expr]] = [
            lambda: Call(self.rng.choice(functions), (Ref(column), self.literal(column.type)), "boolean"),
            lambda: Call(self.rng.choice(functions), (Ref(column), Ref(other)), "boolean"),
            lambda: Call(self.rng.choice(("IsNull", "IsNotNull")), (Ref(column),), "boolean"),
        ]
        if column.type == "int" and self.fails(0.6):
            return Call("GreaterThan", (self.raising(Ref(column)), Literal(0.7, "double")), "boolean")
        if depth < 1:
            again: Callable[[], Expr] = lambda: self.predicate(columns, depth + 1)  # noqa: E731
            forms.append(lambda: Call("Not", (again(),), "boolean"))
            forms.append(lambda: Call(self.rng.choice(("And", "Or")), (again(), again()), "boolean"))
        return self.rng.choice(forms)()

    def raising(self, number: Expr) -> Expr:
        """1.0 / number in ANSI mode: fails for 0."""
        divisor = Call("Cast", (number,), "double", "legacy")
        return Call("Divide", (Literal(1.0, "double"), divisor), "double", "ansi")

    def literal(self, type: str) -> Literal:
        """A constant of a type."""
        return Literal(self.rng.choice(DOMAINS.get(type, (None,))), type)

    def expression(self, columns: tuple[Column, ...]) -> Expr:
        """A value computed from a row."""
        column = self.rng.choice(columns)
        if column.type == "int" and self.fails(0.6):
            return self.raising(Ref(column))
        forms: list[Expr] = [Ref(column), Ref(column), self.literal(self.rng.choice(list(DOMAINS)))]
        missing = Call("IsNull", (Ref(column),), "boolean")
        forms.append(Call("If", (missing, self.literal(column.type), Ref(column)), column.type))
        forms.append(missing)
        if column.type in ("int", "double"):
            forms.append(Call("Add", (Ref(column), self.literal(column.type)), column.type, "legacy"))
        return self.rng.choice(forms)

    def outputs(self, columns: tuple[Column, ...], prefix: str = "o") -> tuple[Output, ...]:
        """One to three computed columns."""
        exprs = [self.expression(columns) for _ in range(self.rng.choice((1, 2, 3)))]
        return tuple(Output(Column(f"{prefix}{i}", f"{prefix}{i}", e.type), e) for i, e in enumerate(exprs))

    def keys(self, columns: tuple[Column, ...], prefix: str = "k") -> tuple[Output, ...]:
        """No, one or two keys, often plain columns."""
        plain = self.chance(0.6)
        exprs = [self.rng.choice([Ref(c) for c in columns]) if plain else self.expression(columns) for _ in range(2)]
        kept: list[Expr] = [*exprs[: self.rng.choice((0, 1, 1, 2))]]
        return tuple(Output(Column(f"{prefix}{i}", f"{prefix}{i}", e.type), e) for i, e in enumerate(kept))

    def aggregates(self, columns: tuple[Column, ...], prefix: str = "a") -> tuple[AggregateOutput, ...]:
        """One to three aggregates, most of them with a state; sometimes several of the same distinct values."""
        calls = [self.aggregate(columns) for _ in range(self.rng.choice((1, 2, 3)))]
        if self.chance(0.3):
            arguments = [self._argument(columns) for _ in range(2)]
            calls[0] = self.of_distinct(arguments[0], columns)
            calls[-1] = self.of_distinct(arguments[self.chance(0.5)], columns)
        return tuple(AggregateOutput(Column(f"{prefix}{i}", f"{prefix}{i}", c.type), c) for i, c in enumerate(calls))

    def aggregate(self, columns: tuple[Column, ...]) -> AggregateCall:
        """An aggregate function, sometimes with DISTINCT or FILTER."""
        column = self.rng.choice(columns)
        if column.type == "double" and self.chance(0.3):
            return self.spread(columns)
        if self.chance(0.08):
            return self.pick(columns)
        function = self.rng.choice(("Count", "Count", "Sum", "Sum", "Average", "Min", "Max"))
        if function in ("Sum", "Average") and column.type not in SUMS:
            function = "Count"
        types = {"Count": "bigint", "Sum": SUMS.get(column.type), "Average": AVERAGES.get(column.type)}
        operands: tuple[Expr, ...] = () if function == "Count" and self.chance(0.3) else (Ref(column),)
        if function == "Count" and column.type == "int" and self.fails(0.6):
            operands = (self.raising(Ref(column)),)
        distinct = bool(operands) and self.chance(0.06)
        filter = self.predicate(columns) if self.chance(0.2) else None
        return AggregateCall(function, operands, types.get(function) or column.type, distinct, filter, "ANSI")

    def pick(self, columns: tuple[Column, ...]) -> AggregateCall:
        """A function of which the order of rows decides the value."""
        function = self.rng.choice(("First", "Last", "AnyValue", "MinBy", "MaxBy", "Mode", "CollectList"))
        operands = tuple(Ref(self.rng.choice(columns)) for _ in range(2 if function.endswith("By") else 1))
        type = operands[0].type
        return AggregateCall(function, operands, f"array<{type}>" if function == "CollectList" else type)

    def spread(self, columns: tuple[Column, ...]) -> AggregateCall:
        """A variance, standard deviation or covariance of columns of floats."""
        function = self.rng.choice(SPREADS)
        floats = [Ref(column) for column in columns if column.type == "double"]
        operands = tuple(self.rng.choice(floats) for _ in range(2 if function.startswith("Cov") else 1))
        filter = self.predicate(columns) if self.chance(0.2) else None
        detail = self.rng.choice(("nullOnDivideByZero=True", "nullOnDivideByZero=False"))
        return AggregateCall(function, operands, "double", False, filter, detail)

    def _argument(self, columns: tuple[Column, ...]) -> tuple[Ref, ...]:
        return tuple(Ref(self.rng.choice(columns)) for _ in range(self.rng.choice((1, 1, 1, 2))))

    def _failing_count(self, columns: tuple[Column, ...]) -> AggregateCall | None:
        """COUNT of distinct values that cannot be computed for each row, of some rows."""
        numbers = [column for column in columns if column.type == "int"]
        if not numbers or not self.fails(0.6):
            return None
        column = self.rng.choice(numbers)
        filter = Call("GreaterThanOrEqual", (Ref(column), Literal(1, "int")), "boolean")
        return AggregateCall(
            "Count", (Call("Cast", (self.raising(Ref(column)),), "int", "legacy"),), "bigint", True, filter
        )

    def of_distinct(self, argument: tuple[Ref, ...], columns: tuple[Column, ...]) -> AggregateCall:
        """An aggregate of the distinct values of an argument, which may be a pair."""
        if (failing := self._failing_count(columns)) is not None:
            return failing
        function, type = self.rng.choice(("Count", "Sum", "Average", "Max")), argument[0].type
        types = {"Count": "bigint", "Sum": SUMS.get(type), "Average": AVERAGES.get(type), "Max": type}
        if len(argument) > 1 or types[function] is None:
            function = "Count"
        filter = self.predicate(columns) if self.chance(0.4) else None
        return AggregateCall(function, argument, types[function] or type, True, filter, "ANSI")

    def order(self, columns: tuple[Column, ...]) -> tuple[SortKey, ...]:
        """One or two sort keys."""
        return tuple(
            SortKey(Ref(self.rng.choice(columns)), self.chance(0.5), self.chance(0.5))
            for _ in range(self.rng.choice((1, 1, 2)))
        )

    def limit(self) -> int:
        """A number of rows to keep."""
        return self.rng.choice((0, 1, 1, 2, 3))

    def fails(self, probability: float) -> bool:
        """True with a probability, where expressions may fail."""
        return self.raises and self.chance(probability)

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self.rng.random() < probability
