"""Incremental methods: named sets of rules. "Which method?" is "which set?"; no rule asks for the method it is used by."""

from tempura.rules import (
    core,
    delta_aggregate,
    delta_join,
    delta_linear,
    delta_window,
    distinct,
    eager,
    few_rows,
    grouping,
    hov,
    im2,
    keys,
    logical,
    ojv,
    ojv_deltas,
    reduce,
    references,
)
from tempura.rules.dsl import Rule
from tempura.rules.registry import Registry
from tempura.tvr.links import AFFECTED_BY_TABLE, STAYING_AND_LOOSE

CORE: tuple[Rule, ...] = (
    core.first_snapshot,
    few_rows.first_snapshot_reduced,
    core.snapshot_of_inputs,
    core.merge_snapshot,
    core.difference_of_snapshots,
    delta_linear.delta_filter,
    delta_linear.delta_project,
    delta_linear.delta_expand,
    delta_linear.delta_generate,
    delta_linear.delta_union,
    delta_linear.delta_sort,
)
"""What every incremental method needs: linear deltas, merging, the first snapshot, and coded fallbacks."""

STATES: tuple[Rule, ...] = (
    delta_aggregate.finalize_state,
    delta_aggregate.first_state,
    delta_aggregate.state_delta,
    delta_aggregate.merge_state,
    delta_aggregate.delta_aggregate,
    delta_aggregate.delta_aggregate_without_keys,
)
"""Aggregations by their states."""

GROUPS: tuple[Rule, ...] = (
    delta_aggregate.state_by_groups,
    delta_aggregate.state_without_keys,
    delta_aggregate.delta_aggregate_by_states,
    delta_aggregate.delta_aggregate_by_groups,
    delta_aggregate.delta_aggregate_against_stored,
    delta_window.delta_window,
    delta_window.delta_window_against_stored,
    delta_window.merge_top,
)
"""Aggregations, windows and first rows by the groups that have changed."""

INNER: tuple[Rule, ...] = (
    delta_join.delta_inner_join,
    delta_join.delta_inner_join_left_old,
    delta_join.delta_multi_join,
)
"""Inner joins by the product rule."""

BY_MATCH: tuple[Rule, ...] = (
    delta_join.delta_full_join,
    delta_join.delta_single_join,
    delta_join.delta_semi_join,
    delta_join.delta_semi_join_reduced,
    delta_join.delta_anti_join,
    delta_join.delta_anti_join_reduced,
)
"""Joins that keep, drop or pad a row by whether it has a match."""

IM1: tuple[Rule, ...] = (
    *CORE,
    *INNER,
    delta_join.delta_left_join,
    delta_join.delta_left_join_reduced,
    delta_join.delta_left_join_split,
    *BY_MATCH,
    delta_join.delta_exists_join,
    delta_join.delta_join_table_by_table,
    *references.DELTAS,
    references.delta_outer_join_with_referring,
    *STATES,
    *GROUPS,
)
"""IM-1: keep every view up to date, by deltas with retractions (Tempura, example 1)."""

IM2: tuple[Rule, ...] = (
    *CORE,
    *INNER,
    delta_join.delta_join_with_unchanged,
    delta_join.delta_semi_join,
    delta_join.delta_semi_join_reduced,
    *references.DELTAS,
    *STATES,
    delta_window.merge_top,
    *im2.SPLITS,
    *im2.USES,
)
"""IM-2: maintain what cannot be retracted, hold back the rest until it is due (Tempura, example 1). Of the joins that are not inner
it has deltas for those only that appear in parts that grow."""

OJV: tuple[Rule, ...] = (
    *CORE,
    *INNER,
    delta_join.delta_join_with_unchanged,
    delta_join.delta_join_table_by_table,
    *BY_MATCH,
    *references.DELTAS,
    *STATES,
    *GROUPS,
    *ojv.SPLITS,
    ojv.delta_of_affected_parts,
    *ojv_deltas.DELTAS,
)
"""OJV: joins that are not inner by what one table does to them, directly, indirectly, or not at all (Larson and Zhou). The rest as IM-1."""

HOV: tuple[Rule, ...] = (
    *(rule for rule in IM1 if rule is not delta_aggregate.state_delta),
    *hov.HIGHER_ORDER,
    hov.state_delta_without_views,
)
"""HOV: for each table that changes, what does not change is joined and aggregated beforehand (Tempura, section 4.2). What cannot be
taken apart is kept up to date as by IM-1."""

BATCH: tuple[Rule, ...] = (core.recompute_snapshot, few_rows.recompute_snapshot_reduced)
"""Recompute from the tables whenever a result is due."""

REWRITES: tuple[Rule, ...] = (
    *distinct.DISTINCT,
    *references.ELIMINATE,
    *logical.NORMALIZE,
    *eager.LAZY,
    *eager.EAGER,
    *grouping.GROUPING,
    *reduce.REDUCE,
    *keys.KEYS,
    *few_rows.FEW_ROWS,
)
"""Laws between TVRs at all times: what every method may begin with. In the order in which they are tried: first
those without which something is computed again."""

TEMPURA = Registry(
    {"im1": IM1, "im2": IM2, "ojv": OJV, "hov": HOV, "batch": BATCH},
    REWRITES,
    (STAYING_AND_LOOSE, AFFECTED_BY_TABLE),
    on_request=frozenset({"hov"}),
    recomputing=frozenset({"batch"}),
)
"""All that Tempura brings along. To search for higher-order views beside everything else takes a third more time, and seldom finds a
cheaper plan (docs/higher-order-views.md)."""
