"""The planner: the cheapest progressive plan under a set of incremental methods, and what the others would have cost."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tempura.algebra.rel import Opaque, Project, Rel, Scan, Values
from tempura.algebra.scalar import Output, Ref
from tempura.errors import Reason, TempuraError
from tempura.memo.events import Listener, ignore
from tempura.physical.operators import Load
from tempura.plan.progressive import Alternative, Course, Note, ProgressivePlan, Step
from tempura.rules.dsl import Rule
from tempura.rules.registry import Registry
from tempura.search.alike import without_the_alike
from tempura.search.events import EffortCounter
from tempura.search.graph import Graph
from tempura.search.improve import Candidate, allows, first_candidate, improve, seeded
from tempura.search.problem import Problem
from tempura.search.saturate import ALL_ON, Switches
from tempura.search.space import Keep, Space

MARGIN = 0.15
"""The part of a recomputation's cost that work ahead has to promise to save: estimates are not surer than that."""

_BUDGET = 1_000
"""Whole plans priced per method set while improving one: about a second."""


@dataclass(frozen=True, slots=True)
class Found:
    """The best plan of a set of methods, and the graph of which it is a choice."""

    names: tuple[str, ...]
    graph: Graph
    candidate: Candidate


def make_plan(
    problem: Problem,
    methods: Sequence[str] = ("all",),
    listener: Listener = ignore,
    without: Collection[str] = (),
    switches: Switches = ALL_ON,
    strict: bool = False,
    margin: float = 0.0,
    doubt: float = 1.0,
    course: Course | None = None,
) -> ProgressivePlan:
    """The cheapest plan for the time points of a problem that are not done.

    ``methods`` are names of the problem's registry; several, or ``all``, let each part of the query use any of them. Such a plan
    never costs more than the best plan of a single method, because those are candidates too, unless there is a ``margin``: the part of
    what recomputing costs that work ahead has to promise to save, or it is not done; or ``doubt``, by which the cost of other plans is
    multiplied before it is compared with recomputing. ``listener`` is told what the search does
    (``search.events``). ``without`` names rules that are not to be used, ``switches`` turn off what makes the search fast. ``strict``:
    incremental work begins with the first point (a past one, if there is one), and what was current before a run is loaded by it, not
    computed, whatever that costs. ``course``: only what an earlier plan went about it by is tried, and nothing is compared, unless that
    leads nowhere here; such a plan has this very course.

    Raises TempuraError ``UNKNOWN_METHOD``, and ``NO_PLAN`` when the methods cannot compute the query.
    """
    names = problem.registry.names_of(methods)
    made_by = problem.registry.fingerprint
    counter = EffortCounter()
    asked = replace(problem, query=_as_operator(problem.query))

    def space(keep: Keep, only: Collection[str] | None = None) -> Space:
        return Space(asked, counter, listener, without=without, switches=switches, strict=strict, keep=keep, only=only)

    def plans_of(keep: Keep) -> list[ProgressivePlan]:
        return [_plan(found, keep) for found in _searches(space(keep), names)]

    if course:
        keep = Keep[course.keep]
        if along := _best_start(space(keep, course.rules), names, start=course.start):
            plan = replace(_plan(along, keep), course=course)
            steps = _with_methods(plan, problem.registry)
            others = _alternatives([plan], plan)
            return replace(plan, steps=steps, alternatives=others, effort=counter.effort, registry=made_by)
    plans = plans_of(Keep.BOTH)
    if not plans:
        raise TempuraError("NO_PLAN", f"no plan with methods {', '.join(names)}.", "Allow the method batch, or all.")
    if _loads_what_it_forgets(_best(plans, margin, doubt), problem):
        either = [found for keep in (Keep.NEW, Keep.PAST) if (found := plans_of(keep))]
        plans = min(either, key=lambda found: _best(found, margin, doubt).cost, default=plans)
    best = _best(plans, margin, doubt)
    steps = _with_methods(best, problem.registry)
    return replace(best, steps=steps, alternatives=_alternatives(plans, best), effort=counter.effort, registry=made_by)


def _best(plans: Sequence[ProgressivePlan], margin: float, doubt: float) -> ProgressivePlan:
    # Among equals the simplest: no mixture, and a recompute rather than states that do not pay.
    cheapest = min(plans, key=lambda plan: (plan.cost, plan.method.count("+"), plan.method != "batch"))
    return _unless_a_bet(cheapest, plans, margin, doubt)


def _loads_what_it_forgets(plan: ProgressivePlan, problem: Problem) -> bool:
    """Whether a plan's first step saves something, so that the next one goes on from that, and a later step loads what was saved before
    and not kept with it."""
    first, *later = plan.steps
    saved = {save.key for save in first.saves}
    loads = (rel.key for step in later for rel in step.operators if isinstance(rel, Load))
    return bool(saved) and not (problem.states - saved).isdisjoint(loads)


