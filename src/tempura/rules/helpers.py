"""What the laws cannot say in the algebra: properties of operators and of aggregates."""

from collections import Counter
from collections.abc import Collection

from tempura.algebra.failing import can_fail, fails_on_pairs
from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Aggregate, Join, JoinKind, Opaque, Rel, TopK, Union, keep
from tempura.algebra.scalar import (
    TRUE,
    AggregateCall,
    AggregateOutput,
    Column,
    Expr,
    Output,
    Ref,
    conjunction,
    conjuncts,
    same,
)
from tempura.algebra.states import (
    averages_exactly,
    has_exact_state,
    is_linear,
    is_rounded,
    picks_among_equals,
    why_no_state,
)
from tempura.algebra.window import ENDS, OFFSETS, RANKS, Window
from tempura.errors import Reason
from tempura.tvr.tvr import Bag, Tvr

_FUNCTIONS_OF_A_BAG = {
    "Count", "Sum", "Average", "Min", "Max", "BoolAnd", "BoolOr", "BitAndAgg", "BitOrAgg", "BitXorAgg", "Percentile",
    "HyperLogLogPlusPlus", "CountIf", "Median", "PercentileDisc", "PercentileCont",
}  # fmt: skip
"""Aggregates whose value is determined by the bag of their inputs, in whatever order these come (floating point aside)."""


_ROUNDED_WITHOUT_STATE = frozenset((
    "Skewness", "Kurtosis", "Corr", "RegrSXX", "RegrSXY", "RegrSYY", "RegrR2", "RegrSlope", "RegrIntercept", "RegrReplacement",
    "PearsonCorrelation",
))  # fmt: skip
"""Aggregates of floats that the order of the rows changes in the last digits only, beside those of ``is_rounded``."""

_OF_ORDERED_ROWS = RANKS | OFFSETS | ENDS
"""Window functions whose value is determined by the order of the rows, which a window makes a function of the bag."""

BY_ROW = ("left", "semi", "anti", "exists")
"""Joins in which a row of the left side has the same result, whatever other rows there are on that side."""


def states_exist(aggregates: tuple[AggregateOutput, ...]) -> bool:
    """Whether every aggregate has a mergeable state."""
    return all(why_no_state(a.call) is None for a in aggregates)


def exact_states_exist(aggregates: tuple[AggregateOutput, ...]) -> bool:
    """Whether every aggregate has a state that merges to the last digit, so that it does not matter how it came about."""
    return all(has_exact_state(a.call) for a in aggregates)


def all_linear(aggregates: tuple[AggregateOutput, ...]) -> bool:
    """Whether every aggregate's state is linear, so that deletions can be subtracted."""
    return all(is_linear(a.call) for a in aggregates)


def order_sensitivity(rel: Rel) -> Reason | None:
    """Why the values of an operator depend on the physical order of its input: two computations of one snapshot may differ.

    Then its snapshots are computed once each and never recomputed later (see ``merge_snapshot``), and a delta takes away what was
    stored, never a recomputation of it.
    """
    if isinstance(rel, Opaque):
        return rel.reason
    if not isinstance(rel, Aggregate | Window):
        return None
    for call in (a.call for a in (rel.aggregates if isinstance(rel, Aggregate) else rel.functions)):
        if isinstance(rel, Window) and call.function in _OF_ORDERED_ROWS:
            continue
        if _differs_by_rounding(call) or (isinstance(rel, Window) and averages_exactly(call)):
            return Reason("FLOAT_SUM", f"{call} depends on the order of additions")
        if picks_among_equals(call):
            return Reason(
                "ORDER_SENSITIVE", f"{call} takes the first of values that are equal and differ, as -0.0 and 0.0"
            )
        if picks_by_order(call):
            return Reason("ORDER_SENSITIVE", f"{call} depends on the order of its input rows")
    return None


def picks_by_order(call: AggregateCall) -> bool:
    """Whether an aggregate has several right answers for one bag, beyond rounding and beyond what SQL holds for equal: FIRST, collected
    lists, what is not known."""
    return call.function not in _FUNCTIONS_OF_A_BAG and not _differs_by_rounding(call)


def _differs_by_rounding(call: AggregateCall) -> bool:
    return is_rounded(call) or call.function in _ROUNDED_WITHOUT_STATE


def is_order_sensitive(rel: Rel) -> bool:
    """Whether two computations of the operator over one input may differ."""
    return order_sensitivity(rel) is not None


def why_recomputed(rel: Rel) -> Reason | None:
    """Why an operator is recomputed from its maintained input rather than by a delta; None when it has a delta."""
    if isinstance(rel, TopK):
        only = f"only the sort is repeated: the first {rel.limit} rows are taken from the input as it stands"
        return Reason("TOP_K", f"{only}, for any row may replace a deleted one")
    if isinstance(rel, Join | MultiJoin) and not compares_safely(rel):
        return Reason("CAN_FAIL", f"{rel.on} may fail for rows that the query never compares")
    if isinstance(rel, Aggregate) and not rel.keys and not all_linear(rel.aggregates):
        return order_sensitivity(rel) or next(_why_not_linear(a.call) for a in rel.aggregates if not is_linear(a.call))
    if isinstance(rel, Window) and not rel.partition:
        return order_sensitivity(rel) or Reason(
            "WINDOW_WITHOUT_PARTITION", "a change of any row may change the values of all rows"
        )
    return None


