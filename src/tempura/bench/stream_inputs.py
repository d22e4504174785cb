"""Synthetic streams for continuous joins: values with given pairwise selectivities, arrivals with given rates, all from a seed.

Source of the parameters: *Adaptive Caching for Continuous Queries*, section 7 and table 2. The paper says neither how long its windows are
nor how the values of four streams on one attribute meet in three and more; both are chosen here, and said in ``docs/streams.md``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import sqrt
from random import Random

from tempura.algebra.scalar import Call, Column, Expr
from tempura.streams.execution import Batch
from tempura.streams.query import Input, JoinQuery, LastRows, equal

PAIR_MASS = 0.1
"""The share of a stream's rows whose values it has in common with one other stream only, where it has any."""


@dataclass(frozen=True)
class Point:
    """A sample point: relative rates and pairwise selectivities of a join of streams on one attribute."""

    rates: tuple[float, ...]
    selectivities: tuple[float, ...]

    @property
    def pairs(self) -> Mapping[tuple[int, int], float]:
        """The selectivity of each pair of streams."""
        return dict(zip(combinations(range(len(self.rates)), 2), self.selectivities, strict=True))


TABLE_2: Mapping[str, Point] = {
    "d1": Point((10, 1, 1, 1), (0.004, 0.005, 0.005, 0.007, 0.0045, 0.005)),
    "d2": Point((8, 1, 1, 8), (0.004, 0.005, 0.005, 0.007, 0.0045, 0.005)),
    "d3": Point((10, 15, 1, 5), (0.003, 0.005, 0.007, 0.0045, 0.006, 0.008)),
    "d4": Point((1, 1, 1, 1), (0.003, 0.004, 0.0067, 0.002, 0.0023, 0.0027)),
    "d5": Point((4, 1, 1, 4), (0.005, 0.007, 0.005, 0.006, 0.005, 0.002)),
    "d6": Point((1, 1, 1, 1), (0.005, 0.0033, 0.0025, 0.0067, 0.005, 0.0075)),
    "d7": Point((1, 1, 1, 1), (0.0,) * 6),
    "d8": Point((1, 1, 1, 1), (0.001,) * 6),
}
"""Streams R, S, T, U; selectivities of RS, RT, RU, ST, SU, TU."""


@dataclass(frozen=True, slots=True)
class Values:
    """How a stream draws its values: blocks of equally likely values, first value and number of each, with the block's mass."""

    blocks: tuple[tuple[int, int, float], ...]

    def draw(self, rng: Random, count: int) -> list[int]:
        """Values, independent of one another."""
        chosen = rng.choices(self.blocks, [mass for _, _, mass in self.blocks], k=count)
        return [first + rng.randrange(size) for first, size, _ in chosen]


def values_of(point: Point) -> list[Values]:
    """Draws with the point's selectivities: the probability that the values of two streams are equal.

    All streams share one block that gives the smallest selectivity; what a pair has beyond it comes from a block of its own; the rest of
    a stream's rows have values that no other stream has.
    """
    n, least = len(point.rates), min(point.selectivities)
    beyond = {pair: s - least for pair, s in point.pairs.items() if s > least}
    most = max(sum(stream in pair for pair in beyond) for stream in range(n))
    common = max(1, int((1 - PAIR_MASS * most) ** 2 / least)) if least else 0
    blocks: list[list[tuple[int, int, float]]] = [
        [(0, common, sqrt(least * common))] if common else [] for _ in range(n)
    ]
    at = common
    for pair, surplus in beyond.items():
        size = max(1, int(PAIR_MASS**2 / surplus))
        for stream in pair:
            blocks[stream].append((at, size, sqrt(surplus * size)))
        at += size
    for own in blocks:
        rest = 1 - sum(mass for _, _, mass in own)
        if rest > 1e-9:
            own.append((at, 1000, rest))
            at += 1000
    return [Values(tuple(own)) for own in blocks]


def on_one_attribute(names: Sequence[str], window: int) -> JoinQuery:
    """The join of streams on their only attribute, each with a window of so many rows."""
    inputs = tuple(Input(name, (Column(f"{name}.a", "a", "int"),), LastRows(window)) for name in names)
    return JoinQuery(inputs, all_of([equal(inputs[0].columns[0], other.columns[0]) for other in inputs[1:]]))


def all_of(parts: Sequence[Expr]) -> Expr:
    """The conjunction."""
    return reduce(lambda a, b: Call("And", (a, b), "boolean"), parts[1:], parts[0])


def arrivals(rng: Random, rates: Sequence[float], count: int) -> Iterator[tuple[int, int]]:
    """Streams with the lengths of their runs: ``count`` arrivals, each stream's with its rate, in random order."""
    order = rng.choices(range(len(rates)), rates, k=count)
    begin = 0
    for end in range(1, count + 1):
        if end == count or order[end] != order[begin]:
            yield order[begin], end - begin
            begin = end


def batches_of(point: Point, count: int, seed: int) -> list[Batch]:
    """``count`` rows of the point's streams; rows of one stream that come one after the other are one batch."""
    rng = Random(seed)
    values = values_of(point)
    return [
        Batch(stream, [(value,) for value in values[stream].draw(rng, length)])
        for stream, length in arrivals(rng, point.rates, count)
    ]


def three_way(window: int, multiplicity: int, without_index: str = "") -> JoinQuery:
    """R(A) ⋈ S(A, B) ⋈ T(B) of section 7.2. T's window holds ``multiplicity`` times as many rows as the others', so that it spans as many
    values. ``without_index``: the columns of S, ``a`` and ``b``, that have
    no index."""
    r = Input("R", (Column("R.a", "a", "int"),), LastRows(window))
    s = Input("S", (Column("S.a", "a", "int"), Column("S.b", "b", "int")), LastRows(window))
    t = Input("T", (Column("T.b", "b", "int"),), LastRows(window * multiplicity))
    on = all_of([equal(r.columns[0], s.columns[0]), equal(s.columns[1], t.columns[0])])
    return JoinQuery((r, s, t), on, frozenset(c for c in s.columns if c.name in without_index))


def three_way_batches(
    count: int, rates: tuple[float, float, float], domain: int, multiplicity: int, seed: int, fanout: int = 1
) -> list[Batch]:
    """``count`` rows. Values come from one domain in one order, round and round: each once in R and S, ``multiplicity`` times in T, one
    after the other. ``fanout``: so many consecutive values of S.a are equal in R and S, so that a row of T meets more rows of R ⋈ S."""
    rng = Random(seed)
    at = [0, 0, 0]
    found: list[Batch] = []
    for stream, length in arrivals(rng, rates, count):
        rows: list[tuple[object, ...]] = []
        for n in range(at[stream], at[stream] + length):
            a = n % domain // fanout
            rows.append(((a,), (a, n % domain), (n // multiplicity % domain,))[stream])
        at[stream] += length
        found.append(Batch(stream, rows))
    return found


def n_way_batches(multiplicity: Sequence[int], count: int, domain: int, seed: int) -> list[Batch]:
    """``count`` rows of streams on one attribute: values go round and round a domain, each as often as the stream's multiplicity, and
    the stream is as many times faster."""
    rng = Random(seed)
    at = [0] * len(multiplicity)
    found: list[Batch] = []
    for stream, length in arrivals(rng, multiplicity, count):
        begin = at[stream]
        rows = [(n // multiplicity[stream] % domain,) for n in range(begin, begin + length)]
        at[stream] += length
        found.append(Batch(stream, rows))
    return found
