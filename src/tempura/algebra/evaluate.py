"""A slow, obvious interpreter of the algebra over signed bags: the oracle for every rule, plan and executor.

Every operator is computed from its definition: joins by comparing each pair of rows whose keys may be equal, aggregates over all rows
of a group.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import NoReturn, cast

from tempura.algebra.bag import EMPTY, Row, SignedBag
from tempura.algebra.die import FIXED, Die
from tempura.algebra.evaluate_aggregate import PICKS, merged_slots, of_values, picked, slot_of
from tempura.algebra.evaluate_generate import evaluate_generate
from tempura.algebra.evaluate_scalar import evaluate as value_of
from tempura.algebra.evaluate_scalar import is_true, refuse_collation
from tempura.algebra.evaluate_window import evaluate_window
from tempura.algebra.expand import Expand
from tempura.algebra.failing import EQUATIONS, can_fail, keys_that_fail
from tempura.algebra.generate import Generate
from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.one import TOO_MANY_ROWS, One
from tempura.algebra.rel import (
    Aggregate,
    Consolidate,
    Filter,
    Join,
    Negate,
    Opaque,
    Project,
    Rel,
    Sort,
    Support,
    TopK,
    Union,
    Values,
)
from tempura.algebra.scalar import AggregateCall, Call, Column, Expr, Output, Ref, SortKey, conjuncts
from tempura.algebra.sql_order import Ordered, normalized, ordering_key
from tempura.algebra.states import Finalize, MergeStates, Partial, Slot
from tempura.algebra.window import Window
from tempura.errors import TempuraError

Leaf = Callable[[Rel], SignedBag]
"""What a leaf stands for: the rows of a table, of a view, of a state."""

Env = dict[Column, object]


def evaluate(rel: Rel, leaf: Leaf, die: Die = FIXED) -> SignedBag:
    """The signed bag that an expression denotes. ``leaf`` is asked for every leaf except ``Values``; shared operators are
    computed once. ``die`` decides what SQL leaves open.

    Raises TempuraError ``NEGATIVE_WEIGHT`` when a set-like input has a negative weight, ``NOT_INTERPRETED`` for an operator
    or a function that the interpreter does not know; ValueError for an expression that is not well formed.
    """
    return Evaluation(leaf, die).bag(rel)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Expressions that are computed together: what they share is computed once. ``done`` is what has been."""

    leaf: Leaf
    die: Die = FIXED
    done: dict[Rel, SignedBag] = field(default_factory=dict)

    def bag(self, rel: Rel) -> SignedBag:
        """See :func:`evaluate`."""
        if rel not in self.done:
            self.done[rel] = self.operator(rel, tuple(self.bag(input) for input in rel.inputs))
        return self.done[rel]

    def operator(self, rel: Rel, inputs: tuple[SignedBag, ...]) -> SignedBag:
        """One operator, over the bags that its inputs denote."""
        _require_positive(rel, inputs)
        if type(rel) in _OPEN:
            return _OPEN[type(rel)](self.die, rel, *inputs)
        if type(rel) in _OPERATORS:
            return _OPERATORS[type(rel)](rel, *inputs)
        if inputs or isinstance(rel, Opaque):
            raise TempuraError("NOT_INTERPRETED", f"the interpreter does not know {rel.label}.", "Run it on Spark.")
        return self.leaf(rel)


def _require_positive(rel: Rel, inputs: tuple[SignedBag, ...]) -> None:
    for i, (set_like, bag) in enumerate(zip(rel.set_like, inputs, strict=True)):
        if set_like and not bag.is_positive:
            gone = next(row for row, weight in bag.items() if weight < 0)
            raise TempuraError(
                "NEGATIVE_WEIGHT",
                f"input {i} of '{rel.label}' must be positive, but {gone} has a negative weight.",
                "Consolidate it with the rows that it takes away.",
            )


# --- linear operators -------------------------------------------------------------------------------------------------


def _values(rel: Values) -> SignedBag:
    return SignedBag.of(rel.rows)


