"""Total and final work of pace configurations (Thrifty Query Execution via Incrementability, Algorithm 1).

Data arrives in M steps, where M is the maximal pace. A path is flushed at every step by which another 1 / pace of all
rows has come since its last flush, and at the last one. Cardinalities of all steps are computed at once, and those of
several configurations together: the state that an operator is in at a step is the sum of what it was given before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, Opaque, Project, Sort, TopK, Union, Values
from tempura.algebra.scalar import Expr
from tempura.algebra.window import Window
from tempura.pace.arrivals import Arrivals
from tempura.pace.changing import changing_columns, reads_changes
from tempura.pace.cut import Cut, Operator, Path, Segment
from tempura.pace.flow import Array, Flow, Mask, Release, flips, release_at, sensitivity
from tempura.pace.flow_groups import Groups
from tempura.pace.flow_join import Matching, joined
from tempura.pace.flow_linear import added, filtered, multiplied
from tempura.pace.flow_whole import Blocking, FirstRows, Partitions, Recomputed, Unchanged, looked_through
from tempura.pace.origin import key_origins
from tempura.pace.statistics import Known, Statistics, rows_in_the_end
from tempura.pace.work import Tuples, Work

Node = Operator | Path
Paces = NDArray[np.int64]
_ONE_EACH = 0.9
"""From this many groups per row of a table on, a group has one."""
FOLLOWS = 0
"""The pace of a path that is flushed whenever one of the paths below it is."""


@dataclass
class Effort:
    """What was done: configurations simulated, and operators priced for one of them (the paper's measure of complexity)."""

    simulated: int = 0
    priced: int = 0


@dataclass(frozen=True, eq=False)
class Result:
    """Work per configuration: of all flushes, of the last one, and, per step, of all operators."""

    total: Array
    final: Array
    steps: Array


@dataclass(eq=False)
class Simulation:
    """A cut query over tables that arrive, with what is known of its operators. ``past`` are flushes that have been,
    per path, as steps: of these as many columns are given as steps are over."""

    cut: Cut
    statistics: Statistics
    arrivals: Arrivals
    work: Work = field(default_factory=Tuples)
    past: Mask | None = None
    effort: Effort = field(default_factory=Effort)

    def __post_init__(self) -> None:
        self._final = rows_in_the_end(self.cut, self.statistics, self.arrivals.rows)
        self._changing = changing_columns(self.cut)
        self._blocking = {
            segment: self._kind(segment.root)
            for segment in self.cut.segments
            if not segment.is_result and isinstance(segment.root, Operator)
        }
        flushes = np.stack([self.arrivals.flushes(pace) for pace in range(1, self.arrivals.steps + 1)])
        self._anchors = {segment: self._anchor(segment) for segment in self._blocking}
        none = np.zeros((1, self.arrivals.steps), dtype=bool)
        none[0, -1] = True
        self._flushes: Mask = np.concatenate((none, flushes))

    def run(self, paces: Paces | Sequence[Sequence[int]]) -> Result:
        """The work of configurations, a row each, of a pace per path (``FOLLOWS``: as those below it)."""
        given = np.asarray(paces, dtype=np.int64)
        priced, _ = self._run(given)
        return Result(priced.sum(axis=1), priced[:, -1], priced)

    def flows(self, paces: Sequence[int]) -> Mapping[Node, Flow]:
        """What each operator and path of one configuration gives out, per step."""
        return self._run(np.asarray([paces], dtype=np.int64))[1]

    def flushes(self, paces: Sequence[int]) -> Mask:
        """Whether each path is flushed at each step, under one configuration."""
        return np.stack([at.now[0] for at in self._masks(np.asarray([paces], dtype=np.int64))])

    def _run(self, paces: Paces) -> tuple[Array, dict[Node, Flow]]:
        masks = self._masks(paces)
        self.effort.simulated += len(paces)
        steps = np.zeros((len(paces), self.arrivals.steps))
        flows: dict[Node, Flow] = {}
        given: dict[int, Flow] = {}
        anchored: dict[int, Array] = {}
        for segment in self.cut.segments:
            for node in segment.nodes:
                if isinstance(node, Path):
                    flows[node] = self._release(node, masks[node.number], given, anchored)
                    steps = steps + self.work.path(node, flows[node], segment.is_result and node is segment.root)
                elif segment.is_result or node is not segment.root:
                    flows[node] = self._made(node, [flows[input] for input in node.inputs])
                    inputs = [flows[input] for input in node.inputs]
                    steps = steps + self.work.operator(node, inputs, flows[node], np.zeros(1))
                else:
                    kind = self._blocking[segment]
                    given[segment.number] = into = self._given(node, flows, masks)
                    anchor = self._anchors[segment]
                    if anchor is not None:
                        anchored[segment.number] = flows[anchor].after / max(self._final[anchor], 1e-9)
                    steps = steps + self.work.operator(
                        node, [flows[i] for i in node.inputs], None, looked_through(kind, into)
                    )
            self.effort.priced += len(paces) * len(segment.operators)
            if segment.is_result and isinstance(segment.root, Operator):
                steps = steps + flows[segment.root].tuples  # which the result's reader sees
        return steps, flows

    def _masks(self, paces: Paces) -> list[Release]:
        """When each path is flushed."""
        found: list[Mask] = []
        for path in self.cut.paths:
            own = paces[:, path.number]
            now = self._flushes[own]
            follows = own == FOLLOWS
            if follows.any():
                below = [found[child.number] for child in self.cut.below(path)]
                together = np.logical_or.reduce(below) if below else now
                now = np.where(follows[:, np.newaxis], together | now, now)
            if self.past is not None:
                over = self.past.shape[1]
                now = now.copy()
                now[:, :over] = self.past[path.number]
            found.append(now)
        return [release_at(now) for now in found]

    def _release(self, path: Path, at: Release, given: Mapping[int, Flow], anchored: Mapping[int, Array]) -> Flow:
        if path.source is not None:
            kind = self._blocking[self.cut.segments[path.source]]
            if isinstance(kind, Groups):
                return kind.released(given[path.source], at, anchored.get(path.source))
            return kind.released(given[path.source], at)
        came = at.since_last(np.broadcast_to(self.arrivals.of(path.table or ""), at.now.shape))
        nothing = np.zeros_like(came)
        return Flow(came, nothing, nothing, nothing)

    def _given(self, node: Operator, flows: Mapping[Node, Flow], masks: Sequence[Release]) -> Flow:
        """All that goes into a blocking operator."""
        if not node.inputs:
            shape = masks[0].now.shape if masks else (1, self.arrivals.steps)
            nothing = np.zeros(shape)
            return Flow(nothing, nothing, nothing, nothing)
        return added(*(flows[input] for input in node.inputs))

    def _made(self, op: Operator, given: list[Flow]) -> Flow:
        known = self.statistics[op]
        match op.rel:
            case Filter():
                return filtered(given[0], known.factor, self._flips(op, op.rel.predicate, 0, given[0]))
            case Join():
                flip = (self._flips(op, op.rel.on, 0, given[0]), self._flips(op, op.rel.on, 1, given[1]))
                shows = (bool(self._changing[op][0]), bool(self._changing[op][1]))
                return joined(op.rel.kind, given[0], given[1], known.factor, flip, self._matching(op, known), shows)
            case Union():
                return added(*given)
            case Values():
                return self._constant(known)
            case Project():
                return given[0]
        return multiplied(given[0], known.factor)

    def _constant(self, known: Known) -> Flow:
        nothing = np.zeros((1, self.arrivals.steps))
        first = nothing.copy()
        first[:, 0] = known.factor
        return Flow(first, nothing, nothing, nothing)

    def _flips(self, op: Operator, condition: Expr, side: int, flow: Flow) -> Array:
        return flips(sensitivity(condition, self._changing[op][side]), flow.moved)

    def _matching(self, op: Operator, known: Known) -> tuple[Matching, Matching]:
        rows = [self._final[input] for input in op.inputs]
        pairs = known.factor * rows[0] * rows[1]
        return tuple(  # type: ignore[return-value]
            Matching(known.covered[i], pairs / max(known.covered[i] * rows[i], 1e-9), rows[1 - i], known.unlike[i])
            for i in (0, 1)
        )

    def _anchor(self, segment: Segment) -> Node | None:
        """Of an aggregation over joins the input of which each group has one row, and none before that: what comes of a use of a table
        whose column is a key, where there are about as many groups as rows."""
        kind = self._blocking[segment]
        assert isinstance(segment.root, Operator), "a path does not block"
        if not isinstance(kind, Groups) or kind.is_one:
            return None
        branches = [
            branch
            for origins in key_origins(segment, only_inner=True)
            for path in origins
            if (branch := _branch(segment, path)) not in segment.root.inputs
        ]
        smallest = min(branches, key=self._final.__getitem__, default=None)
        if smallest is None or kind.number < _ONE_EACH * self._final[smallest]:
            return None
        return smallest

    def _kind(self, op: Operator) -> Blocking:
        known, rows = self.statistics[op], sum(self._final[input] for input in op.inputs)
        changes = frozenset[str]().union(*self._changing[op]) if op.inputs else frozenset[str]()
        match op.rel:
            case Aggregate():
                functions = [output.call.function for output in op.rel.aggregates]
                return Groups(
                    1.0 if not op.rel.keys else min(known.factor, max(rows, 1.0)),
                    rows,
                    is_one=not op.rel.keys,
                    shows_updates=bool(functions),
                    only_extremes=bool(functions) and set(functions) <= {"Min", "Max"},
                    has_extremes=bool(set(functions) & {"Min", "Max"}),
                    sees_updates=reads_changes(op.rel, changes),
                )
            case TopK():
                return FirstRows(float(op.rel.limit))
            case Window():
                return Partitions(Groups(max(1.0, known.factor), rows))
            case One():
                return Groups(1.0, rows, is_one=True)
            case Sort():
                return Unchanged()
            case Opaque():
                return Recomputed(known.factor)
        raise TypeError(f"{op.rel.label} does not block")


def _branch(segment: Segment, path: Path) -> Node:
    """The highest operator above a path below which nothing else is."""
    found: Node = path
    for op in segment.operators:
        if op.inputs == (found,) and op is not segment.root:
            found = op
    return found


__all__ = ["FOLLOWS", "Effort", "Paces", "Result", "Simulation"]
