"""A cut query run over bags, path by path: what each flush really does, operator by operator.

Segments are run in their order. A path's rows wait until it is flushed; then its net change goes up its segment, and
what the blocking operator at the top changes waits on the paths that start there. The sum of all changes of the
result is what recomputing gives over the rows that were released, whatever the paces were.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.rel import Aggregate, Join, Rel, Scan
from tempura.pace.cut import Cut, Operator, Path, Segment
from tempura.pace.run_groups import Grouping
from tempura.pace.run_join import Joining
from tempura.pace.run_linear import Change, Running, linear, net, not_counted, tuples
from tempura.pace.run_whole import whole

Node = Operator | Path


@dataclass(slots=True)
class Seen:
    """What went through a node so far: tuples that came in over its inputs (deletions count), kept tuples that were
    looked through again, and rows that came out by kind, updates as a deletion and an insertion; ``held`` is the net
    number of rows that came out."""

    read: int = 0
    reread: int = 0
    inserted: int = 0
    deleted: int = 0

    @property
    def held(self) -> int:
        """Rows that are there now."""
        return self.inserted - self.deleted

    @property
    def tuples(self) -> int:
        """The work: tuples processed."""
        return self.read + self.reread


@dataclass(slots=True)
class Flush:
    """What one flush did: the paths that were flushed, and the tuples that all operators processed, the result's
    reader included."""

    paths: tuple[int, ...]
    tuples: int


def running(rel: Rel) -> Running:
    """An operator, ready to run. Raises TempuraError NOT_INTERPRETED for one that only Spark can compute."""
    made = linear(rel) or whole(rel)
    if made is None and isinstance(rel, Join):
        made = Joining(rel)
    if made is None and isinstance(rel, Aggregate):
        made = Grouping(rel)
    if made is None:
        raise not_counted(rel)
    return made


@dataclass
class PacedRun:
    """``columns`` names the columns of the tables' rows; ``seen`` is what went through each operator and path;
    ``flushes`` what was done."""

    cut: Cut
    columns: Mapping[str, tuple[str, ...]]
    seen: dict[Node, Seen] = field(default_factory=dict)
    flushes: list[Flush] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._operators = {op: running(op.rel) for segment in self.cut.segments for op in segment.operators}
        self._waiting: list[Change] = [[] for _ in self.cut.paths]
        self._picks = [_pick(path.rel, self.columns) for path in self.cut.paths]
        self._result: dict[Row, int] = {}
        self.seen = {node: Seen() for segment in self.cut.segments for node in segment.nodes}
        self._reading = {segment: Seen() for segment in self.cut.segments if segment.is_result}

    def arrive(self, table: str, change: Iterable[tuple[Row, int]]) -> None:
        """Rows arrive in a table: they wait on the paths that start there."""
        rows = list(change)
        for path in self.cut.paths:
            if path.table == table:
                self.arrive_on(path, rows)

    def arrive_on(self, path: Path, change: Iterable[tuple[Row, int]]) -> None:
        """Rows of its table arrive on one path: other uses of the table do not get them."""
        pick = self._picks[path.number]
        self._waiting[path.number] += [(pick(row), weight) for row, weight in change]

    def flush(self, paths: Collection[int], at_end: bool = False) -> Flush:
        """Flush these paths. ``at_end``: segments without a path are run, too."""
        before = self.work
        for segment in self.cut.segments:
            if at_end or any(path.number in paths for path in segment.paths):
                self._run(segment, paths)
        self.flushes.append(Flush(tuple(sorted(paths)), self.work - before))
        return self.flushes[-1]

    @property
    def work(self) -> int:
        """Tuples processed by all operators so far."""
        return sum(seen.tuples for seen in self.seen.values()) + sum(seen.read for seen in self._reading.values())

    def matched(self, op: Operator) -> tuple[int, tuple[Counter[int], Counter[int]]]:
        """Of a join: the pairs that match now, and, where that is kept track of, how many rows of each side match so many rows."""
        join = self._operators[op]
        assert isinstance(join, Joining), "only joins match rows"
        return join.pairs, (join.numbers(0), join.numbers(1))

    def _run(self, segment: Segment, paths: Collection[int]) -> None:
        out: dict[Node, Change] = {}
        for node in segment.nodes:
            out[node] = self._release(node, paths) if isinstance(node, Path) else self._apply(node, out)
        made = out[segment.root]
        if segment.is_result:
            change = net(made) if not isinstance(segment.root, Path) else made
            self._reading[segment].read += tuples(made)
            for row, weight in change:
                self._result[row] = self._result.get(row, 0) + weight
            return
        for path in self.cut.users(segment):
            self._waiting[path.number] += made

    def _release(self, path: Path, paths: Collection[int]) -> Change:
        """The net change that waits on a path, if it is flushed."""
        if path.number not in paths:
            return []
        waiting, self._waiting[path.number] = self._waiting[path.number], []
        change = waiting if path.table and all(weight > 0 for _, weight in waiting) else net(waiting)
        _count(self.seen[path], change)
        return change

    def _apply(self, node: Operator, out: Mapping[Node, Change]) -> Change:
        changes = [out[input] for input in node.inputs]
        operator, seen = self._operators[node], self.seen[node]
        made = operator.apply(*changes)
        seen.read += sum(map(tuples, changes))
        seen.reread = operator.reread
        _count(seen, made)
        return made

    @property
    def result(self) -> SignedBag:
        """The rows of the result as released."""
        return SignedBag(self._result.items())


def _count(seen: Seen, change: Change) -> None:
    for _, weight in change:
        if weight > 0:
            seen.inserted += weight
        else:
            seen.deleted -= weight


def _pick(rel: Rel, columns: Mapping[str, tuple[str, ...]]) -> Callable[[Row], Row]:
    """How the rows of a path are taken from the rows of its table: as they are from a segment."""
    if not isinstance(rel, Scan):
        return lambda row: row
    at = [columns[rel.table].index(name) for name in rel.fields]
    return lambda row: tuple(row[i] for i in at)