def _filter(rel: Filter, rows: SignedBag) -> SignedBag:
    return SignedBag((row, w) for row, w in rows.items() if is_true(rel.predicate, _env(rel.input, row)))


def _project(rel: Project, rows: SignedBag) -> SignedBag:
    return SignedBag((_outputs(rel.outputs, _env(rel.input, row)), w) for row, w in rows.items())


def _expand(rel: Expand, rows: SignedBag) -> SignedBag:
    envs = [(_env(rel.input, row), w) for row, w in rows.items()]
    return SignedBag((_outputs(projection, env), w) for env, w in envs for projection in rel.projections)


def _union(rel: Union, *terms: SignedBag) -> SignedBag:
    if any(term.columns != rel.columns for term in rel.terms):
        raise ValueError(f"the terms of a union have different columns: {rel}")
    return sum(terms, EMPTY)


def _sort(rel: Sort, rows: SignedBag) -> SignedBag:
    return rows


def _negate(rel: Negate, rows: SignedBag) -> SignedBag:
    return -rows


def _consolidate(rel: Consolidate, rows: SignedBag) -> SignedBag:
    return rows


def _support(rel: Support, rows: SignedBag) -> SignedBag:
    return rows.reweigh(lambda weight: 1)


def _env(rel: Rel, row: Row) -> Env:
    return dict(zip(rel.columns, row, strict=True))


def _outputs(outputs: tuple[Output, ...], env: Env) -> Row:
    return tuple(value_of(output.expr, env) for output in outputs)


def _one(rel: One, rows: SignedBag) -> SignedBag:
    if rows.size > 1:
        _too_many_rows(rows.size)
    return rows if rows.size else SignedBag.of([(None,) * len(rel.columns)])


# --- joins, from their definition -------------------------------------------------------------------------------------


def _join(rel: Join, left: SignedBag, right: SignedBag) -> SignedBag:
    if set(rel.left.columns) & set(rel.right.columns):
        raise ValueError(f"the sides of a join share columns: {rel.label}")
    _compute_keys(rel, left, right)
    pairs = _pairs(rel, left, right)
    matched_left, matched_right = (SignedBag.of(side) for side in zip(*pairs, strict=True)) if pairs else (EMPTY, EMPTY)
    inner = SignedBag((a + b, left.weight(a) * right.weight(b)) for a, b in pairs)
    left_alone, right_alone = _without(left, matched_left), _without(right, matched_right)
    match rel.kind:
        case "inner":
            return inner
        case "semi":
            return left - left_alone
        case "anti":
            return left_alone
        case "exists":
            return _marked(left - left_alone, True) + _marked(left_alone, False)
        case "single":
            _require_single(pairs, right)
            return inner + _padded(left_alone, 0, len(rel.right.columns))
        case "left":
            return inner + _padded(left_alone, 0, len(rel.right.columns))
        case "full":
            padded_right = _padded(right_alone, len(rel.left.columns), 0)
            return inner + _padded(left_alone, 0, len(rel.right.columns)) + padded_right


def _compute_keys(rel: Join | MultiJoin, *inputs: SignedBag) -> None:
    """Keys that may fail do so for any row of an input, also for one that is compared with none."""
    columns = tuple(input.columns for input in rel.inputs)
    for side, rows, keys in zip(rel.inputs, inputs, keys_that_fail(rel.on, columns), strict=True):
        for env in [_env(side, row) for row, _ in rows.items()] if keys else ():
            for key in keys:
                value_of(key, env)


def _require_single(pairs: list[tuple[Row, Row]], right: SignedBag) -> None:
    matches = SignedBag((a, right.weight(b)) for a, b in pairs)
    several = [row for row, number in matches.items() if number > 1]
    if several:
        _too_many_rows(matches.weight(several[0]))


def _too_many_rows(number: int) -> NoReturn:
    what = f"a scalar sub-query has {number} rows."
    raise TempuraError(TOO_MANY_ROWS, what, "Let it give one row, for instance with an aggregate or LIMIT 1.")


