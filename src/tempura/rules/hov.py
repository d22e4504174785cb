"""HOV, higher-order views (Ahmad et al., VLDB 2012; Tempura, section 4.2): what does not change is joined, and aggregated, beforehand.

``Δγ(R ⋈ S ⋈ T) = γ'(ΔR ⋈ M[R])`` where ``M[R] = γ''(S ⋈ T)`` is aggregated by what the join with R and the keys read of it. M[R] is a TVR
like any other, and an aggregation over a join: it is kept as a state, and its own changes follow by the same laws, from ``M[R][S]`` and
``M[R][T]``. The tables change one after the other, so each has views of its own. Relations that do not hang together without
the one that changes are views by themselves; never a product.

What is added up has to be a sum of products, each factor of one side, in exact arithmetic (``rules.products``). What cannot be taken apart
so has its columns among those that views are grouped by; a side that then does not shrink is only joined beforehand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tempura.algebra.failing import call_can_fail, can_fail, is_upcast
from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Aggregate, Join, Rel
from tempura.algebra.scalar import (
    AggregateCall,
    AggregateOutput,
    Column,
    Expr,
    Output,
    Ref,
    conjunction,
    conjuncts,
)
from tempura.algebra.states import Slot, decimal_of, is_linear, state_layout
from tempura.errors import Reason
from tempura.rules.dsl import (
    TVR_GENERATING,
    Aggs,
    Always,
    Expected,
    Facts,
    Keys,
    On,
    OnAll,
    Rewrite,
    Rule,
    Sides,
    Time,
    rewrite,
    rule,
)
from tempura.rules.helpers import all_linear, is_safe, joined, kept, read_by, states_exist, sum_of
from tempura.rules.parts import cast, sum_type
from tempura.rules.sides import SidesOfJoin, SideView
from tempura.tvr.tvr import Bag, Tvr

# --- what a row of a join adds to a state -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Addends:
    """An aggregation over a ``join`` of sides some of which are views: what a row adds to each slot of the state."""

    join: Tvr
    outputs: tuple[Output, ...]
    gains: bool

    @staticmethod
    def of(
        join: Callable[[], Tvr], sides: SidesOfJoin, keys: tuple[Output, ...], slots: tuple[Slot, ...], gains: bool
    ) -> "Addends | None":
        """None where views do not tell. The join is made once it is known what is asked of them. ``gains``: it has views, or joins that
        are made beforehand."""
        found = [(slot, sides.addend(slot)) for slot in slots]
        outputs = tuple(Output(_added(slot), _with_room(value, _added(slot).type)) for slot, value in found if value)
        return Addends(join(), keys + outputs, gains) if len(outputs) == len(slots) else None

    def between(self, t: Time, u: Time) -> Bag:
        """The rows that are added."""
        return self.join[t:u].project(self.outputs)


def _added(slot: Slot) -> Column:
    """The column for what is added to a slot. Totals of integers may leave 64 bits on the way."""
    if slot.kind != "total":
        return slot.column.derived("added", "bigint")
    assert slot.arg is not None
    scale = (decimal_of(slot.arg.type) or (38, 0))[1]
    return slot.column.derived("added", f"decimal(38,{scale})")


def _with_room(value: Expr, type: str) -> Expr:
    """Of a type that has room, or an error."""
    return cast(value, type, "legacy" if type == "bigint" or is_upcast(value.type, type) else "ansi")


def _state(added: Bag, keys: tuple[Output, ...], slots: tuple[Slot, ...]) -> Bag:
    """The state in which rows are added up: their totals, in the types of the slots."""
    sums = tuple(
        AggregateOutput(
            _added(slot).derived("sum", sum_type(_added(slot).type)),
            AggregateCall("Sum", (Ref(_added(slot)),), sum_type(_added(slot).type), detail="ansi"),
        )
        for slot in slots
    )
    groups = tuple(Output(key.column, Ref(key.column)) for key in keys)
    totals = [state_layout(groups, sums).find("total", Ref(_added(slot)), None) for slot in slots]
    columns = (
        Output(slot.column, _with_room(Ref(total), slot.column.type)) for slot, total in zip(slots, totals, strict=True)
    )
    return added.partial(groups, sums).project((*groups, *columns))


# --- joins with views -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """A join cut into the ``changing`` relations and those that hang together without them: ``parts`` with the conditions inside each.
    ``on`` are the conditions that are left."""

    changing: tuple[Tvr, ...]
    parts: tuple[Tvr, ...]
    on: Expr

    @staticmethod
    def of(terms: tuple[Tvr, ...], on: Expr, changing: frozenset[int]) -> "Cut":
        conditions = conjuncts(on)
        members = [tuple(terms[i] for i in group) for group in _hanging_together(terms, conditions, changing)]
        inside = [_inside(conditions, part) if len(part) > 1 else () for part in members]
        parts = [joined(p, conjunction(*own)) if own else p[0] for p, own in zip(members, inside, strict=True)]
        taken = {condition for own in inside for condition in own}
        left = conjunction(*(condition for condition in conditions if condition not in taken))
        return Cut(tuple(terms[i] for i in sorted(changing)), tuple(parts), left)

    def joined_with(self, instead: Mapping[Rel, Tvr], wanted: frozenset[Column]) -> Tvr:
        """The join over its parts, or what stands for them; of parts that are joined the columns that are wanted."""
        taken = wanted | self.on.columns
        plain = {part.rel: kept(part, taken) if isinstance(part.rel, MultiJoin) else part for part in self.parts}
        return joined((*self.changing, *(instead.get(part.rel, plain[part.rel]) for part in self.parts)), self.on)

    @property
    def has_joins(self) -> bool:
        """Whether some relations are joined without those that change."""
        return any(isinstance(part.rel, MultiJoin) for part in self.parts)


def _hanging_together(
    terms: tuple[Tvr, ...], conditions: tuple[Expr, ...], without: frozenset[int]
) -> list[tuple[int, ...]]:
    """The other relations in groups, each of which hangs together by conditions on these alone; so none is a product."""
    groups: list[tuple[int, ...]] = [(i,) for i in range(len(terms)) if i not in without]
    for condition in conditions:
        read = {i for i, term in enumerate(terms) if condition.columns & frozenset(term.columns)}
        touched = [group for group in groups if read & set(group)]
        if len(touched) > 1 and not read & without:
            groups = [group for group in groups if group not in touched] + [tuple(sorted(sum(touched, ())))]
    return sorted(groups)


def _inside(conditions: tuple[Expr, ...], part: tuple[Tvr, ...]) -> tuple[Expr, ...]:
    columns = frozenset(column for term in part for column in term.columns)
    return tuple(condition for condition in conditions if condition.columns and condition.reads_only(columns))


def _cuts(terms: tuple[Tvr, ...], on: Expr, facts: Facts, t: Time, u: Time) -> list[tuple[Time, Time, Cut]]:
    """The interval in steps in which one table changes after the other, with what hangs together beside that."""
    found = []
    for p, q in pairwise((t, *facts.points(joined(terms, on), t, u), u)):
        changing = frozenset(i for i, term in enumerate(terms) if not facts.unchanged(term, p, q))
        found += [(p, q, Cut.of(terms, on, changing))] if changing else []
    return found


# --- views of the sides -----------------------------------------------------------------------------------------------


def _read_by(slots: tuple[Slot, ...]) -> frozenset[Column]:
    return frozenset().union(*(part.columns for slot in slots for part in (slot.arg, slot.filter) if part))


def _views(
    sides: tuple[Tvr, ...], read: frozenset[Column], slots: tuple[Slot, ...], padded: Tvr | None = None
) -> SidesOfJoin:
    """Sides that can be aggregated as views: by the columns that are ``read``, and by those of slots that cannot be taken apart."""
    found = SidesOfJoin.of(sides, read, padded)
    mixed = _read_by(tuple(slot for slot in slots if found.addend(slot) is None))
    return SidesOfJoin.of(sides, read | mixed, padded)


def _pays(view: SideView, always: Always, expected: Expected) -> bool:
    """Whether a view is expected to have far fewer groups than there are rows."""
    return not always.is_unique(view.side, view.columns) and expected.shrinks(view.side, view.columns)


def _over_views(
    cut: Cut, keys: tuple[Output, ...], slots: tuple[Slot, ...], always: Always, expected: Expected
) -> Addends | None:
    """An aggregation over a join by views of what does not change."""
    read = cut.on.columns | read_by(keys)
    views = tuple(view for view in _views(cut.parts, read, slots).views if _pays(view, always, expected))

    def join() -> Tvr:
        aggregated = {view.side.rel: view.aggregated for view in views}
        return cut.joined_with(aggregated, read | _read_by(slots))

    return Addends.of(join, SidesOfJoin(views), keys, slots, gains=cut.has_joins or bool(views))


def _over_padded_views(
    L: Tvr,
    R: Tvr,
    on: Expr,
    left_changes: bool,
    keys: tuple[Output, ...],
    slots: tuple[Slot, ...],
    pays: Callable[[SideView], bool],
) -> Addends | None:
    """An aggregation over a left outer join by views: of the right side, and of the left one while that does not change."""
    views = _views((R,) if left_changes else (L, R), on.columns | read_by(keys), slots, padded=R).views
    worth = tuple(view for view in views if view.padded or pays(view))
    if not any(view.padded for view in worth):
        return None

    def join() -> Tvr:
        left = next((view.aggregated for view in worth if not view.padded), L)
        return left.left_join(next(view.aggregated for view in worth if view.padded), on)

    return Addends.of(join, SidesOfJoin(worth), keys, slots, gains=any(map(pays, worth)))


def _is_additive(keys: tuple[Output, ...], aggs: tuple[AggregateOutput, ...]) -> bool:
    """Whether an aggregation is of sums and counts, of values that do not fail: between two steps there are pairs of rows that the query
    never sees."""
    return all_linear(aggs) and not any(can_fail(k.expr) for k in keys) and not any(call_can_fail(a.call) for a in aggs)


# --- the laws ---------------------------------------------------------------------------------------------------------


@rule(TVR_GENERATING, cite=(1, 6))
def state_delta_by_views(
    terms: Sides,
    on: OnAll,
    keys: Keys,
    aggs: Aggs,
    t: Time,
    u: Time,
    facts: Facts,
    always: Always,
    expected: Expected,
) -> Rewrite:
    """state(R ⋈ S ⋈ ...)[t:u] = partial(ΔR ⋈ M[R] + ΔS ⋈ M[S] + ...)      M[R] = the others, joined and aggregated

    For sums and counts. One table changes after the other: M[S] is as it is when R has changed and S has not. M[R] is grouped by
    what the join with R and the keys read; it is only joined where grouping does not make it smaller.
    """
    A = joined(terms, on).aggregate(keys, aggs)
    if can_fail(on) or not _is_additive(keys, aggs):
        return rewrite(A.state[t:u], A.state[t:u], where=False)
    slots = state_layout(keys, aggs).slots
    cuts = _cuts(terms, on, facts, t, u)
    return _summed(A, [(p, q, _over_views(cut, keys, slots, always, expected)) for p, q, cut in cuts], t, u)


@rule(TVR_GENERATING, cite=(1, 6))
def state_delta_by_padded_views(
    L: Tvr, R: Tvr, on: On, keys: Keys, aggs: Aggs, t: Time, u: Time, facts: Facts, always: Always, expected: Expected
) -> Rewrite:
    """state(L ⟕ R)[t:u] = partial(ΔL ⟕ M[L] + Δ(M[R] ⟕ M[L]))      M[L], M[R] = R and L, aggregated

    For sums and counts. ⟕ is linear on the left. When R changes, the groups of M[R] that match a changed group of M[L] are joined again,
    with M[L] as it was and as it is (``delta_left_join``). What matches no group counts as one row with NULLs.
    """
    A = L.left_join(R, on).aggregate(keys, aggs)
    if not is_safe(L.columns, R.columns, on) or not _is_additive(keys, aggs):
        return rewrite(A.state[t:u], A.state[t:u], where=False)
    slots = state_layout(keys, aggs).slots

    def added(p: Time, q: Time) -> Addends | None:
        changes = not facts.unchanged(L, p, q)
        return _over_padded_views(L, R, on, changes, keys, slots, lambda view: _pays(view, always, expected))

    steps = pairwise((t, *facts.points(L.left_join(R, on), t, u), u))
    return _summed(A, [(p, q, added(p, q)) for p, q in steps], t, u)


def _summed(A: Tvr, steps: Sequence[tuple[Time, Time, Addends | None]], t: Time, u: Time) -> Rewrite:
    """The delta of a state from what each step adds, if views gain something in one of them and tell it in all."""
    rel = A.rel
    assert isinstance(rel, Aggregate)
    known = [(p, q, addends) for p, q, addends in steps if addends is not None]
    if len(known) < len(steps) or not any(addends.gains for _, _, addends in known):
        return rewrite(A.state[t:u], A.state[t:u], where=False)
    rows = sum_of(tuple(addends.between(p, q) for p, q, addends in known))
    return rewrite(A.state[t:u], _state(rows, rel.keys, state_layout(rel.keys, rel.aggregates).slots))


@rule(TVR_GENERATING, cite=(1, 6))
def delta_multi_join_by_views(terms: Sides, on: OnAll, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(R ⋈ S ⋈ ...) = ΔR ⋈ M[R] + ΔS ⋈ M[S] + ...      M[R] = the others, joined

    For what is not added up: the relations that hang together without the one that changes are joined beforehand.
    """
    X = joined(terms, on)
    cuts = _cuts(terms, on, facts, t, u)
    if can_fail(on) or not any(cut.has_joins for _, _, cut in cuts):
        return rewrite(X[t:u], X[t:u], where=False)
    wanted = frozenset(X.columns)
    outputs = tuple(Output(c, Ref(c)) for c in X.columns)
    rows = tuple(cut.joined_with({}, wanted)[p:q].project(outputs) for p, q, cut in cuts)
    return rewrite(X[t:u], sum_of(rows))


def why_without_views(rel: Rel, facts: Facts) -> Reason | None:
    """Why an aggregation over a join has no views; None where prices decide, and for what is no aggregation over a join."""
    if not isinstance(rel, Aggregate) or not any(isinstance(part, Join | MultiJoin) for part in rel.input.walk()):
        return None
    for call in (output.call for output in rel.aggregates):
        if not is_linear(call):
            return Reason("HOV_NOT_A_SUM", f"{call} is no exact sum or count, so it is not made of those of the sides")
        if call_can_fail(call):
            return Reason("HOV_CAN_FAIL", f"{call} may fail for rows that the query never joins")
    return None


@rule(TVR_GENERATING, cite=(1,), why=why_without_views)
def state_delta_without_views(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """state(X)[t:u] = partial(ΔX)

    As ``state_delta``; ``explain`` says why there are no views, where they cannot be had.
    """
    A = X.aggregate(keys, aggs)
    return rewrite(A.state[t:u], X[t:u].partial(keys, aggs), where=states_exist(aggs))


HIGHER_ORDER: tuple[Rule, ...] = (state_delta_by_views, state_delta_by_padded_views, delta_multi_join_by_views)
