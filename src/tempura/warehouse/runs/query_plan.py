"""What a plan looks like to the user."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tempura.cost.estimate import Estimator
from tempura.cost.prices import BUILT_IN
from tempura.errors import TempuraError
from tempura.explain.character import NOTHING, RECOMPUTED, Character
from tempura.explain.origin import SECTIONS, section, section_json
from tempura.explain.text import SHOW, explain, save_html, seconds, to_json
from tempura.physical.operators import Read
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.rules.registry import ALL
from tempura.search.problem import Problem, staircase
from tempura.warehouse.runs.required import character_of
from tempura.warehouse.runs.situation import Situation
from tempura.warehouse.times.correction import NONE, Correction
from tempura.warehouse.times.doubt import NO_DOUBT, Doubt
from tempura.warehouse.times.forecast import Forecast

_MUCH = 0.2
"""What part of a step's cost somebody who could spare it is told of."""

_PUT_OFF = "it may as well be done at {}, at no higher price"
_THE_NEXT = _PUT_OFF.format("the next time")


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A plan of a query. ``labels`` name its time points; ``does`` says what its steps do, by time point; ``forecasts`` are what is
    assumed to arrive after the first of them; ``waiting`` are rows that it counts on and that have not been registered; ``correction``:
    what its prices were multiplied by. ``followed`` is the number of the run that compared all plans, where this one goes on as that chose
    (``times.follow``). ``problem`` is what it was planned for, by which ``methods``; ``prices`` are built in, or were calibrated
    at some time; ``doubt`` is what earlier runs say of plans with states. ``put_off`` are times that are no time points, because what could
    be done then may as well be done at the next one. Its first step begins with states for so many results as it has ``uses``."""

    plan: ProgressivePlan
    labels: tuple[str, ...]
    does: Mapping[int, Character] = field(default_factory=dict)
    forecasts: tuple[Forecast, ...] = ()
    waiting: tuple[str, ...] = ()
    correction: Correction = NONE
    followed: int | None = None
    problem: Problem | None = None
    methods: tuple[str, ...] = (ALL,)
    prices: str = BUILT_IN
    doubt: Doubt = NO_DOUBT
    put_off: tuple[str, ...] = ()
    uses: int = 1

    @property
    def cost(self) -> int:
        """The weighted sum of the steps' estimated costs, in nanoseconds of one core."""
        return self.plan.cost

    @property
    def steps(self) -> tuple[Step, ...]:
        """One step per time point that remains."""
        return self.plan.steps

    @property
    def method(self) -> str:
        """The incremental method, or set of methods, that the plan uses."""
        return self.plan.method

    def label(self, time: int) -> str:
        """The name of a time point."""
        return self.labels[time] if time < len(self.labels) else str(time)

    def explain(self, show: str | Collection[str] = "cost,rows", step: str | None = None) -> str:
        """The plan per time point as text. ``show`` names what is said of each operator: cost, rows, join, method, rule, view; and what is
        told below the steps: rules, which of them made each part; memo, the classes of equal expressions; steps, what each rule does to the
        best plan, for which it is planned once for each rule. ``step`` is the label of the only time point to show.

        Raises TempuraError UNKNOWN_SHOW, UNKNOWN_TIME.
        """
        only = None if step is None else self._time(step)
        beside, below = _shown(show)
        text = explain(self.plan, beside, self.labels, only, self.does, self.assumed, self.remarks)
        plan = self._only(step)
        sections = (section(name, plan, self._problem, self.methods, self.labels) for name in below)
        return "\n".join([text, *("\n".join(["", *lines]) for lines in sections)])

    @property
    def _problem(self) -> Problem:
        if self.problem is None:
            raise TempuraError("UNKNOWN_SHOW", "Of this plan nothing but its steps is known.", "Plan anew.")
        return self.problem

    @property
    def remarks(self) -> tuple[str, ...]:
        """From what prices it is, what they were multiplied by, whether it was compared with others, for how many results it begins with
        states, and at which times nothing is to be done, a line for each."""
        stays = (
            f"goes on as the last run did: the cheapest plan, of {seconds(self.plan.cheapest)}, promises to save too little"
            if self.plan.cheapest is not None
            else ""
        )
        follows = f"goes on as run {self.followed} chose, which compared all: the others' costs are of then"
        return tuple(
            filter(
                None,
                (
                    f"prices: {self.prices}",
                    self.correction.text,
                    self.doubt.text,
                    follows if self.followed else "",
                    stays,
                    f"begins with states for {self.uses} results, each of which is taken to pay its part"
                    if self.uses > 1
                    else "",
                    f"nothing at {', '.join(self.put_off)}: {_THE_NEXT}" if self.put_off else "",
                    *self._opened,
                ),
            )
        )

    @property
    def _opened(self) -> Iterator[str]:
        """The tables of which the first step opens so many files that it costs much of what it does."""
        if not self.problem or not self.steps:
            return
        step, tables = self.steps[0], self.problem.tables
        estimate = Estimator(tables, staircase=staircase(tables))
        files = Counter[str]()
        for read in {rel for rel in step.operators if isinstance(rel, Read)}:
            files[read.scan.table] += estimate.files(read)
        for table, opened in sorted(files.items()):
            cost = opened * self.problem.prices.file
            if cost >= _MUCH * step.cost:
                yield f"{table} is read from {opened:,} files, which take {seconds(cost)} of that to open: larger ones would spare it"

    @property
    def assumed(self) -> tuple[str, ...]:
        """What is assumed to arrive, and why: a line per table."""
        return tuple(f.text(self.labels[-len(f.arrivals) :]) for f in self.forecasts if f.arrivals)

    def __str__(self) -> str:
        return self.explain()

    def save_html(self, path: str | Path, show: str | Collection[str] = "cost,rows,method,rule") -> None:
        """Write the plan as an HTML page. Raises TempuraError FOLDER_MISSING when there is no folder for it."""
        save_html(self.explain(show), path)

    def to_json(self, show: str | Collection[str] = (), step: str | None = None) -> dict[str, Any]:
        """The plan as plain data: costs in nanoseconds of one core. ``show``, of which memo, steps and rules count, and ``step`` are as for
        :meth:`explain`.

        Raises TempuraError UNKNOWN_SHOW, UNKNOWN_TIME.
        """
        _, below = _shown(show)
        plan = self._only(step)
        assumed = [asdict(forecast) for forecast in self.forecasts]
        found: dict[str, Any] = to_json(self.plan, self.labels, self.does)
        found["steps"] = [told for told, of in zip(found["steps"], self.plan.steps, strict=True) if of in plan.steps]
        found |= {"assumed": assumed, "waiting": list(self.waiting)}
        found |= {
            "correction": asdict(self.correction),
            "followed": self.followed,
            "prices": self.prices,
            "put_off": list(self.put_off),
            "doubt": asdict(self.doubt),
            "uses": self.uses,
        }
        return found | {name: section_json(name, plan, self._problem, self.methods) for name in below}

    def _only(self, step: str | None) -> ProgressivePlan:
        """The plan, or no more of it than a step."""
        return self.plan if step is None else replace(self.plan, steps=(self.plan.step_at(self._time(step)),))

    def _time(self, label: str) -> int:
        for time, known in enumerate(self.labels):
            if _is_named(known, label):
                return time
        if any(_is_named(known, label) for known in self.put_off):
            raise TempuraError(
                "UNKNOWN_TIME", f"Nothing is planned for {label}: {_THE_NEXT}.", f"See {self.labels[-1]}."
            )
        remedy = f"Its times are {', '.join(self.labels)}."
        raise TempuraError("UNKNOWN_TIME", f"The plan has no time {label!r}.", remedy)