def _multi_join(rel: MultiJoin, *terms: SignedBag) -> SignedBag:
    if len(set(rel.columns)) < len(rel.columns):
        raise ValueError(f"the terms of a join share columns: {rel.label}")
    picks = product(*(term.items() for term in terms))
    found = ((sum((row for row, _ in pick), ()), math.prod(weight for _, weight in pick)) for pick in picks)
    return SignedBag((row, weight) for row, weight in found if is_true(rel.on, _env(rel, row)))


def _pairs(rel: Join, left: SignedBag, right: SignedBag) -> list[tuple[Row, Row]]:
    """The pairs of rows that match, in their order. Rows whose keys differ do not; such a pair is looked at all the same where the
    condition may fail."""
    keys = _equated(rel) if left and right and not can_fail(rel.on) else []
    found: dict[Ordered, list[Row]] = {}
    for b in [row for row, _ in right.items()]:
        found.setdefault(tuple(ordering_key(b[j]) for _, j in keys), []).append(b)
    candidates = ((a, found.get(tuple(ordering_key(a[i]) for i, _ in keys), ())) for a, _ in left.items())
    return [(a, b) for a, rows in candidates for b in rows if _matches(rel, a, b)]


def _equated(rel: Join) -> list[tuple[int, int]]:
    """The columns of the left and the right side, by position, that the condition equates."""
    left, right = ({Ref(column): i for i, column in enumerate(input.columns)} for input in rel.inputs)
    parts = [part for part in conjuncts(rel.on) if isinstance(part, Call) and part.function in EQUATIONS]
    operands = [(a, b) for part in parts for a, b in (part.operands, part.operands[::-1]) if a in left and b in right]
    refuse_collation(*(operand.type for pair in operands for operand in pair))
    return [(left[a], right[b]) for a, b in operands]  # type: ignore[index]


def _matches(rel: Join, left: Row, right: Row) -> bool:
    return is_true(rel.on, _env(rel.left, left) | _env(rel.right, right))


def _without(rows: SignedBag, matched: SignedBag) -> SignedBag:
    return SignedBag((row, w) for row, w in rows.items() if not matched.weight(row))


def _marked(rows: SignedBag, found: bool) -> SignedBag:
    return SignedBag(((*row, found), w) for row, w in rows.items())


def _padded(rows: SignedBag, before: int, after: int) -> SignedBag:
    return SignedBag(((None,) * before + row + (None,) * after, w) for row, w in rows.items())


# --- aggregation ------------------------------------------------------------------------------------------------------

Group = list[tuple[Env, int]]
"""The rows of a group with their weights."""


def _grouped(rel: Aggregate | Partial, rows: SignedBag) -> Iterable[tuple[Row, Group]]:
    """The groups by SQL's equality of the keys, with NULL equal to NULL. Without keys there is one, even over no rows."""
    refuse_collation(*(key.column.type for key in rel.keys))
    groups: dict[Ordered, tuple[Row, Group]] = {} if rel.keys else {ordering_key(()): ((), [])}
    for row, weight in rows.items():
        env = _env(rel.input, row)
        key = cast(Row, normalized(_outputs(rel.keys, env)))
        groups.setdefault(ordering_key(key), (key, []))[1].append((env, weight))
    return groups.values()


def _aggregate(die: Die, rel: Aggregate, rows: SignedBag) -> SignedBag:
    calls = [output.call for output in rel.aggregates]
    return SignedBag.of(key + tuple(_call(die, c, group) for c in calls) for key, group in _grouped(rel, rows))


def _call(die: Die, call: AggregateCall, group: Group) -> object:
    """The value of an aggregate function over a group."""
    arguments = [(tuple(value_of(e, env) for e in call.operands), w) for env, w in _filtered(call.filter, group)]
    if call.function in PICKS:
        return picked(call, arguments, die)
    present = [(values, w) for values, w in arguments if None not in values]
    if call.distinct:
        refuse_collation(*(operand.type for operand in call.operands))
        different = {ordering_key(values): cast(Row, normalized(values)) for values, _ in present}
        present = [(values, 1) for values in different.values()]
    if call.function == "Count":
        return sum(w for _, w in present)
    return of_values(call, present, die)


