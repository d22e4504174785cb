"""Incremental methods: named sets of rules. "Which method?" is "which set?"; no rule asks for the method it is used by."""

from collections.abc import Iterable

from tempura.errors import TempuraError
from tempura.rules import (
    core,
    delta_aggregate,
    delta_join,
    delta_linear,
    delta_top,
    delta_window,
    distinct,
    eager,
    im2,
    logical,
)
from tempura.rules.dsl import Family, Rule

CORE: tuple[Rule, ...] = (
    core.first_snapshot,
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

IM1: tuple[Rule, ...] = (
    *CORE,
    delta_join.delta_inner_join,
    delta_join.delta_inner_join_left_old,
    delta_join.delta_multi_join,
    delta_join.delta_left_join,
    delta_join.delta_left_join_reduced,
    delta_join.delta_left_join_split,
    delta_join.delta_full_join,
    delta_join.delta_single_join,
    delta_join.delta_semi_join,
    delta_join.delta_semi_join_reduced,
    delta_join.delta_anti_join,
    delta_join.delta_anti_join_reduced,
    delta_join.delta_exists_join,
    delta_join.delta_join_table_by_table,
    *STATES,
    delta_aggregate.state_by_groups,
    delta_aggregate.state_without_keys,
    delta_aggregate.delta_aggregate_by_states,
    delta_aggregate.delta_aggregate_by_groups,
    delta_aggregate.delta_aggregate_against_stored,
    delta_window.delta_window,
    delta_window.delta_window_against_stored,
    delta_top.merge_top,
)
"""IM-1: keep every view up to date, by deltas with retractions (Tempura, example 1)."""

IM2: tuple[Rule, ...] = (
    *CORE,
    delta_join.delta_inner_join,
    delta_join.delta_inner_join_left_old,
    delta_join.delta_multi_join,
    delta_join.delta_join_with_unchanged,
    delta_join.delta_semi_join,
    delta_join.delta_semi_join_reduced,
    *STATES,
    delta_top.merge_top,
    *im2.SPLITS,
    *im2.USES,
)
"""IM-2: maintain what cannot be retracted, hold back the rest until it is due (Tempura, example 1). Of the joins that are not inner
it has deltas for those only that appear in parts that grow."""

BATCH: tuple[Rule, ...] = (core.recompute_snapshot,)
"""Recompute from the tables whenever a result is due."""

METHODS: dict[str, tuple[Rule, ...]] = {"im1": IM1, "im2": IM2, "batch": BATCH}

REWRITES: tuple[Rule, ...] = (*distinct.DISTINCT, *logical.NORMALIZE, *eager.LAZY, *eager.EAGER)
"""Laws between TVRs at all times: what every method may begin with. In the order in which they are tried: first
those without which something is computed again."""

ALL_RULES: tuple[Rule, ...] = tuple(dict.fromkeys((*IM1, *IM2, *BATCH, *REWRITES)))


def add_method(name: str, rules: Iterable[Rule]) -> None:
    """Add an incremental method of the user's own: to be asked for by its name, and part of ``all``. Begin with :data:`CORE`. Laws between
    TVRs at all times among its rules serve every method, as they hold whoever uses them. To add the same again does nothing.

    Raises TempuraError ``BAD_METHOD`` for a name that is taken or no word, and for a rule with the name of another.
    """
    chosen = tuple(dict.fromkeys(rules))
    if METHODS.get(name) == chosen:
        return
    if not name.isidentifier() or name == "all" or name in METHODS:
        raise TempuraError(
            "BAD_METHOD", f"{name!r} cannot be the name of a method.", "Choose a word that no other has."
        )
    known = {rule.name: rule for method in METHODS.values() for rule in (*method, *REWRITES)}
    double = [rule.name for rule in chosen if known.setdefault(rule.name, rule) is not rule]
    if double:
        what = f"Method {name} has rules with the names of others: {', '.join(double)}."
        raise TempuraError("BAD_METHOD", what, "Rename their functions.")
    METHODS[name] = chosen


def laws_at_all_times() -> tuple[Rule, ...]:
    """What every search begins with: the traditional rules, and those of methods that users have added."""
    added = (rule for rules in METHODS.values() for rule in rules if rule.family is Family.LOGICAL)
    return tuple(dict.fromkeys((*REWRITES, *added)))


def rules_of(methods: tuple[str, ...]) -> tuple[Rule, ...]:
    """The rules of a set of methods, each once; ``all`` stands for every method.

    Raises TempuraError ``UNKNOWN_METHOD``.
    """
    names = tuple(METHODS) if "all" in methods else methods
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        known = ", ".join([*METHODS, "all"])
        raise TempuraError(
            "UNKNOWN_METHOD", f"no incremental method named {unknown or methods}.", f"Choose from: {known}."
        )
    return tuple(dict.fromkeys(rule for name in names for rule in METHODS[name]))
