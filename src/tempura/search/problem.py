"""What the planner is asked: a query, the time points, and what is known or expected of the tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tempura.algebra.rel import Rel
from tempura.cost.model import SPARK, CostModel
from tempura.cost.stats import ColumnStats, StoredFacts, TableFacts
from tempura.physical.operators import StateKey
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry
from tempura.tvr.staircase import Staircase

__all__ = ["MARGIN", "ColumnStats", "Point", "Problem", "StoredFacts", "TableFacts"]

MARGIN = 0.15
"""The part of what the usual way costs that another has to promise to save: estimates are not surer than that."""

MARGIN_OF_VIEWS = 0.1
"""The same of the states of a view, or of days after the first, which show at each result whether they keep their promise
(``times.doubt``)."""


_AS_BEFORE: Mapping[str, tuple[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Point:
    """A time point of the plan. ``weight`` is the price of work there; ``output`` says that the result is due; ``done`` marks
    a point of the past (only the first point may be), at which nothing can run but whose states can be loaded."""

    weight: float
    output: bool
    done: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """A planning problem. ``states`` are the stored states that can be loaded (their ``time`` is a point of this problem); ``stored``
    says how they lie on disk, one part each unless it is given; ``prices`` are of the engine that will run the steps; ``registry`` has
    the methods to plan by; ``counted`` are the rows that earlier runs have counted, and those that were expected then (``search.counts``);
    ``as_written`` are the time points at which Spark may be asked the query as it is written, for the same answer as a step's;
    ``state_budget`` is the most that the states of a step may take, in bytes, any unless it is given, and ``stored_share`` what a byte of
    rows takes when it is stored; ``margin``: the part of what recomputing costs that states have to promise to save; ``storage_price``:
    what a plan is charged for each byte of a state that it keeps, in nanoseconds.

    The first step of the plan may be run, and relies on what is said of its inputs: raises ValueError unless that is known.
    """

    query: Rel
    points: tuple[Point, ...]
    tables: Mapping[str, TableFacts]
    states: frozenset[StateKey] = frozenset()
    stored: Mapping[StateKey, StoredFacts] = field(default_factory=dict)
    prices: CostModel = SPARK
    registry: Registry = TEMPURA
    counted: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    as_written: frozenset[int] = frozenset()
    state_budget: int | None = None
    stored_share: float = 1.0
    margin: float = MARGIN
    storage_price: float = 0.0

    def __post_init__(self) -> None:
        guessed = sorted(name for name, table in self.tables.items() if table.known <= self.first)
        if guessed:
            raise ValueError(f"the inputs of the step to be run are not pinned: {', '.join(guessed)}")

    def allows(self, state_bytes: float) -> bool:
        """Whether states of so many bytes are within the budget."""
        return self.state_budget is None or state_bytes <= self.state_budget

    def beginning(self, uses: int, more: Mapping[str, tuple[int, int]] = _AS_BEFORE) -> "Problem":
        """The same run asked as a first one: what it builds is expected to be of use so many times. The next result is planned with one
        after it, for which it keeps what it would keep; else states were begun that nobody goes on with. ``more``: the rows that are
        expected to come to tables, and to go, before that; as many as before the last point where it says nothing."""
        now, last = self.points[self.first], len(self.points) - 1
        begun = replace(now, weight=now.weight / uses)
        return replace(
            self,
            points=(*self.points[: self.first], begun, *self.points[self.first + 1 :], self.points[last]),
            tables={name: table.and_then(more.get(name)) for name, table in self.tables.items()},
            as_written=self.as_written | ({last + 1} if last in self.as_written else set()),
        )

    @property
    def worth_working(self) -> tuple[int, ...]:
        """The time points that a plan has to look at. Not those of which all work may be put off to a later one, up to the next result, at
        no higher price: what has changed until both is dealt with in one go there, which reads and writes less than twice does. Those of
        results are among them, and one of the past."""
        is_worth = (point.done or point.output or not self._may_wait(t) for t, point in enumerate(self.points))
        return tuple(t for t, worth in enumerate(is_worth) if worth)

    def _may_wait(self, t: int) -> bool:
        due = next((u for u in range(t + 1, len(self.points)) if self.points[u].output), len(self.points) - 1)
        return any(self._is_as_good(t, u) for u in range(t + 1, due + 1))

    def _is_as_good(self, t: int, u: int) -> bool:
        """Whether work is no dearer at u than at t. Before rows have left a table it is read faster than after."""
        signed = ((table.is_read_signed(t), table.is_read_signed(u)) for table in self.tables.values())
        return self.points[u].weight <= self.points[t].weight and all(then or not later for then, later in signed)

    def at(self, points: Sequence[int]) -> "Problem":
        """The same where nothing can be done but at some of the points, in order, that of the past among them. Where the run to be made is
        not, the next one is planned as if what is expected until then had come."""
        return replace(
            self,
            points=tuple(self.points[t] for t in points),
            tables={name: table.at(points) for name, table in self.tables.items()},
            as_written=frozenset(i for i, t in enumerate(points) if t in self.as_written),
        )

    @property
    def first(self) -> int:
        """The first time point at which work can run."""
        return 1 if self.points[0].done else 0


def staircase(tables: Mapping[str, TableFacts]) -> Staircase:
    """The one order in which a plan moves the changing tables on, one at a time: the fewer changes are expected, the earlier, but where a
    table refers to another that only gets rows, or only loses some, rows have their partners on the way, too."""
    last = max((len(table.inserted) for table in tables.values()), default=1) - 1
    changes = {name: table.changed_rows(0, last) for name, table in tables.items()}
    left = sorted((name for name in changes if changes[name]), key=lambda name: (changes[name], name))
    before = [pair for name in left for pair in _references_first(name, tables, last)]
    order: list[str] = []
    while left:
        free = [name for name in left if not any(a in left for a, b in before if b == name)]
        order.append((free or left)[0])
        left.remove(order[-1])
    return Staircase(tuple(order))


def _references_first(name: str, tables: Mapping[str, TableFacts], last: int) -> Iterator[tuple[str, str]]:
    """Of a table and those that it refers to, which has to move first."""
    for other in {r.table for r in tables[name].keys.references} & tables.keys() - {name}:
        if tables[other].is_insert_only(0, last):
            yield other, name
        elif tables[other].is_delete_only(0, last):
            yield name, other