def compares_safely(rel: Join | MultiJoin) -> bool:
    """Whether the rows of a join's inputs at different times may be compared: the condition does not fail for any two."""
    if isinstance(rel, MultiJoin):
        return not can_fail(rel.on)
    return is_safe(rel.left.columns, rel.right.columns, rel.on)


def is_safe(left: tuple[Column, ...], right: tuple[Column, ...], on: Expr) -> bool:
    """Whether a join condition does not fail for any two rows."""
    return not fails_on_pairs(on, left, right)


def _why_not_linear(call: AggregateCall) -> Reason:
    return why_no_state(call) or Reason("EXTREME_DELETED", f"{call} cannot be maintained when rows are deleted")


def rows_of_changed_groups(X: Bag, changed: Bag, keys: tuple[Output, ...]) -> Bag:
    """The rows of X whose group (by ``keys``, NULL equal to NULL) has a row in ``changed``.

    The support comes first: projected to the keys, an update (one row deleted, one inserted in the same group) cancels out.
    """
    return _of_changed_groups(X, changed, keys, tuple(k.expr for k in keys))


def results_of_changed_groups(A: Bag, changed: Bag, keys: tuple[Output, ...]) -> Bag:
    """The rows of an aggregation's result or state, one per group, whose group has a row in ``changed``."""
    return _of_changed_groups(A, changed, keys, tuple(Ref(k.column) for k in keys))


def results_of_other_groups(A: Bag, changed: Bag, keys: tuple[Output, ...]) -> Bag:
    """The rows of an aggregation's result or state whose group has no row in ``changed``."""
    return _of_changed_groups(A, changed, keys, tuple(Ref(k.column) for k in keys), "anti")


def _of_changed_groups(
    rows: Bag, changed: Bag, keys: tuple[Output, ...], exprs: tuple[Expr, ...], how: JoinKind = "semi"
) -> Bag:
    groups = changed.support().project(tuple(Output(k.column.primed(), k.expr) for k in keys)).support()
    on = conjunction(*(same(expr, Ref(k.column.primed())) for expr, k in zip(exprs, keys, strict=True)))
    return rows.join(groups, on, how)


def only_matching(R: Bag, X: Bag, on: Expr) -> Bag:
    """The rows of R that match some row of X: all that an outer, semi or anti join of X with R needs of R."""
    return R.semi_join(X.support(), on)


def rows_not_in(R: Tvr, S: Tvr) -> Tvr:
    """The rows of R that S, which has the same columns, does not have; NULL is equal to NULL."""
    others = S.project(tuple(Output(c.primed(), Ref(c)) for c in S.columns))
    return R.anti_join(others, conjunction(*(same(Ref(c), Ref(c.primed())) for c in R.columns)))


def union_all(terms: tuple[Tvr, ...]) -> Tvr:
    """The sum of TVRs with the same columns."""
    return Tvr(Union(tuple(term.rel for term in terms)))


def joined(terms: tuple[Tvr, ...], on: Expr) -> Tvr:
    """The inner join of TVRs."""
    return Tvr(MultiJoin(tuple(term.rel for term in terms), on))


def joined_bags(terms: tuple[Bag, ...], on: Expr) -> Bag:
    """The inner join of bags."""
    return Bag(MultiJoin(tuple(term.rel for term in terms), on))


def sum_of(terms: tuple[Bag, ...]) -> Bag:
    """The sum of bags with the same columns."""
    return Bag(Union(tuple(term.rel for term in terms)))


# --- predicates and columns of TVRs -----------------------------------------------------------------------------------


def separate(predicate: Expr, columns: tuple[Column, ...]) -> tuple[Expr, Expr]:
    """The parts of a conjunction that may be asked of rows with only some columns, and the others. What may fail is left where it is: there
    it is not asked of the rows that other parts, or the join, have taken out."""
    parts = conjuncts(predicate)
    own = [part for part in parts if part.reads_only(columns) and not can_fail(part)]
    return conjunction(*own), conjunction(*(part for part in parts if part not in own))


def also(predicate: Expr, more: Expr) -> Expr:
    """Both predicates, what they have in common once."""
    known = conjuncts(predicate)
    return conjunction(predicate, *(part for part in conjuncts(more) if part not in known or not part.deterministic))


def filtered(R: Tvr, predicate: Expr) -> Tvr:
    """The rows for which a predicate is TRUE; R itself for the predicate TRUE."""
    return R if predicate == TRUE else R.filter(predicate)


def values_of(outputs: tuple[Output, ...]) -> dict[Column, Expr]:
    """What the columns of a projection stand for."""
    return {output.column: output.expr for output in outputs}


def read_by(outputs: tuple[Output, ...]) -> frozenset[Column]:
    """The columns that expressions read."""
    return frozenset().union(*(output.expr.columns for output in outputs))


def kept(R: Tvr, wanted: Collection[Column]) -> Tvr:
    """R with the columns that are wanted, unchanged; R itself when these are its columns. At least one, for files have columns."""
    columns = tuple(column for column in R.columns if column in wanted) or R.columns[:1]
    return Tvr(keep(R.rel, columns))


def are_read_once(outputs: tuple[Output, ...], readers: tuple[Expr, ...]) -> bool:
    """Whether each value that takes a computation is read at most once."""
    reads = Counter(e.column for reader in readers for e in reader.walk() if isinstance(e, Ref))
    return all(isinstance(output.expr, Ref) or reads[output.column] <= 1 for output in outputs)
