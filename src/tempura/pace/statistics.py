"""What is known of each operator of a cut query: selectivities, join selectivity factors, numbers of groups. From the
tables' statistics, from an earlier run (Thrifty Query Execution via Incrementability, 3.1.2 and 5.2), or from a run over a sample
(``pace/sample.py``). Cardinalities follow from these and from what arrives; nothing is known of a query by its name."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from random import Random

from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.rel import Aggregate, Filter, Join, Opaque, Project, Rel, TopK, Values
from tempura.algebra.window import Window, partition_keys
from tempura.cost.estimate import Estimator
from tempura.cost.stats import TableFacts
from tempura.pace.cut import Cut, Operator, Path
from tempura.pace.run import PacedRun

Unlike = tuple[tuple[float, float], ...]
"""Multiples of an average with their shares."""

_APART = 8
"""Numbers of matches that are told apart; rows with more have their average."""


@dataclass(frozen=True, slots=True)
class Known:
    """``factor`` is, of a filter, a generator or what is recomputed, rows out ÷ rows in; of a join, pairs ÷ (left
    rows x right rows); of an aggregation or a window, the number of groups in the end. ``covered``: the shares of a
    join's left and right rows that match in the end. ``unlike``: how these differ, as multiples of the average number of matches with the
    shares of rows that have them; empty where that is not known, and all have the average."""

    factor: float = 1.0
    covered: tuple[float, float] = (1.0, 1.0)
    unlike: tuple[Unlike, Unlike] = ((), ())


Statistics = Mapping[Operator, Known]


def estimated(cut: Cut, tables: Mapping[str, TableFacts]) -> Statistics:
    """From the statistics of the tables, all of whose rows have come, by the planner's own estimator."""
    estimator = Estimator(tables, cut.memo.representative)
    return {op: _estimated(op.rel, estimator) for segment in cut.segments for op in segment.operators}


def _estimated(rel: Rel, estimator: Estimator) -> Known:
    match rel:
        case Filter() | Generate():
            return Known(estimator.rows(rel) / max(1.0, estimator.rows(rel.input)))
        case Expand():
            return Known(float(len(rel.projections)))
        case Join():
            return _of_join(rel, estimator)
        case Aggregate():
            return Known(estimator.rows(rel))
        case Window():
            return Known(estimator.groups(rel.input, partition_keys(rel.partition, rel.functions)))
        case TopK():
            return Known(float(rel.limit))
        case Opaque():
            return Known(estimator.rows(rel) / max(1.0, sum(map(estimator.rows, rel.inputs))))
        case Values():
            return Known(float(len(rel.rows)))
    return Known()


def _of_join(rel: Join, estimator: Estimator) -> Known:
    left, right = (max(1.0, estimator.rows(side)) for side in rel.inputs)
    pairs = estimator.rows(replace(rel, kind="inner", marker=None))
    matched = estimator.rows(replace(rel, kind="semi", marker=None))
    other = estimator.rows(Join(rel.right, rel.left, "semi", rel.on)) if rel.kind == "full" else 0.0
    return Known(pairs / (left * right), (min(1.0, matched / left), min(1.0, other / right)))


Node = Operator | Path


def corrected(statistics: Statistics, rows: Mapping[Operator, float]) -> Statistics:
    """Statistics by which operators have so many times the ``rows`` that were expected: of a condition or an inner join its factor, of a
    semi-join the share that matches. What is off already in its inputs is not counted twice. Of other joins rows tell neither."""

    def off(node: Node) -> float:
        if isinstance(node, Path):
            return 1.0
        passes = isinstance(node.rel, Project | Filter) or (isinstance(node.rel, Join) and node.rel.kind == "inner")
        return rows.get(node, prod(map(off, node.inputs)) if passes else 1.0)

    def better(op: Operator, known: Known) -> Known:
        if isinstance(op.rel, Filter):
            return replace(known, factor=min(1.0, known.factor * rows[op] / off(op.inputs[0])))
        if isinstance(op.rel, Join) and op.rel.kind == "inner":
            return replace(known, factor=known.factor * rows[op] / prod(map(off, op.inputs)))
        if isinstance(op.rel, Join) and op.rel.kind == "semi":
            left, right = known.covered
            return replace(known, covered=(min(1.0, left * rows[op] / off(op.inputs[0])), right))
        return known

    return {op: better(op, known) if op in rows else known for op, known in statistics.items()}


