"""What relations have in common that are alike but for conditions: one of which each has the rows that meet its own.

    A = π σ_p C      B = π σ_q C

C is a table, a join or an aggregation, over what the inputs have in common in this sense. It has the columns that any of them reads and
the rows that any of them has: a condition on an input is one on the rows above it, as long as these tell whether it is met. An aggregation
keeps what conditions ask of its keys, and of columns that each of them asks for one value: by these, too, its rows are grouped then.

Nothing that may fail is computed of a row of which the query does not compute it: conditions that may fail are not taken apart from their
rows, and an aggregate that may fail is one of each of the relations.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tempura.algebra.canonical import fingerprint
from tempura.algebra.failing import call_can_fail, can_fail
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, keep, where
from tempura.algebra.scalar import (
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    conjunction,
    conjuncts,
    disjunction,
    substitute,
    substitute_in_call,
)
from tempura.algebra.sql_order import equality_is_identity
from tempura.algebra.states import has_exact_state
from tempura.rules.helpers import all_linear

Conditions = tuple[Expr, ...]
Meaning = Mapping[Column, Expr]


@dataclass(frozen=True, eq=False)
class Common:
    """Several relations as one, ``rel``, which has no other rows: those of each are the ones that meet its conditions (``kept``), and its
    columns are these ``values`` of the columns."""

    rel: Rel
    kept: tuple[Conditions, ...]
    values: tuple[Meaning, ...]


def common(rels: tuple[Rel, ...]) -> Common | None:
    """What some relations have in common; None where they are not alike, or where to say so would ask other rows what may fail."""
    peeled = [Peeled.of(rel) for rel in rels]
    below = _core([p.core for p in peeled])
    if below is None:
        return None
    asked = [_said(p.asked, meaning) for p, meaning in zip(peeled, below.values, strict=True)]
    if not may_be_asked(part for parts in asked for part in parts):
        return None
    if not all(value.deterministic for p in peeled for value in p.values.values()):
        return None
    shared = [part for part in asked[0] if all(part in parts for parts in asked)]
    own = [tuple(part for part in parts if part not in shared) for parts in asked]
    kept = tuple((*a, *b) for a, b in zip(below.kept, own, strict=True))
    rel = where(below.rel, conjunction(*shared, *(_any_of(kept) if any(own) else ())))
    values = tuple(
        {column: substitute(value, meaning) for column, value in p.values.items()}
        for p, meaning in zip(peeled, below.values, strict=True)
    )
    return Common(_with_what_is_read(rel, kept, values), kept, values)


def _with_what_is_read(rel: Rel, kept: Sequence[Conditions], values: Sequence[Meaning]) -> Rel:
    """A relation without columns that nothing reads any more, but for conditions that all have: so Catalyst would leave it."""
    read = {column for parts in kept for part in parts for column in part.columns}
    read |= {column for meaning in values for value in meaning.values() for column in value.columns}
    return keep(rel, tuple(column for column in rel.columns if column in read))


def _any_of(kept: Sequence[Conditions]) -> Conditions:
    """That a row is one which any of some relations keeps: the others are left out as soon as they are known."""
    return (disjunction(*dict.fromkeys(conjunction(*parts) for parts in kept)),) if all(kept) else ()


def _core(rels: Sequence[Rel]) -> Common | None:
    kind = type(rels[0])
    if any(type(rel) is not kind for rel in rels):
        return None
    found: Common | None = None
    if kind is Scan:
        return _scan([rel for rel in rels if isinstance(rel, Scan)])
    if kind is Join:
        found = _join([rel for rel in rels if isinstance(rel, Join)])
    elif kind is Aggregate:
        found = _aggregate([rel for rel in rels if isinstance(rel, Aggregate)])
    return found or _the_same(rels)


def _scan(scans: Sequence[Scan]) -> Common | None:
    """One that reads what any of them reads."""
    first = scans[0]
    if any(scan.table != first.table for scan in scans):
        return None
    columns: dict[str, Column] = {}
    for scan in scans:
        for field, column in zip(scan.fields, scan.outputs, strict=True):
            columns.setdefault(field, column)
    values = tuple(
        {column: Ref(columns[field]) for field, column in zip(scan.fields, scan.outputs, strict=True)} for scan in scans
    )
    return Common(Scan(first.table, tuple(columns), tuple(columns.values())), ((),) * len(scans), values)


_KEEPING_THE_LEFT = ("left", "semi", "anti")
"""Joins of which a condition on a row of the left side is one on what comes of it, and what the right side has is the same for all."""


def _join(joins: Sequence[Join]) -> Common | None:
    kind = joins[0].kind
    if any(join.kind != kind for join in joins) or kind not in ("inner", *_KEEPING_THE_LEFT):
        return None
    left = common(tuple(join.left for join in joins))
    right = common(tuple(join.right for join in joins)) if left else None
    if left is None or right is None:
        return None
    if kind in _KEEPING_THE_LEFT and not (_are_whole(right.kept) and _are_columns(right.values)):
        return None
    values = tuple({**a, **b} for a, b in zip(left.values, right.values, strict=True))
    asked = [_said(conjuncts(join.on), meaning) for join, meaning in zip(joins, values, strict=True)]
    if not may_be_asked(asked[0]) or any(set(parts) != set(asked[0]) for parts in asked):
        return None
    kept = tuple((*a, *b) for a, b in zip(left.kept, right.kept, strict=True))
    rel: Rel = Join(left.rel, right.rel, kind, conjunction(*asked[0]))
    if any(left.kept) and any(right.kept) and all(kept):
        # A row that one of them keeps has met another that only another keeps.
        rel = where(rel, conjunction(*_any_of(kept)))
    seen = tuple(
        {column: meaning[column] for column in join.columns} for join, meaning in zip(joins, values, strict=True)
    )
    return Common(rel, kept, seen)


def _are_whole(kept: Iterable[Conditions]) -> bool:
    """Whether each has all the rows."""
    return not any(kept)


def _are_columns(values: Iterable[Meaning]) -> bool:
    """Whether nothing is computed: a row without partner has NULL for a column, and need not for what is computed of columns."""
    return all(isinstance(value, Ref) for meaning in values for value in meaning.values())


def _aggregate(rels: Sequence[Aggregate]) -> Common | None:
    """Groups by the same keys. What a deletion is taken from is not put together with what is computed anew for one, as extremes are: it
    would be computed anew, too."""
    below = common(tuple(rel.input for rel in rels))
    if below is None or len(set(map(_upkeep, rels))) > 1:
        return None
    keys = [
        {key.column: substitute(key.expr, meaning) for key in rel.keys}
        for rel, meaning in zip(rels, below.values, strict=True)
    ]
    groups = {expr: column for column, expr in reversed(keys[0].items())}
    if any(set(own.values()) != groups.keys() for own in keys):
        return None
    added = _asked_for_one_value(below, groups)
    if added is None or not (groups or _are_whole(below.kept)):
        return None
    groups |= {Ref(column): column.primed() for column in added}
    computed = [
        {output.column: substitute_in_call(output.call, meaning) for output in rel.aggregates}
        for rel, meaning in zip(rels, below.values, strict=True)
    ]
    calls = {call: column for own in reversed(computed) for column, call in own.items()}
    if not all(arg.deterministic for call in calls for arg in call.arguments):
        return None
    if any(call_can_fail(call) and any(call not in own.values() for own in computed) for call in calls):
        return None
    made = Aggregate(
        below.rel,
        tuple(Output(column, expr) for expr, column in groups.items()),
        tuple(AggregateOutput(column, call) for call, column in calls.items()),
    )
    on_groups = {expr.column: Ref(column) for expr, column in groups.items() if isinstance(expr, Ref)}
    values = tuple(
        {**{c: Ref(groups[expr]) for c, expr in by.items()}, **{c: Ref(calls[call]) for c, call in own.items()}}
        for by, own in zip(keys, computed, strict=True)
    )
    return Common(made, tuple(_said(parts, on_groups) for parts in below.kept), values)


def _upkeep(rel: Aggregate) -> tuple[bool, bool]:
    """How the aggregates of groups are kept up to date."""
    return all_linear(rel.aggregates), all(has_exact_state(output.call) for output in rel.aggregates)


def _asked_for_one_value(below: Common, groups: Mapping[Expr, Column]) -> list[Column] | None:
    """The columns that conditions ask and that rows are not grouped by, each for one value; None where groups could not tell then which
    conditions their rows meet."""
    asked = {column for parts in below.kept for part in parts for column in part.columns}
    added = sorted((column for column in asked if Ref(column) not in groups), key=lambda column: column.id)
    tell = all(equality_is_identity(column.type) for column in asked)
    return added if tell and all(_is_one(column, parts) for column in added for parts in below.kept) else None


def _is_one(column: Column, conditions: Conditions) -> bool:
    """Whether conditions ask a column for one value."""
    return any(
        isinstance(part, Call)
        and part.function == "EqualTo"
        and Ref(column) in part.operands
        and any(isinstance(operand, Literal) and operand.value is not None for operand in part.operands)
        for part in conditions
    )


def _the_same(rels: Sequence[Rel]) -> Common | None:
    """The first of some relations that are the same one but for the names of columns."""
    first = rels[0]
    if len({fingerprint(rel) for rel in rels}) > 1:
        return None
    values = tuple(dict(zip(rel.columns, map(Ref, first.columns), strict=True)) for rel in rels)
    return Common(first, ((),) * len(rels), values)


def _said(conditions: Iterable[Expr], meaning: Meaning) -> Conditions:
    return tuple(substitute(part, meaning) for part in conditions)


def may_be_asked(conditions: Iterable[Expr]) -> bool:
    """Whether conditions may be asked of other rows than the query asks them of."""
    return all(part.deterministic and not can_fail(part) for part in conditions)


@dataclass(frozen=True, eq=False)
class Peeled:
    """A relation as conditions on and values of the columns of its ``core``, which is neither filter nor projection."""

    core: Rel
    asked: Conditions
    values: Meaning

    @staticmethod
    def of(rel: Rel) -> "Peeled":
        """Take filters and projections off."""
        if not isinstance(rel, Filter | Project):
            return Peeled(rel, (), {column: Ref(column) for column in rel.columns})
        below = Peeled.of(rel.input)
        if isinstance(rel, Filter):
            asked = conjuncts(substitute(rel.predicate, below.values))
            return replace(below, asked=(*below.asked, *asked))
        values = {output.column: substitute(output.expr, below.values) for output in rel.outputs}
        return replace(below, values=values)