def _searches(space: Space, names: tuple[str, ...]) -> list[Found]:
    """The best plan of each single method, but for those that are like another here, and of all together, which starts from the best of
    those and from its own."""
    found = [best for name in without_the_alike(space, names) if (best := _best_start(space, (name,)))]
    if len(names) > 1:
        seed = min(found, key=lambda f: f.candidate.cost, default=None)
        together = _best_start(space, names, seed)
        found += [together] if together else []
    return found


def _unless_a_bet(
    cheapest: ProgressivePlan, plans: Sequence[ProgressivePlan], margin: float, doubt: float
) -> ProgressivePlan:
    """The cheapest plan; recomputation instead if that is cheaper now, and later dearer by less than may be wrong in the estimates; or if
    the other one would be dearer by as much as is doubted of it."""
    batch = next((plan for plan in plans if plan.method == "batch"), cheapest)
    is_bet = doubt * cheapest.steps[0].cost > batch.steps[0].cost
    promised = (1 - margin) * batch.cost if is_bet else batch.cost
    return batch if doubt * cheapest.cost > promised else cheapest


def _used_methods(registry: Registry, steps: Sequence[Step], names: tuple[str, ...]) -> str:
    """The fewest methods that have the rules which a plan uses; among as many, those named first."""
    used = {note.rule for step in steps for note in step.notes.values()} & _rule_names(registry, names)
    sets = (chosen for size in range(1, len(names)) for chosen in combinations(names, size))
    return "+".join(next((chosen for chosen in sets if used <= _rule_names(registry, chosen)), names))


def _with_methods(plan: ProgressivePlan, registry: Registry) -> tuple[Step, ...]:
    """The steps of a plan, with the methods of the plan that have the rules noted."""
    names = {name: _rule_names(registry, (name,)) for name in plan.method.split("+")}

    def noted(note: Note) -> Note:
        return replace(note, method="+".join(name for name, rules in names.items() if note.rule in rules))

    return tuple(replace(step, notes={rel: noted(note) for rel, note in step.notes.items()}) for step in plan.steps)


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


def _best_start(
    space: Space, names: tuple[str, ...], seed: Found | None = None, start: int | None = None
) -> Found | None:
    """The best plan over all time points at which incremental work may begin, or for a given one. To begin at the last one is to
    recompute: that is left to the method ``batch``, unless nothing else is possible. None when the rules cannot reach the output."""
    last = len(space.problem.points) - 1
    starts = range(1) if names == ("batch",) or space.strict else range(max(1, last))
    found = _candidates(space, names, starts if start is None else range(start, start + 1))
    if not space.strict and start is None:
        found = found or _candidates(space, names, range(last, last + 1))
    if seed:
        found += [
            (g, seeded(c, seed.candidate))
            for g, c in found
            if g.start == seed.graph.start and allows(g, seed.candidate)
        ]
    improved = [(graph, improve(graph, candidate, _BUDGET // len(found))) for graph, candidate in found]
    improved += [(seed.graph, seed.candidate)] if seed else []
    return Found(names, *min(improved, key=lambda i: i[1].cost)) if improved else None


def _candidates(space: Space, names: tuple[str, ...], starts: range) -> list[tuple[Graph, Candidate]]:
    graphs = (Graph(space, space.rules_of(names), start) for start in starts)
    return [(graph, candidate) for graph in graphs if (candidate := first_candidate(graph))]


def _as_operator(query: Rel) -> Rel:
    """A query that is just a table or constant, as a projection of it."""
    if isinstance(query, Scan | Values):
        return Project(query, tuple(Output(c, Ref(c)) for c in query.columns))
    return query


def _plan(found: Found, keep: Keep) -> ProgressivePlan:
    names, steps = found.names, found.candidate.steps
    weights = tuple(found.graph.problem.points[step.time].weight for step in steps)
    fallbacks = _fallbacks(found.graph, found.candidate.used) if names != ("batch",) else ()
    course = Course(found.graph.start, keep.name, tuple(sorted({rule.name for rule, _ in found.candidate.used})))
    method = _used_methods(found.graph.problem.registry, steps, names)
    return ProgressivePlan(steps, weights, found.candidate.cost, method, fallbacks=fallbacks, course=course)


def _fallbacks(graph: Graph, used: tuple[tuple[Rule, Rel], ...]) -> tuple[Reason, ...]:
    """Why parts of the query are recomputed rather than maintained."""
    reasons = [rule.why(graph.memo.tree(rel), graph.facts) for rule, rel in used if rule.why]
    reasons += [rel.reason for rel in graph.problem.query.walk() if isinstance(rel, Opaque)]
    return tuple(dict.fromkeys(reason for reason in reasons if reason))


def _summary(plan: ProgressivePlan) -> Alternative:
    return Alternative(plan.method, plan.cost, tuple(s.cost for s in plan.steps), _states(plan.steps), plan.fallbacks)


def _states(steps: tuple[Step, ...]) -> int:
    """How many states a plan works with: those that it saves, and those of the past that it loads."""
    saved = {save.key for step in steps for save in step.saves}
    return len(saved | {rel.key for step in steps for rel in step.operators if isinstance(rel, Load)})
