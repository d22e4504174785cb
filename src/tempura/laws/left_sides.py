"""Random cases for laws between TVRs: the left side is built bottom-up, so that each parameter fits what is below it."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, Union
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Expr, Output, Ref, conjunction
from tempura.algebra.states import decimal_of
from tempura.algebra.window import Window
from tempura.laws import generators
from tempura.laws.relations import JOINS, CaseMaker, NoCaseError
from tempura.rules.match import Hole, name_of_hole
from tempura.tvr.tvr import Tvr

T = TypeVar("T")


@dataclass
class Builder:
    """Builds a left side and binds its metavariables."""

    maker: CaseMaker
    bindings: dict[str, object] = field(default_factory=dict)
    like: Scan | None = None

    def build(self, pattern: Rel) -> Rel:
        """An expression that matches a pattern."""
        if isinstance(pattern, Hole):
            return self._relation(pattern.name)
        if isinstance(pattern, Union):
            counts = (1, 2) if len(pattern.terms) == 1 else (0, 1, 2)
            return Union(tuple(term for part in pattern.terms for term in self._terms(part, counts)))
        if isinstance(pattern, MultiJoin):
            return self._join_of_many(pattern)
        inputs = tuple(map(self.build, pattern.inputs))
        return self._operator(pattern, inputs)

    def _relation(self, name: str) -> Rel:
        found = self.maker.relation(name, "Tvr")
        assert isinstance(found, Tvr)
        self.bindings[name] = found
        return found.rel

    def _terms(self, pattern: Rel, counts: tuple[int, ...]) -> tuple[Rel, ...]:
        """Terms of a union; all unions of a case have the same columns."""
        if not isinstance(pattern, Hole):
            return (self.build(pattern),)
        self.like = self.like or self.maker.scan(pattern.name)
        types = tuple(c.type for c in self.like.columns)
        tables = [self.maker.table(f"{pattern.name}{i}", types) for i in range(self.maker.rng.choice(counts))]
        terms = tuple(Scan(table, self.like.fields, self.like.outputs) for table in tables)
        self.bindings[pattern.name] = tuple(map(Tvr, terms))
        return terms

    def _join_of_many(self, pattern: MultiJoin) -> Rel:
        """The terms that a pattern names, and one or two where it stands for any number; some may read a column of any other."""
        terms: list[Rel] = []
        for part in pattern.terms:
            if isinstance(part, Hole) and part.many:
                sides = tuple(Tvr(self.maker.scan(f"{part.name}{i}")) for i in range(self.maker.rng.choice((1, 1, 2))))
                self.bindings[part.name] = sides
                terms += [side.rel for side in sides]
            else:
                terms.append(self.build(part))
        conditions = (self.maker.condition(self._some(a.columns), self._some(b.columns)) for a, b in pairwise(terms))
        return MultiJoin(tuple(terms), self._set(pattern.on, conjunction(*conditions)))

    def _set(self, pattern: object, target: T) -> T:
        """Bind the metavariable at a place of the pattern, if there is one."""
        name = name_of_hole(pattern, target)
        if name is not None:
            self.bindings[name] = target
        return target

    def _operator(self, pattern: Rel, inputs: tuple[Rel, ...]) -> Rel:
        maker, columns = self.maker, sum((i.columns for i in inputs), ())
        prefix = f"{len(self.bindings)}."
        match pattern:
            case Filter():
                return Filter(inputs[0], self._set(pattern.predicate, self._predicate(inputs[0])))
            case Project():
                return Project(inputs[0], self._set(pattern.outputs, self._outputs(columns, f"{prefix}o")))
            case Join():
                return self._join(pattern, *inputs)
            case Aggregate():
                keys, aggs = self._aggregation(inputs[0], prefix)
                return Aggregate(inputs[0], self._set(pattern.keys, keys), self._set(pattern.aggregates, aggs))
            case Window():
                partition = self._set(pattern.partition, generators.partition(maker, columns))
                order = self._set(pattern.order, maker.order(columns))
                calls = generators.functions(maker, columns, f"{prefix}w")
                return Window(inputs[0], partition, order, self._set(pattern.functions, calls))
            case Generate():
                generator = self._set(pattern.generator, generators.generator(maker, columns))
                made = self._set(pattern.outputs, generators.MADE)
                return Generate(inputs[0], generator, made, self._set(pattern.outer, maker.chance(0.4)))
            case Expand():
                return Expand(inputs[0], self._set(pattern.projections, maker.projections(columns, f"{prefix}e")))
        raise NoCaseError(f"there is no generator for patterns with {type(pattern).__name__}")

    def _some(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Some of the columns, often all."""
        return tuple(c for c in columns if self.maker.chance(0.5)) or columns

    def _predicate(self, input: Rel) -> Expr:
        """A conjunction whose parts read some columns each: of one side of a join, the keys of an aggregation, any."""
        scopes = [input.columns, *(i.columns for i in input.inputs if isinstance(input, Join))]
        visible = [scope for scope in scopes if scope and set(scope) <= set(input.columns)]
        parts = [self.maker.predicate(self._some(self.maker.rng.choice(visible))) for _ in range(2)]
        return conjunction(*parts[: self.maker.rng.choice((1, 2))])

    def _outputs(self, columns: tuple[Column, ...], prefix: str) -> tuple[Output, ...]:
        if self.maker.chance(0.3):
            return tuple(Output(Column(f"{prefix}{i}", c.name, c.type), Ref(c)) for i, c in enumerate(columns))
        return self.maker.outputs(self._some(columns), prefix)

    def _join(self, pattern: Join, left: Rel, right: Rel) -> Join:
        fit = [kind for kind in JOINS if name_of_hole(pattern.kind, kind)]
        kind = self.maker.rng.choice(fit) if fit else pattern.kind
        marker = self.maker.marker("M") if kind == "exists" else None
        scopes = [_keys_of(side) if self.maker.chance(0.8) else side.columns for side in (left, right)]
        on = self.maker.condition(scopes[0] or left.columns, scopes[1] or right.columns)
        if self.maker.chance(0.3):
            on = conjunction(on, self.maker.predicate(self.maker.rng.choice((left, right)).columns))
        self._set(pattern.kind, kind)
        self._set(pattern.marker, marker)
        return Join(left, right, kind, self._set(pattern.on, on), marker)

    def _aggregation(self, input: Rel, prefix: str) -> tuple[tuple[Output, ...], tuple[AggregateOutput, ...]]:
        below = [
            rel for rel in (input, *(input.inputs if isinstance(input, Join) else ())) if isinstance(rel, Aggregate)
        ]
        if not below or self.maker.chance(0.1):
            scope = self.maker.rng.choice(
                [input.columns, *(i.columns for i in input.inputs if isinstance(input, Join))]
            )
            keys = self._keys(input, f"{prefix}k")
            return keys, self.maker.aggregates(
                tuple(c for c in scope if c in input.columns) or input.columns, f"{prefix}a"
            )
        plain = tuple(c for c in input.columns if all(c not in _results(rel) for rel in below))
        keys = self.maker.keys(plain, f"{prefix}k") if plain else ()
        calls = [self._of(self.maker.rng.choice(below[0].aggregates)) for _ in range(self.maker.rng.choice((1, 2)))]
        outputs = (AggregateOutput(Column(f"{prefix}a{i}", f"a{i}", c.type), c) for i, c in enumerate(calls))
        return keys, tuple(outputs)

    def _keys(self, input: Rel, prefix: str) -> tuple[Output, ...]:
        """Keys; of a join of many often all columns of others that its condition reads, so that all rows of a group meet the same rows
        of the first."""
        if isinstance(input, MultiJoin) and self.maker.chance(0.6):
            read = [c for term in input.terms[1:] for c in term.columns if c in input.on.columns]
            return tuple(Output(Column(f"{prefix}{i}", f"{prefix}{i}", c.type), Ref(c)) for i, c in enumerate(read))
        return self.maker.keys(input.columns, prefix)

    def _of(self, output: AggregateOutput) -> AggregateCall:
        """An aggregate of an aggregate."""
        inner = output.call
        if inner.function in ("Min", "Max"):
            return AggregateCall(inner.function, (Ref(output.column),), inner.type)
        if inner.function not in ("Count", "Sum", "Average"):
            return AggregateCall("Count", (Ref(output.column),), "bigint")
        decimal = decimal_of(inner.type)
        whole = "double" if inner.type == "double" else "bigint"
        type = f"decimal({min(38, decimal[0] + 10)},{decimal[1]})" if decimal else whole
        return AggregateCall("Sum", (Ref(output.column),), type, detail="ANSI")


def _keys_of(rel: Rel) -> tuple[Column, ...]:
    return tuple(k.column for k in rel.keys) if isinstance(rel, Aggregate) else rel.columns


def _results(rel: Aggregate) -> tuple[Column, ...]:
    return tuple(a.column for a in rel.aggregates)