def measured(
    cut: Cut,
    run: PacedRun,
    before: Statistics,
    tables: Mapping[str, float],
    by_keys: Mapping[Operator, float] | None = None,
) -> Statistics:
    """From what went through the operators of a run so far, as if the rows to come were like those that have come: of
    ``tables`` so many in the end. ``before`` stays where nothing has been seen, and counts as one row that was seen where a part has.
    ``by_keys``: aggregations and joins whose inputs have, because of a sample, the rows of that share of the keys only."""
    ends: dict[Node, float] = {}
    found: dict[Operator, Known] = {}
    for segment in cut.segments:
        for node in segment.nodes:
            if isinstance(node, Path):
                ends[node] = tables[node.table] if node.table is not None else ends[cut.segments[node.source or 0].root]
            else:
                shares = [min(1.0, run.seen[input].held / max(ends[input], 1e-9)) for input in node.inputs]
                found[node] = _measured(node, run, before[node], shares, (by_keys or {}).get(node, 1.0))
                ends[node] = _rows(node, found[node], [ends[input] for input in node.inputs])
    return found


def _measured(op: Operator, run: PacedRun, before: Known, shares: list[float], keyed: float) -> Known:
    rel, held = op.rel, [run.seen[input].held for input in op.inputs]
    if not held or min(held) <= 0:
        return before
    out, is_all = run.seen[op].held, min(shares) >= 1.0
    match rel:
        case Filter() | Generate() | Opaque():
            return Known(_rate(out, sum(held), before.factor, is_all))
        case Join():
            return _join_measured(op, run, held, before, shares, keyed)
        case Aggregate() if rel.keys:
            return Known(groups_in_the_end(out, held[0], min(1.0, shares[0] / keyed)) / keyed)
    return before


def _rate(found: int, tried: int, before: float, is_all: bool) -> float:
    """Found ÷ tried. Of a part of the rows, what was believed before counts as one found: nothing found among a few says little, among
    many much."""
    return found / tried if is_all or before <= 0 else (found + 1) / (tried + 1 / before)


def _join_measured(
    op: Operator, run: PacedRun, held: list[int], before: Known, shares: list[float], keyed: float
) -> Known:
    """Where both sides have the rows of the same keys, a share of them, pairs are there with that share and not with its square, and of
    the keys of a side all of the other."""
    pairs, numbers = run.matched(op)
    matched = [sum(own.values()) for own in numbers]
    there = [min(1.0, share / keyed) for share in reversed(shares)]  # of what a side may match
    left, right = (
        covered_in_the_end(own / rows, pairs / max(1, own), share)
        for own, rows, share in zip(matched, held, there, strict=True)
    )
    factor = keyed * _rate(pairs, held[0] * held[1], before.factor / keyed, min(shares) >= 1.0)
    if not any(matched):
        return Known(factor, before.covered, before.unlike)
    # Of a part of the other side it is not known how many matches a row will have.
    first, second = (
        _unlike(own) if share >= 1.0 else old for own, share, old in zip(numbers, there, before.unlike, strict=True)
    )
    return Known(factor, (left, right), (first, second))


def _unlike(numbers: Mapping[int, int]) -> Unlike:
    """How numbers of matches differ, given how many rows have each."""
    rows = sum(numbers.values())
    if not rows:
        return ()
    few = {number: count for number, count in numbers.items() if number <= _APART}
    many = rows - sum(few.values())
    total = sum(number * count for number, count in numbers.items())
    found = [(number * rows / total, count / rows) for number, count in sorted(few.items())]
    if many:
        rest = (total - sum(number * count for number, count in few.items())) / many
        found.append((rest * rows / total, many / rows))
    return tuple(found)


