"""``require = "incremental"``: a query whose results are maintained, or refused with the reasons."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Any, cast

from tempura.algebra.rel import Opaque, Rel, Scan, Values, scans
from tempura.cost.stats import TableFacts
from tempura.errors import Reason, TempuraError
from tempura.execute.failure import coded
from tempura.explain.character import READ_AS_A_WHOLE, RECOMPUTED, Character, character, is_row_by_row
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.rules.dsl import Rule
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry
from tempura.search.budget import STATE_BUDGET
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.warehouse.declared.declare import REQUIRED, QuerySpec, check_require
from tempura.warehouse.declared.kinds import QUERY, check_given, listed
from tempura.warehouse.runs.situation import Situation

_ROWS, _ARRIVING, _LEAVING = 1_000_000, 10_000, 1_000
"""Sizes of tables and of their changes, to ask whether a query can be maintained at all."""


def check_methods(rules: Registry, methods: str | Sequence[str]) -> tuple[str, ...]:
    """Names of methods. Raises TempuraError UNKNOWN_METHOD."""
    given = [methods] if isinstance(methods, str) else listed(methods)
    check_given("A query or its run", QUERY, {"methods": given})
    names = tuple(cast(list[str], given))
    rules.names_of(names)
    return names


def refused_retry(query: str, error: Exception) -> TempuraError:
    """The error of a refresh that failed for a row, and that is not to be computed from the tables instead."""
    known = coded(error)
    code, what = (known.code, known.what) if known else ("FAILED_INCREMENTALLY", str(error))
    what = f"{what} This was met while query {query} was maintained; the query itself may not fail for the rows that are there now."
    so = "Nothing was committed. It requires incremental maintenance, so it was not computed from the tables instead"
    then = "does that once. If that fails, too, correct the rows or the query."
    remedy, command = f'{so}: run(require="none") {then}', f"{so}: tempura run {query} --require none {then}"
    return TempuraError(code, what, remedy, command)


@dataclass(frozen=True, slots=True)
class Demand:
    """How a run is to be planned: the ``methods`` to choose from, whether it has to be ``incremental``, and whether, for once, all is
    computed ``anew`` for runs that have to be."""

    methods: tuple[str, ...]
    incremental: bool
    anew: bool

    @staticmethod
    def of(
        query: str, spec: QuerySpec, methods: str | Sequence[str] | None, require: str | None, rules: Registry
    ) -> "Demand":
        """What is given for one run, in the place of what is declared. Raises TempuraError UNKNOWN_METHOD, BAD_REQUIRE."""
        given = check_methods(rules, methods if methods is not None else spec.methods or "all")
        wanted = check_require(query, require) if require is not None else spec.require
        return Demand(given, wanted is not None, anew=wanted is None and spec.require is not None)

    def is_by_cost(self, rules: Registry) -> bool:
        """Whether the cheapest plan of all meets it, and there is one: to recompute is among them."""
        return not (self.incremental or self.anew) and not rules.recomputing.isdisjoint(rules.names_of(self.methods))

    @property
    def declared(self) -> dict[str, Any]:
        """The demand as fields of a declaration."""
        methods = () if self.methods == ("all",) else self.methods
        return {"methods": methods, "require": REQUIRED if self.incremental else None}

    def plan(
        self, query: str, problem: Problem, begun: bool, lost: Sequence[Reason], make: Callable[..., ProgressivePlan]
    ) -> ProgressivePlan:
        """A plan that meets the demand; ``make`` makes one by cost alone. Raises TempuraError NOT_INCREMENTAL, and as
        ``search.planner`` does."""
        if self.incremental:
            return incremental_plan(query, problem, self.methods, begun, lost)
        if self.anew:
            try:
                return incremental_plan(query, problem, self.methods, begun=False)
            except TempuraError as error:
                if error.code != "NOT_INCREMENTAL":
                    raise
        return make(problem, self.methods)


def incremental_plan(
    query: str, problem: Problem, methods: Sequence[str], begun: bool, lost: Sequence[Reason] = ()
) -> ProgressivePlan:
    """A plan of incremental methods that recomputes the whole query at no run but the first, which is the next one unless there
    was a run before (``begun``). ``lost`` says which states could not be loaded.

    Raises TempuraError NOT_INCREMENTAL with the reasons when there is none.
    """
    plan, reasons = _search(problem, methods, begun)
    if plan:
        return plan
    told = _told([*lost, *reasons])
    what = f"Query {query} requires incremental maintenance, but this run would recompute all of it: {told}."
    remedy = 'Nothing was done. Call run(require="none") to compute it anew once, or declare it without require.'
    command = (
        f"Nothing was done. Compute it anew once with: tempura run {query} --require none, or declare it otherwise."
    )
    raise TempuraError("NOT_INCREMENTAL", what, remedy, command)


def _search(problem: Problem, methods: Sequence[str], begun: bool) -> tuple[ProgressivePlan | None, Sequence[Reason]]:
    """The cheapest plan if it maintains the query, else the cheapest of those that have to; or why there is none."""
    known = problem.registry.names_of(methods)
    names = tuple(name for name in known if name not in problem.registry.recomputing)
    if not names:
        return None, [Reason("METHODS", f"only {', '.join(known)} may be used, which does not maintain anything")]
    if not is_maintainable(problem.query):
        return None, [rel.reason for rel in problem.query.walk() if isinstance(rel, Opaque)]
    reasons: list[Reason] = []
    for strict, without in _stricter(problem.registry.rules_of(names)):
        plan = _plan(problem, names, strict, without, reasons)
        if plan and _is_incremental(plan, problem, begun):
            return plan, ()
        reasons += (*plan.fallbacks, *_read_as_a_whole(plan, problem)) if plan else ()
    if begun and not problem.states:
        reasons.append(Reason("NO_STATES", "no run before has left a state that can be loaded now"))
    return None, reasons


def _stricter(rules: Sequence[Rule]) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """How a plan is looked for, one after the other: by cost; such that all that was current before is loaded; without what is held back;
    and without what costs little more than to read the tables."""
    fallbacks = [rule for rule in rules if rule.is_fallback]
    yield False, ()
    yield True, ()
    yield True, tuple(rule.name for rule in fallbacks if not rule.by_definition)
    yield True, tuple(rule.name for rule in fallbacks)


def _told(reasons: Sequence[Reason]) -> str:
    return "; ".join(dict.fromkeys(map(str, reasons))) or "no rule maintains it"


def _plan(
    problem: Problem, names: Sequence[str], strict: bool, without: Sequence[str], reasons: list[Reason]
) -> ProgressivePlan | None:
    try:
        return make_plan(problem, names, strict=strict, without=without)
    except TempuraError as error:
        if error.code not in ("NO_PLAN", STATE_BUDGET):
            raise
        if error.code == STATE_BUDGET:
            reasons.append(Reason(STATE_BUDGET, error.what.rstrip(".")))
        return None


def _is_incremental(plan: ProgressivePlan, problem: Problem, begun: bool) -> bool:
    """Whether no step recomputes everything. Before anything has been computed, the first one may, as it must; and to save states that
    were not there for a result to come is to begin, too."""
    for step in plan.steps:
        if begun and step.emit is not None and character_of(step, problem).kind == RECOMPUTED:
            return False
        begun = begun or not step.is_empty
    return True


def _read_as_a_whole(plan: ProgressivePlan, problem: Problem) -> Iterator[Reason]:
    for step in plan.steps:
        found = character_of(step, problem)
        if found.kind == RECOMPUTED and found.states:
            yield Reason("READ_AS_A_WHOLE", "; ".join((READ_AS_A_WHOLE, *map(str, found.parts))))


def character_of(step: Step, problem: Problem, first: bool = False) -> Character:
    """What a step of a plan for a problem does. ``first``: the query has no result yet."""
    tables, t = problem.tables.items(), step.time
    changed = {name for name, table in tables if not t or not table.is_unchanged(t - 1, t)}
    return character(step, changed, first, {name: table.rows(t) for name, table in tables})


def assuming_deletes(situation: Situation) -> Situation:
    """A situation in which each table that is not promised to grow is assumed to lose rows, too: what is kept has to be of use then, for
    the next run may not begin anew."""
    tables = situation.problem.tables
    loses = {name for name, table in tables.items() if not (table.static or table.append_only)}
    forecasts = tuple(f.with_deletes() if f.table in loses else f for f in situation.forecasts)
    losing = {name: _losing(table) if name in loses else table for name, table in tables.items()}
    return replace(situation, problem=replace(situation.problem, tables=losing), forecasts=forecasts)


def _losing(table: TableFacts) -> TableFacts:
    later = [max(0, i - table.known + 1) for i in range(len(table.inserted))]
    inserted, deleted = (tuple(map(add, counts, later)) for counts in (table.inserted, table.deleted))
    return replace(table, inserted=inserted, deleted=deleted)


def check_maintainable(query: str, rel: Rel, methods: Sequence[str], rules: Registry = TEMPURA) -> None:
    """Whether the algebra allows a query to be maintained, at whatever cost: whether a second result follows from the states of the
    first while its tables change. Raises TempuraError NOT_INCREMENTAL."""
    changing = TableFacts((_ROWS, _ROWS + _ARRIVING), (0, _LEAVING), 1)
    points = (Point(1.0, True), Point(1.0, True))
    problem = Problem(rel, points, {scan.table: changing for scan in scans(rel)}, registry=rules)
    plan, reasons = _search(problem, methods, begun=False)
    if plan is None:
        what = f"Query {query} requires incremental maintenance, and cannot be maintained: {_told(reasons)}."
        raise TempuraError("NOT_INCREMENTAL", what, "Declare it without require, or change the query or its methods.")


def is_maintainable(rel: Rel) -> bool:
    """Whether there is anything in a query that can be maintained: not when all that is more than row by row is Spark's own."""
    heavy = list(_heavy(rel))
    return not heavy or not all(isinstance(part, Opaque) for part in heavy)


def _heavy(rel: Rel) -> Iterator[Rel]:
    return (part for part in rel.walk() if not is_row_by_row(part) and not isinstance(part, Scan | Values))