def _is_named(time: str, label: str) -> bool:
    """Whether a time is meant, with its day or without."""
    return label in (time, time.split(" ")[-1])


def plan_of(
    plan: ProgressivePlan,
    situation: Situation,
    first: bool,
    followed: int | None = None,
    methods: tuple[str, ...] = (ALL,),
) -> QueryPlan:
    """A plan as the user sees it. ``first``: the query has no result yet; ``followed`` and ``methods`` as in :class:`QueryPlan`."""
    does: dict[int, Character] = {}
    for step in plan.steps:
        found = character_of(step, situation.problem, first)
        does[step.time] = (
            replace(found, why=(*found.why, *_why_recomputed(plan, situation))) if found.kind == RECOMPUTED else found
        )
        first = first and step.emit is None
    known = (situation.forecasts, situation.waiting, situation.correction)
    prices = situation.problem.prices.origin
    told = (prices, situation.doubt, situation.put_off)
    uses = situation.begins.uses if situation.begins else 1
    return QueryPlan(plan, situation.labels, does, *known, followed, situation.problem, methods, *told, uses)


def does_now(shown: QueryPlan, situation: Situation) -> Character:
    """What the run does that is to be executed, by the plan that was made for it."""
    if situation.idle:
        return Character(NOTHING, why=(_PUT_OFF.format(situation.labels[situation.now]),))
    return shown.does.get(situation.now, Character(NOTHING))


def _why_recomputed(plan: ProgressivePlan, situation: Situation) -> tuple[str, ...]:
    """Why a step recomputes the whole query: what was lost, what cannot be maintained, and what it does not pay to."""
    lost = () if situation.states else ("no state of a run before can be loaded",)
    others = [a for a in plan.alternatives if not a.chosen and a.states]
    chosen = next((a for a in plan.alternatives if a.chosen), None)
    if chosen is None or chosen.states or not others:
        return (*lost, *map(str, plan.fallbacks))
    cheapest = min(others, key=lambda a: a.cost)
    compared = f"{seconds(cheapest.cost)} by {cheapest.method}, against {seconds(plan.cost)}"
    unsure = f"by under {situation.problem.margin:.0%}, which estimates may be wrong by"
    if situation.doubt.runs:
        unsure = f"not by the factor of {situation.doubt.factor:.1f} by which that took more than was promised before"
    less = "more" if cheapest.cost >= plan.cost else f"less, but {unsure}"
    return (*lost, *map(str, plan.fallbacks), f"to maintain it is estimated to cost {less}: {compared}")


def _shown(show: str | Collection[str]) -> tuple[list[str], list[str]]:
    """What is shown beside operators, and below the plan."""
    names = [n.strip() for n in show.split(",")] if isinstance(show, str) else list(show)
    unknown = sorted(set(filter(None, names)) - {*SHOW, *SECTIONS})
    if unknown:
        choice = ", ".join((*SHOW, *SECTIONS))
        raise TempuraError("UNKNOWN_SHOW", f"explain cannot show {', '.join(unknown)}.", f"Choose of {choice}.")
    return [name for name in names if name in SHOW], [name for name in names if name in SECTIONS]