def _filtered(predicate: Expr | None, group: Group) -> Group:
    return group if predicate is None else [(env, w) for env, w in group if is_true(predicate, env)]


# --- aggregation states -----------------------------------------------------------------------------------------------


def _partial(die: Die, rel: Partial, rows: SignedBag) -> SignedBag:
    slots = rel.layout.slots
    return SignedBag.of(key + tuple(_slot(die, slot, group) for slot in slots) for key, group in _grouped(rel, rows))


def _slot(die: Die, slot: Slot, group: Group) -> object:
    args = [arg for arg in (slot.arg, slot.other) if arg is not None]
    valued = [(tuple(value_of(arg, env) for arg in args), w) for env, w in _filtered(slot.filter, group)]
    return slot_of(slot, [(values, w) for values, w in valued if None not in values], die)


def _merge_states(die: Die, rel: MergeStates, left: SignedBag, right: SignedBag) -> SignedBag:
    width, slots = len(rel.layout.keys), rel.layout.slots
    groups: dict[Ordered, list[Row]] = {}
    for row in (*left.rows(), *right.rows()):
        groups.setdefault(ordering_key(row[:width]), []).append(row)
    merged = (rows[0][:width] + merged_slots(slots, [row[width:] for row in rows], die) for rows in groups.values())
    return SignedBag.of(row for row in merged if not width or row[width] != 0)


def _finalize(rel: Finalize, states: SignedBag) -> SignedBag:
    rows = len(rel.layout.keys)
    alive = ((row, w) for row, w in states.items() if not rel.keys or row[rows] != 0)
    columns = rel.layout.columns
    return SignedBag((_outputs(rel.outputs, dict(zip(columns, row, strict=True))), w) for row, w in alive)


# --- top-k ------------------------------------------------------------------------------------------------------------


def _top(rel: TopK, rows: SignedBag) -> SignedBag:
    kept: list[tuple[Row, int]] = []
    free = rel.limit
    for row, weight in _ranked(rel, list(rows.items())):
        kept.append((row, min(weight, free)))
        free -= kept[-1][1]
    return SignedBag(kept)


def _ranked(rel: TopK | Window, rows: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
    """The rows in an operator's order, ties in the order of all columns."""
    ranked = sorted(rows, key=lambda entry: _tie_break(entry[0]))
    for key in reversed(rel.order):
        ranked = _by_key(rel, key, ranked)
    return ranked


def _tie_break(row: Row) -> tuple[Ordered, str]:
    """All columns ascending, NULLs first; then, for rows that SQL cannot tell apart, their text."""
    return (ordering_key(row), repr(row))


def _by_key(rel: TopK | Window, key: SortKey, rows: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
    """A stable sort by one key."""
    refuse_collation(key.expr.type)
    values = {id(entry): value_of(key.expr, _env(rel.input, entry[0])) for entry in rows}
    nulls = [entry for entry in rows if values[id(entry)] is None]
    proper = [entry for entry in rows if values[id(entry)] is not None]
    proper.sort(key=lambda entry: ordering_key(values[id(entry)]), reverse=not key.ascending)
    return nulls + proper if key.nulls_first else proper + nulls


def _generate(rel: Generate, rows: SignedBag) -> SignedBag:
    return evaluate_generate(rel, rows)


def _window(die: Die, rel: Window, rows: SignedBag) -> SignedBag:
    return evaluate_window(rel, rows, _ranked, partial(_call, die))


_OPERATORS: Mapping[type[Rel], Callable[..., SignedBag]] = {
    Values: _values, Filter: _filter, Project: _project, Union: _union, Sort: _sort, Negate: _negate,
    Consolidate: _consolidate, Support: _support, Join: _join, Finalize: _finalize, TopK: _top, One: _one, Expand: _expand,
    Generate: _generate, MultiJoin: _multi_join,
}  # fmt: skip

_OPEN: Mapping[type[Rel], Callable[..., SignedBag]] = {
    Aggregate: _aggregate, Partial: _partial, MergeStates: _merge_states, Window: _window,
}  # fmt: skip
"""Operators of which SQL may leave something open."""
