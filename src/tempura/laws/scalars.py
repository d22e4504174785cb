"""Random expressions, conditions, aggregates and orders over columns, for laws. Domains are small, so that keys collide."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import nan
from random import Random

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


@dataclass
class Scalars:
    """Draws what is computed from rows. ``raises``: expressions may fail for some rows."""

    rng: Random
    raises: bool = True

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
