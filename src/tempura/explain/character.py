"""What a step of a plan does to the query's result: maintain it, or compute it anew, as a whole or in part. Read off the step itself.

A *part* is recomputed when an operator that is more than row by row is applied to whole snapshots although its inputs have changed:
because it has nothing else below it than whole tables, or because a rule computes it by its definition, over inputs that may well be
maintained. To look up in a whole table what belongs to a delta is not to recompute.

The parts amount to the *whole* query when nothing in a step follows from what has arrived: each table in which something has is read as
a whole, none by what came, and these are at least half of all rows that the query is over. What is still loaded then is the lesser
part.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.one import One
from tempura.algebra.rel import Consolidate, Filter, Negate, Opaque, Project, Rel, Sort, Support, Union, Values
from tempura.algebra.states import Finalize
from tempura.physical.operators import Load, Read
from tempura.plan.progressive import Step
from tempura.rules.helpers import why_recomputed
from tempura.tvr.views import Snapshot

BUILT, MAINTAINED, IN_PART, RECOMPUTED = "built", "maintained", "recomputed in part", "recomputed"
PREPARED, NOTHING = "prepared", "nothing done"

AS_WRITTEN, BY_OPERATORS = "as written", "by operators"

READ_AS_A_WHOLE = "each table in which something has arrived is read as a whole"

_ROW_BY_ROW = (
    Filter, Project, Expand, Generate, Sort, Union, Negate, Consolidate, Support, One, Finalize, Read, Load, Values,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecomputedPart:
    """A part of a query that a step computes anew: ``what``, at an estimated ``cost`` in nanoseconds of one core, and ``why``."""

    what: str
    why: str
    cost: int

    def __str__(self) -> str:
        return f"{self.what} ({self.cost / 1e9:.3g} s estimated): {self.why}"


@dataclass(frozen=True, slots=True)
class Character:
    """What a step does. ``kind``: ``built``, the first result, from the tables; ``maintained`` from ``states`` that were stored before;
    ``recomputed in part``, those ``parts``; ``recomputed`` from the tables, as a whole; ``prepared``, when only states are saved for a
    result that is due later; ``nothing done``. ``covered``: of the operators of the step that are more than row by row and stand above
    what has arrived, the share that is not computed anew; None where there is none, and of steps that were taken before it was noted.
    ``way``: how what could be done in two ways is done, by Spark ``as written`` or ``by operators`` of the plan."""

    kind: str
    states: int = 0
    parts: tuple[RecomputedPart, ...] = ()
    why: tuple[str, ...] = ()
    covered: float | None = field(default=None, compare=False)
    way: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        from_tables = not self.states or self.kind in (BUILT, RECOMPUTED)
        if self.way:
            return f"{self.kind} {self.way}"
        return self.kind if from_tables else f"{self.kind} from {_states(self.states)}"

    def lines(self) -> list[str]:
        """What was recomputed, or why nothing was done, a line each."""
        head = NOTHING if self.kind == NOTHING else "recomputed"
        return [f"{head}: {text}" for text in (*self.why, *map(str, self.parts))]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "parts": [asdict(part) for part in self.parts], "why": list(self.why)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Character":
        """The inverse of :meth:`to_json`."""
        parts = tuple(RecomputedPart(**part) for part in data["parts"])
        return Character(data["kind"], data["states"], parts, tuple(data["why"]), data.get("covered"), data.get("way"))


def _states(n: int) -> str:
    return "1 state" if n == 1 else f"{n} states"


def character(
    step: Step, changed: Collection[str], first: bool = False, rows: Mapping[str, int] | None = None
) -> Character:
    """What a step does. ``changed`` are the tables in which something has arrived since the point before it; ``first``: the query has
    no result yet. ``rows`` as in :func:`recomputes_all`."""
    if step.is_empty:
        return Character(NOTHING)
    states = len({rel.key for rel in step.operators if isinstance(rel, Load)})
    found = _Parts(step, changed)
    parts, covered = found.found(), found.covered()
    if step.emit is None:
        return Character(PREPARED, states, parts if states else (), covered=covered)
    if recomputes_all(step, changed, rows):
        kind = BUILT if first else RECOMPUTED
        loads = any(isinstance(rel, Load) for rel in step.emit.walk())
        why = (READ_AS_A_WHOLE,) if loads else ()
        return Character(kind, states, parts if loads else (), why, covered, _way(step))
    return Character(IN_PART if parts else MAINTAINED, states, parts, covered=covered)


def _way(step: Step) -> str | None:
    """Which way a step goes; None where it had no choice."""
    if step.otherwise is None:
        return None
    return AS_WRITTEN if step.asked else BY_OPERATORS


def is_row_by_row(rel: Rel) -> bool:
    """Whether an operator costs about what reading its input does."""
    return isinstance(rel, _ROW_BY_ROW)


def recomputes_all(step: Step, changed: Collection[str], rows: Mapping[str, int] | None = None) -> bool:
    """Whether a step with a result computes the whole query from the tables. ``rows`` that each table has then, of all that the query
    reads; when they are not given, only what follows from no state is a recomputation."""
    leaves = {rel for rel in step.emit.walk() if isinstance(rel, Load | Read)} if step.emit is not None else set()
    reads = [rel for rel in leaves if isinstance(rel, Read)]
    if len(reads) == len(leaves):
        return True
    read = {rel.scan.table for rel in reads if isinstance(rel.at, Snapshot)}
    followed = {rel.scan.table for rel in reads if not isinstance(rel.at, Snapshot)}
    if rows is None or not read or not read >= set(changed) or followed & set(changed):
        return False
    return 2 * sum(rows[table] for table in read) >= sum(rows.values())


class _Parts:
    """Finds the parts of a step that are recomputed: each as large as it can be, those in several places once."""

    def __init__(self, step: Step, changed: Collection[str]) -> None:
        self._step = step
        self._changed = changed
        self._whole: dict[Rel, bool] = {}
        self._touched: dict[Rel, bool] = {}

    def found(self) -> tuple[RecomputedPart, ...]:
        inside = {below for top in self._tops for rel in top.inputs for below in rel.walk()}
        return tuple(self._part(rel) for rel in self._tops if rel not in inside)

    def covered(self) -> float | None:
        """The share of what is more than row by row above what has arrived that is not recomputed."""
        all_of = {rel for rel in self._step.operators if not is_row_by_row(rel) and self._is_touched(rel)}
        anew = {rel for top in self._tops for rel in self._operators(top)}
        return round(1 - len(all_of & anew) / len(all_of), 3) if all_of else None

    @cached_property
    def _tops(self) -> dict[Rel, None]:
        """The operators that are recomputed and feed one that is not, or none."""
        tops: dict[Rel, None] = {}
        seen: set[Rel] = set()
        pending = [
            *(save.rel for save in self._step.saves),
            *([self._step.emit] if self._step.emit is not None else []),
        ]
        while pending:
            rel = pending.pop()
            if rel in seen:
                continue
            seen.add(rel)
            if self._is_recomputed(rel):
                tops[rel] = None
            else:
                pending += rel.inputs
        return tops

    def _is_recomputed(self, rel: Rel) -> bool:
        if is_row_by_row(rel) or not self._is_touched(rel):
            return False
        return self._is_whole(rel) or self._is_by_definition(rel)

    def _is_whole(self, rel: Rel) -> bool:
        """Whether nothing but whole tables is below."""
        if rel not in self._whole:
            if isinstance(rel, Read):
                self._whole[rel] = isinstance(rel.at, Snapshot)
            else:
                self._whole[rel] = not isinstance(rel, Load) and all(map(self._is_whole, rel.inputs))
        return self._whole[rel]

    def _is_touched(self, rel: Rel) -> bool:
        """Whether something has arrived in what is below: a state that is loaded is brought up to date by what has."""
        if rel not in self._touched:
            own = isinstance(rel, Read) and rel.scan.table in self._changed
            self._touched[rel] = own or any(map(self._is_touched, rel.inputs))
        return self._touched[rel]

    def _is_by_definition(self, rel: Rel) -> bool:
        """Whether a rule computes an operator from whole snapshots of its inputs."""
        return rel in self._step.notes and self._step.notes[rel].by_definition

    def _part(self, rel: Rel) -> RecomputedPart:
        operators = tuple(dict.fromkeys(self._operators(rel)))
        cost = sum(self._step.notes[below].cost for below in operators if below in self._step.notes)
        # What cannot be maintained makes what reads it be computed anew.
        reasons = (below.reason if isinstance(below, Opaque) else why_recomputed(below) for below in operators)
        reason = next(filter(None, reasons), None)
        view = self._step.notes[rel].view.split("[:")[0] if rel in self._step.notes else ""
        return RecomputedPart(view or rel.label, str(reason) if reason else "that is estimated to be cheaper", cost)

    def _operators(self, rel: Rel) -> Iterator[Rel]:
        """The operators of a part: down to what is maintained."""
        yield rel
        for below in rel.inputs:
            if self._is_whole(below) or self._is_by_definition(below):
                yield from self._operators(below)
