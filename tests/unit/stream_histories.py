"""Random continuous joins with random histories of changes, and the oracle: the algebra's interpreter over what the windows hold."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from random import Random

from tempura.algebra.bag import EMPTY, Row, SignedBag, identity
from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Rel, Scan
from tempura.algebra.scalar import Call, Column, Expr, Literal, Ref
from tempura.streams.candidates import Candidate, is_possible, segments
from tempura.streams.execution import Batch, CachedJoin, ContinuousJoin
from tempura.streams.query import Input, JoinQuery, LastRows, LastTime, Window, equal


@dataclass
class Relation:
    """One window, kept in the obvious way."""

    window: Window
    rows: list[tuple[float, Row]] = field(default_factory=list)

    def expire(self, now: float) -> None:
        if isinstance(self.window, LastTime):
            self.rows = [(t, row) for t, row in self.rows if t + self.window.span > now]

    def apply(self, batch: Batch) -> None:
        self.rows += [(batch.time, row) for row in batch.inserts]
        for gone in batch.deletes:
            place = next(n for n, (_, row) in enumerate(self.rows) if identity(row) == identity(gone))
            del self.rows[place]
        if isinstance(self.window, LastRows):
            self.rows = self.rows[-self.window.count :]


class Oracle:
    """What the join is after the batches so far."""

    def __init__(self, query: JoinQuery) -> None:
        self.query = query
        self.relations = [Relation(input.window) for input in query.inputs]

    def apply(self, batch: Batch) -> None:
        for relation in self.relations:
            relation.expire(batch.time)
        self.relations[batch.input].apply(batch)

    def result(self) -> SignedBag:
        bags = {
            input.name: SignedBag.of(row for _, row in relation.rows)
            for input, relation in zip(self.query.inputs, self.relations, strict=True)
        }

        def leaf(rel: Rel) -> SignedBag:
            assert isinstance(rel, Scan)
            return bags[rel.table]

        return evaluate(self.query.relation, leaf)


def random_query(rng: Random, most: int = 5) -> JoinQuery:
    """A join of a random shape (chain, star, one attribute, or a tree with more equalities), with random windows and conditions."""
    n = rng.randint(2, most)
    type = rng.choice(["int", "int", "int", "double", "string"])
    width = rng.randint(1, 2)
    inputs = tuple(
        Input(f"r{i}", tuple(Column(f"r{i}.{c}", f"c{c}", type) for c in range(width)), random_window(rng))
        for i in range(n)
    )
    one = rng.random() < 0.4
    parts: list[Expr] = []
    for i in range(1, n):
        other = rng.randrange(i)
        place = (0, 0) if one else (rng.randrange(width), rng.randrange(width))
        parts.append(equal(inputs[i].columns[place[0]], inputs[other].columns[place[1]]))
    for _ in range(rng.choice([0, 0, 0, 0, 1])):
        left, right = (rng.choice(rng.choice(inputs).columns) for _ in range(2))
        parts.append(
            Call(rng.choice(["EqualTo", "LessThan", "GreaterThanOrEqual"]), (Ref(left), Ref(right)), "boolean")
        )
    if rng.random() < 0.1:
        parts.append(
            Call("LessThan", (Ref(inputs[0].columns[0]), Literal(random_value(rng, type, 0), type)), "boolean")
        )
    rng.shuffle(parts)
    on: Expr = reduce(lambda a, b: Call("And", (a, b), "boolean"), parts)
    scanned = frozenset(rng.choice(inputs).columns) if rng.random() < 0.1 else frozenset[Column]()
    return JoinQuery(inputs, on, scanned)


def random_window(rng: Random) -> Window:
    return rng.choice([None, None, LastRows(rng.randint(1, 9)), LastTime(rng.choice([2.5, 8.0, 20.0]))])


def random_value(rng: Random, type: str, nulls: float) -> object:
    if rng.random() < nulls:
        return None
    number = rng.randrange(3)
    if type == "double":
        return rng.choice([0.0, -0.0, 1.0, math.nan])
    return str(number) if type == "string" else number


def random_history(rng: Random, query: JoinQuery, length: int) -> Iterator[Batch]:
    """Batches of inserts, and deletes of rows that are there, in the order of time."""
    oracle = Oracle(query)
    time = 0.0
    for _ in range(length):
        time += rng.choice([0.0, 0.0, 0.5, 1.0])
        n = rng.randrange(len(query.inputs))
        inserts = [
            tuple(random_value(rng, c.type, 0.05) for c in query.inputs[n].columns)
            for _ in range(rng.choice([0, 1, 1, 3]))
        ]
        for relation in oracle.relations:
            relation.expire(time)
        there = [row for _, row in oracle.relations[n].rows]
        deletes = rng.sample(there, min(len(there), rng.choice([0, 0, 1, 1, 2]))) if len(there) > 2 else []
        batch = Batch(n, inserts, deletes, time)
        oracle.apply(batch)
        yield batch


def random_caches(rng: Random, join: CachedJoin) -> list[Candidate]:
    """Some caches that can be used together, whatever they are worth."""
    found = list(segments(join.query, join.orders))
    rng.shuffle(found)
    chosen: list[Candidate] = []
    for c in found:
        if rng.random() < 0.7 and is_possible(join.query, join.orders, [*chosen, c]):
            chosen.append(c)
    return chosen


def random_orders(rng: Random, query: JoinQuery) -> tuple[tuple[int, ...], ...]:
    """Some order without products for each input."""
    orders = []
    for n in range(len(query.inputs)):
        order: list[int] = []
        while len(order) < len(query.inputs) - 1:
            near = [m for m in range(len(query.inputs)) if m not in (n, *order) and query.shared((n, *order), (m,))]
            order.append(rng.choice(near))
        orders.append(tuple(order))
    return tuple(orders)


def shake(rng: Random, join: CachedJoin) -> None:
    """What an adaptive algorithm may do between two batches, at random: other caches, other orders, less memory."""
    action = rng.random()
    if action < 0.08:
        join.use(random_caches(rng, join))
    elif action < 0.12:
        orders = random_orders(rng, join.query)
        some = tuple(new if rng.random() < 0.5 else old for new, old in zip(orders, join.orders, strict=True))
        join.reorder(some)
    elif action < 0.18:
        for cache in join.caches.values():
            cache.resize(rng.choice([1, 2, 64]), rng.choice([None, None, 700, 2000]))


def first_difference(
    join: ContinuousJoin, batches: Sequence[Batch], between: Callable[[], None] = lambda: None
) -> int | None:
    """The first batch after which the changes so far do not add up to the join; None when they always do."""
    oracle, total = Oracle(join.query), EMPTY
    for n, batch in enumerate(batches):
        between()
        oracle.apply(batch)
        given = [pair for changes in join.process(batch) for pair in changes.rows()]
        total = SignedBag((*total.items(), *given))
        if total != oracle.result():
            return n
    return None
