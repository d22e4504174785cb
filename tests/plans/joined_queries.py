"""Random aggregations over joins, whose arguments read several tables: what higher-order views are for."""

from dataclasses import replace
from random import Random

from tempura.algebra.rel import Aggregate, Join, Project, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Expr, Literal, Output, Ref, equal
from tempura.cost.stats import ColumnStats, TableFacts
from tests.plans.random_queries import QueryGenerator, Table

FIELDS = ("x", "y", "z")


def crowded(table: Table, times: int) -> TableFacts:
    """The facts of a table whose columns are expected to have few values each, so that groups are fewer than rows."""
    return replace(table.facts(times), columns={field: ColumnStats(2.0) for field in FIELDS})


def large(table: Table, times: int) -> TableFacts:
    """The same of a table that is told to have many rows beside those that come and go, so that to read it costs something."""
    facts = table.facts(times)
    columns = {field: ColumnStats(distinct) for field, distinct in zip(FIELDS, (5e4, 2e3, 10.0), strict=True)}
    return replace(facts, inserted=tuple(10_000_000 + rows for rows in facts.inserted), columns=columns)


class JoinedQueries(QueryGenerator):
    """Sums, averages and counts over inner joins of two to four tables, and left outer ones with one more, with a projection between."""

    def __init__(self, random: Random, tables: tuple[str, ...]) -> None:
        super().__init__(random, tables)
        self._scans: list[Scan] = []

    def summary(self) -> Rel:
        """One aggregation."""
        self._scans = []
        join = self._scan()
        for _ in range(self.random.choice((1, 2, 2, 3))):
            join = self._joined(join, "inner")
        if self.random.random() < 0.4:
            join = self._joined(join, "left")
        values = [self._value() for _ in range(2)]
        keys = [self._own() for _ in range(self.random.choice((0, 1, 1)))]
        outputs = tuple(Output(self.column(e.type), e) for e in (*values, *keys))
        numbers, groups = outputs[:2], outputs[2:]
        aggregates = tuple(self._sum(output.column) for output in numbers[: self.random.choice((1, 2))])
        return Aggregate(
            Project(join, outputs), tuple(Output(self.column(o.column.type), Ref(o.column)) for o in groups), aggregates
        )

    def _scan(self) -> Rel:
        scan = Scan(self.random.choice(self._tables), FIELDS, tuple(self.column() for _ in FIELDS))
        self._scans.append(scan)
        return scan

    def _joined(self, left: Rel, kind: str) -> Rel:
        known = Ref(self.random.choice(left.columns))
        right = self._scan()
        return Join(left, right, "left" if kind == "left" else "inner", equal(known, self.ref(right)))

    def _own(self) -> Expr:
        return self.ref(self.random.choice(self._scans))

    def _value(self) -> Expr:
        """A value of one table or of several."""
        form = self.random.choice(("column", "product", "difference", "choice", "choice"))
        if form == "column":
            return self._own()
        if form == "choice":
            test = self.predicate(self.random.choice(self._scans))
            return Call("If", (test, self._own(), self.random.choice((self._own(), Literal(0, "int")))), "int")
        left, right = (Call("Cast", (self._own(),), "decimal(5,0)", "legacy") for _ in range(2))
        if form == "product":
            return Call("Multiply", (left, right), "decimal(11,0)", "legacy")
        return Call("Subtract", (left, right), "decimal(6,0)", "legacy")

    def _sum(self, column: Column) -> AggregateOutput:
        function = self.random.choice(("Sum", "Sum", "Count", "Average"))
        digits = {"decimal(11,0)": 11, "decimal(6,0)": 6}.get(column.type)
        types = {
            "Count": "bigint",
            "Sum": f"decimal({digits + 10},0)" if digits else "bigint",
            "Average": f"decimal({digits + 4},4)" if digits else "double",
        }
        type = types[function]
        return AggregateOutput(self.column(type), AggregateCall(function, (Ref(column),), type, detail="legacy"))
