"""Which of several plans is chosen: the cheapest, unless that is a bet, or hardly cheaper than the usual one. What is told of it: by which
methods it works, and what those would have cost that it was compared with."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from tempura.physical.operators import Load
from tempura.plan.progressive import Alternative, Effort, Note, ProgressivePlan, Step, doubted
from tempura.rules.registry import Registry


def best_of(plans: Sequence[ProgressivePlan], margin: float, doubt: float) -> ProgressivePlan:
    """The plan to choose, with ``margin`` and ``doubt`` as in ``make_plan``."""
    # Among equals the simplest: no mixture, and a recompute rather than states that do not pay.
    cheapest = min(plans, key=lambda plan: (plan.cost, plan.method.count("+"), not plan.recomputes))
    return _unless_a_bet(cheapest, plans, margin, doubt)


def _unless_a_bet(
    cheapest: ProgressivePlan, plans: Sequence[ProgressivePlan], margin: float, doubt: float
) -> ProgressivePlan:
    """The cheapest plan; recomputation instead if that is cheaper now, and later dearer by less than may be wrong in the estimates; or if
    the other one would be dearer by as much as is doubted of it."""
    anew = next((plan for plan in plans if plan.recomputes), cheapest)
    is_bet = doubt * cheapest.steps[0].cost > anew.steps[0].cost
    promised = (1 - margin) * anew.cost if is_bet else anew.cost
    return anew if doubt * cheapest.cost > promised else cheapest


def stays(before: ProgressivePlan, cheapest: ProgressivePlan, margin: float, doubt: float) -> bool:
    """Whether another plan than the one before is the cheapest that was found, but saves less than the margin of what that costs."""
    return before.cost != cheapest.cost and (1 - margin) * doubted(before, doubt) < doubted(cheapest, doubt)


def told(
    best: ProgressivePlan, plans: Sequence[ProgressivePlan], effort: Effort, registry: Registry
) -> ProgressivePlan:
    """The plan that was chosen, with what is told of it and of those that it was compared with."""
    steps, others = _with_methods(best, registry), _alternatives([*plans, best], best)
    return replace(best, steps=steps, alternatives=others, effort=effort, registry=registry.fingerprint)


def _with_methods(plan: ProgressivePlan, registry: Registry) -> tuple[Step, ...]:
    """The steps of a plan, with the methods of the plan that have the rules noted."""
    names = {name: _rule_names(registry, (name,)) for name in plan.method.split("+")}

    def noted(note: Note) -> Note:
        return replace(note, method="+".join(name for name, rules in names.items() if note.rule in rules))

    return tuple(replace(step, notes={rel: noted(note) for rel, note in step.notes.items()}) for step in plan.steps)


def used_methods(registry: Registry, steps: Sequence[Step], names: tuple[str, ...]) -> tuple[str, ...]:
    """The fewest methods that have the rules which a plan uses; among as many, those named first."""
    used = {note.rule for step in steps for note in step.notes.values()} & _rule_names(registry, names)
    sets = (chosen for size in range(1, len(names)) for chosen in combinations(names, size))
    return next((chosen for chosen in sets if used <= _rule_names(registry, chosen)), names)


def _rule_names(registry: Registry, methods: Iterable[str]) -> set[str]:
    return {rule.name for method in methods for rule in registry.methods[method]}


def _alternatives(plans: Sequence[ProgressivePlan], best: ProgressivePlan) -> tuple[Alternative, ...]:
    """One per method, or mixture of them: of two plans that use the same the cheaper, and the one that was chosen for certain."""
    found: dict[str, ProgressivePlan] = {}
    for plan in plans:
        known = found.get(plan.method)
        if known is None or (known is not best and (plan is best or plan.cost < known.cost)):
            found[plan.method] = plan
    return tuple(replace(_summary(plan), chosen=plan is best) for plan in found.values())


def _summary(plan: ProgressivePlan) -> Alternative:
    costs = tuple(step.cost for step in plan.steps)
    told = plan.fallbacks, False, plan.fixed, plan.recomputes
    return Alternative(plan.method, plan.cost, costs, _states(plan.steps), *told)


def _states(steps: tuple[Step, ...]) -> int:
    """How many states a plan works with: those that it saves, and those of the past that it loads."""
    saved = {save.key for step in steps for save in step.saves}
    return len(saved | {rel.key for step in steps for rel in step.operators if isinstance(rel, Load)})