def covered_in_the_end(share: float, each: float, there: float) -> float:
    """The share of rows that match in the end, of which ``share`` match when a part x of the other side is ``there``, those by ``each``
    rows. With k matches of each in the end, c (1 - (1 - x)^k) = share and k x / (1 - (1 - x)^k) = each: one row that is there of k is seen
    more often than it is missed, so k is less than each / x. Solved by bisection."""
    if there >= 1.0 or share <= 0.0 or there <= 0.0:
        return share

    def matching(number: float) -> float:
        return 1.0 - float((1 - there) ** number)

    low, high = 1.0, max(1.0, each / there)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * there < each * matching(middle) else (low, middle)
    return min(1.0, share / matching(high))


def groups_in_the_end(groups: int, rows: int, share: float) -> float:
    """How many groups there are when all rows are there, if ``groups`` have rows among the share of them: G (1 - (1 -
    x)^(N / G)) = g, solved by bisection."""
    if share >= 1.0 or groups >= rows:
        return groups / min(1.0, max(share, 1e-9))
    total = rows / share
    low, high = float(groups), total
    for _ in range(50):
        middle = (low + high) / 2
        there = groups_there(middle, total, share)
        low, high = (middle, high) if there < groups else (low, middle)
    return high


def groups_there(groups: float, rows: float, share: float) -> float:
    """How many of ``groups`` have rows when a share of all ``rows`` is there: the inverse of :func:`groups_in_the_end`."""
    missed: float = (1 - min(1.0, share)) ** (rows / max(groups, 1e-9))
    return groups * (1 - missed)


def biased(statistics: Statistics, ratio: float, random: Random) -> Statistics:
    """Statistics that are wrong: each operator's selectivity and number of groups times a factor of its own between 1
    and ``ratio`` (Thrifty Query Execution via Incrementability, 5.4). A share stays at most 1."""
    low, high = min(1.0, ratio), max(1.0, ratio)

    def wrong(op: Operator, known: Known) -> Known:
        by = random.uniform(low, high)
        if isinstance(op.rel, Filter):
            return Known(min(1.0, known.factor * by))
        if isinstance(op.rel, Join):
            covered = (min(1.0, known.covered[0] * by), min(1.0, known.covered[1] * by))
            return replace(known, factor=known.factor * by, covered=covered)
        if isinstance(op.rel, Aggregate | Window):
            return Known(max(1.0, known.factor * by))
        return known

    return {op: wrong(op, known) for op, known in statistics.items()}


def rows_in_the_end(cut: Cut, statistics: Statistics, tables: Mapping[str, float]) -> dict[Node, float]:
    """How many rows each operator and path has given out, net, when ``tables`` are complete."""
    rows: dict[Node, float] = {}
    for segment in cut.segments:
        for node in segment.nodes:
            if isinstance(node, Path):
                rows[node] = tables[node.table] if node.table is not None else rows[cut.segments[node.source or 0].root]
            else:
                rows[node] = _rows(node, statistics[node], [rows[input] for input in node.inputs])
    return rows


def _rows(op: Operator, known: Known, given: list[float]) -> float:
    rel = op.rel
    match rel:
        case Aggregate():
            return 1.0 if not rel.keys else min(known.factor, max(given[0], 1.0))
        case TopK():
            return min(known.factor, given[0])
        case Values():
            return known.factor
        case Join():
            return _rows_of_join(rel, known, *given)
        case Filter() | Generate() | Expand() | Opaque():
            return known.factor * sum(given)
    return sum(given)


def _rows_of_join(rel: Join, known: Known, left: float, right: float) -> float:
    pairs = known.factor * left * right
    covered = [min(1.0, share) * rows for share, rows in zip(known.covered, (left, right), strict=True)]
    match rel.kind:
        case "inner":
            return pairs
        case "semi":
            return covered[0]
        case "anti":
            return left - covered[0]
        case "exists":
            return left
        case "full":
            return pairs + left - covered[0] + right - covered[1]
    return pairs + left - covered[0]
