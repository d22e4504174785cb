"""Which caches there can be for given join orders, and where in the pipelines each would be kept up to date.

A cache of X in the pipeline of one input has to learn of every change of X, and no joins are done for that alone: it learns from tuples
that pass in the pipelines of X's inputs. Two places will do (*Adaptive Caching for Continuous Queries*, definition 3.2 and section 6):

* *exact*: right after the first |X| - 1 joins, if those are with the rest of X (the prefix invariant);
* *witness*: after joins with all the rest of X and others, Y, if the cache's key is known from the changed row, and X meets Y
  through that key only. Then whether a tuple of X passes depends on its key alone (``steps.Witness``).

Where Y meets X in other columns the paper's global consistency does not follow from what passes (a tuple of X that joined nothing when it
came is never seen again, though a later row of the cache's own pipeline may join it), so such caches are no candidates.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from tempura.streams.cache import Group
from tempura.streams.query import JoinQuery

Orders = tuple[tuple[int, ...], ...]
"""Per input the order in which its pipeline joins the others."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cache over the joins ``start`` to ``end`` (exclusive) of a pipeline."""

    pipeline: int
    start: int
    end: int
    group: Group

    def covers(self, other: "Candidate") -> bool:
        """Whether the segment of another cache of the same pipeline lies in this one's."""
        return self.pipeline == other.pipeline and self.start <= other.start and other.end <= self.end

    def overlaps(self, other: "Candidate") -> bool:
        """Whether two caches have a join in common."""
        return self.pipeline == other.pipeline and self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class UpdatePoint:
    """Where a pipeline updates a cache: after so many joins, and whether exactly or as a witness."""

    joins: int
    exact: bool


def candidate(query: JoinQuery, orders: Orders, pipeline: int, start: int, end: int) -> Candidate:
    """The cache over a segment of a pipeline."""
    order = orders[pipeline]
    inputs = tuple(sorted(order[start:end]))
    return Candidate(pipeline, start, end, Group(inputs, query.shared((pipeline, *order[:start]), inputs)))


def segments(query: JoinQuery, orders: Orders) -> Iterator[Candidate]:
    """The caches over all segments of two and more joins, the longest first."""
    n = len(orders)
    for length in range(n - 1, 1, -1):
        for pipeline in range(n):
            for start in range(n - length):
                yield candidate(query, orders, pipeline, start, start + length)


def has_prefix(orders: Orders, group: Group, input: int) -> bool:
    """Whether an input's pipeline joins the rest of the group first."""
    return {input, *orders[input][: len(group.inputs) - 1]} == set(group.inputs)


def prefix_candidates(query: JoinQuery, orders: Orders) -> list[Candidate]:
    """The caches that satisfy the prefix invariant (definition 3.2)."""
    return [c for c in segments(query, orders) if all(has_prefix(orders, c.group, n) for n in c.group.inputs)]


def all_candidates(query: JoinQuery, orders: Orders, quota: int) -> list[Candidate]:
    """The prefix caches, and while there are fewer than ``quota`` globally consistent ones, those over most inputs first (section 6)."""
    found = prefix_candidates(query, orders)
    for c in segments(query, orders):
        if len(found) >= quota:
            break
        if c not in found and is_possible(query, orders, [c]):
            found.append(c)
    return found


def update_point(
    query: JoinQuery, orders: Orders, group: Group, input: int, used: Iterable[Candidate] = ()
) -> UpdatePoint | None:
    """Where the pipeline of an input of a group updates the group's cache; None if nowhere. ``used`` are the caches in use: what
    passes inside of their segments is not seen."""
    order = orders[input]
    rest = set(group.inputs) - {input}
    joins = max(order.index(n) for n in rest) + 1
    inside = True
    while inside:
        inside = False
        for c in used:
            if c.pipeline == input and c.start < joins < c.end:
                joins, inside = c.end, True
    if set(order[:joins]) == rest:
        return UpdatePoint(joins, exact=True)
    beyond = set(order[:joins]) - rest
    if set(group.key) <= set(query.classes[input]) and _meets_by_key(query, group, beyond):
        return UpdatePoint(joins, exact=False)
    return None


def _meets_by_key(query: JoinQuery, group: Group, beyond: set[int]) -> bool:
    """Whether other inputs meet those of a group in the classes of its key only."""
    if not set(query.shared(group.inputs, beyond)) <= set(group.key):
        return False
    reads = (query.reads(condition) for condition in query.conditions)
    return not any(read & beyond and read & set(group.inputs) for read in reads)


def is_possible(query: JoinQuery, orders: Orders, used: Sequence[Candidate]) -> bool:
    """Whether caches can be used together: no two overlap, and each is kept up to date by every input of its group."""
    if any(one.overlaps(other) for one, other in combinations(used, 2)):
        return False
    return all(update_point(query, orders, g, n, used) for g in {c.group for c in used} for n in g.inputs)
