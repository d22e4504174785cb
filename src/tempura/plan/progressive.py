"""A progressive plan: per time point, what is computed, saved and emitted. Engine-neutral and plain data.

Expressions are :class:`~tempura.algebra.rel.Rel` trees over ``Read``, ``Load`` and ``Values`` leaves; equal sub-trees of a step
are computed once. Every input that an operator declares set-like is positive: the plan has a ``Consolidate`` where it is needed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tempura.algebra.rel import Rel, Values
from tempura.errors import Reason
from tempura.physical.growth import named_otherwise
from tempura.physical.operators import Read, StateKey
from tempura.tvr.views import Snapshot


@dataclass(frozen=True, slots=True)
class Size:
    """Under what name the rows of an operator or a view are remembered, whichever run computes it, and how many are expected by what is
    known of the tables alone."""

    name: str
    expected: float


@dataclass(frozen=True, slots=True)
class Note:
    """What the planner knows about an operator of a step. ``cost`` in nanoseconds of one core, of this operator alone;
    ``rule`` made it, of the plan's ``method`` or methods that have it; ``view`` names the view of a TVR that it computes, where it
    computes one; of a join ``broadcast`` is the side, 0 or 1, that is sent to every task, ``held`` the one of which each task makes a
    table, once both are shuffled. ``fixed`` is the part of the cost that does not
    depend on rows: the driver's for the greater part. ``by_definition``: the rule applies the operator to whole snapshots of its inputs.
    ``sizes``: what its rows are worth remembering as; ``counted``: whether ``rows`` are as an earlier run has counted."""

    rows: float
    cost: int
    rule: str = ""
    method: str = ""
    view: str = ""
    broadcast: int | None = None
    fixed: int = 0
    by_definition: bool = False
    sizes: tuple[Size, ...] = ()
    counted: bool = False
    held: int | None = None

    @property
    def join(self) -> str:
        """How a join is to be carried out: one side sent to every task, or held in a table by each, or both sorted."""
        sides = ("left", "right")
        if self.broadcast is not None:
            return f"{sides[self.broadcast]} sent"
        return "sorted" if self.held is None else f"{sides[self.held]} held"


@dataclass(frozen=True, slots=True)
class Save:
    """Keep a relation for later steps, in the order of its columns. ``bucket`` are the positions of the columns by which a
    later join or aggregation needs it; () when none does. ``size``: the bytes that it is expected to take on top of the result. A saved
    relation is positive and consolidated. ``plain``: it is the query's result at some time, and its rows are written as those of a result
    are, each as often as it occurs."""

    key: StateKey
    rel: Rel
    bucket: tuple[int, ...] = ()
    size: float = 0.0
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """The work of one time point. ``emit`` is the query's result, positive; None when nothing is due. It ``appends`` when that is a result
    that is stored, or one and what comes to it, or goes: then only that is written; else all of it is, once, whether it is saved or not.
    To read it once takes ``reading`` longer than if it were written as a whole, which is no part of the step's cost but of the plan's.
    ``cost`` is estimated, unweighted, in nanoseconds of one core; ``fixed`` is the part of it that does not depend on rows. A
    recomputation may be ``asked`` of Spark as the query is written, and then its operators are not run; ``otherwise`` is what the other of
    these two ways was estimated at, where there are two."""

    time: int
    saves: tuple[Save, ...]
    emit: Rel | None
    cost: int
    notes: Mapping[Rel, Note] = field(default_factory=dict)
    fixed: int = 0
    asked: bool = False
    otherwise: int | None = None
    appends: bool = False
    reading: int = 0

    @property
    def kept_result(self) -> Save | None:
        """The state that is the result, too, if the step saves it."""
        if self.emit is None:
            return None
        emitted = named_otherwise(self.emit)
        plain = (save for save in self.saves if save.plain and not save.bucket)
        return next((save for save in plain if named_otherwise(save.rel) == emitted), None)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.saves and self.emit is None

    @property
    def state_bytes(self) -> float:
        """The bytes that what it keeps is expected to take."""
        return sum(save.size for save in self.saves)

    @property
    def is_recomputation(self) -> bool:
        """Whether all that is done is to compute the result from the tables, with nothing saved before, or now but the result itself."""
        if self.emit is None or any(save != self.kept_result for save in self.saves):
            return False
        leaves = (rel for rel in self.emit.walk() if not rel.inputs)
        return all(
            isinstance(leaf, Values) or (isinstance(leaf, Read) and isinstance(leaf.at, Snapshot)) for leaf in leaves
        )

    @property
    def operators(self) -> Iterator[Rel]:
        """The operators of all that is saved and emitted; shared ones more than once."""
        for sink in (*(save.rel for save in self.saves), *((self.emit,) if self.emit is not None else ())):
            yield from sink.walk()


@dataclass(frozen=True, slots=True)
class Alternative:
    """A plan that was costed and lost, or was ``chosen``: the methods whose rules it uses, its weighted cost and the cost of each step, the
    number of ``states`` that it saves or loads; ``fixed`` is the part of its weighted cost that does not depend on rows; ``recomputes`` as
    in :class:`ProgressivePlan`."""

    method: str
    cost: int
    steps: tuple[int, ...]
    states: int
    fallbacks: tuple[Reason, ...] = ()
    chosen: bool = False
    fixed: int = 0
    recomputes: bool = False


@dataclass(frozen=True, slots=True)
class Effort:
    """What it took to find a plan, in counts: of classes of equal expressions, of groups (a view at a time) and of their
    alternatives, of rules that gave something, of plans that were priced as a whole."""

    classes: int = 0
    groups: int = 0
    alternatives: int = 0
    firings: int = 0
    plans_costed: int = 0


@dataclass(frozen=True, slots=True)
class Course:
    """How a plan goes about a query: the time point at which its work begins (0 if it needs anything of the past), the names of the rules
    that it uses, and which states its later steps may load (``search.space.Keep``). A plan for another problem of the same shape is found
    among these rules alone much faster than among all, and faster still by what was ``chosen`` for each goal (``search.replay``).
    ``asked``: it only asks for the query as it is written; ``scarcity``: what was charged for each byte of a state so that a budget was
    kept to. It was found by a search with the rules of these ``methods``: what is computed once is so in a way that depends on all of
    them (``search.lineage``); of before that was noted, there are none. ``orders`` are those of joins of many, by names
    (``search.joins``)."""

    start: int
    keep: str
    rules: tuple[str, ...]
    asked: bool = False
    scarcity: float = 0.0
    chosen: tuple[tuple[str, str], ...] = ()
    methods: tuple[str, ...] = ()
    orders: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class ProgressivePlan:
    """One step per time point that remains. ``cost`` is the weighted sum of the steps' costs, in nanoseconds of one core, and of it
    ``storage`` what keeping states is charged at; ``registry`` the fingerprint of the rules that it was made by. ``cheapest`` is what the
    cheapest plan costs, where this one goes on as the last run did because that saves little; ``begun`` what the cheapest one would cost if
    more refreshes than two used what the first step builds, and paid for it, where this was asked. It ``recomputes`` if it is by methods
    that do nothing else."""

    steps: tuple[Step, ...]
    weights: tuple[float, ...]
    cost: int
    method: str
    alternatives: tuple[Alternative, ...] = ()
    fallbacks: tuple[Reason, ...] = ()
    effort: Effort = Effort()
    course: Course | None = None
    registry: str = ""
    storage: int = 0
    cheapest: int | None = None
    begun: int | None = None
    recomputes: bool = False

    @property
    def state_bytes(self) -> float:
        """The bytes that states are expected to take, after the step that keeps most: one that keeps some lets go of others."""
        return max((step.state_bytes for step in self.steps), default=0.0)

    @property
    def fixed(self) -> int:
        """The part of the weighted cost that does not depend on rows."""
        return sum(round(weight * step.fixed) for weight, step in zip(self.weights, self.steps, strict=True))

    def step_at(self, time: int) -> Step:
        """The step of a time point. Raises KeyError when the plan has none."""
        for step in self.steps:
            if step.time == time:
                return step
        raise KeyError(time)


def doubted(plan: ProgressivePlan | Alternative, doubt: float) -> float:
    """What a plan is said to cost where it is compared with recomputing: so many times what is estimated, unless it recomputes itself."""
    return plan.cost if plan.recomputes else doubt * plan.cost


NO_WORK = ProgressivePlan((), (), 0, "none")
"""Where nothing is to be done, and nothing was planned."""
