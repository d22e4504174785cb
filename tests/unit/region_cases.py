"""Random regions whose result is known, for tests of the runtime: sources that give what they have as they please, operators that depend
on the order of their input, sinks that let be seen what was committed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, ClassVar

import pyarrow as pa

from tempura.region.graph import Graph, Link, Node
from tempura.region.operators import Batch, Operator, Read, Sink, Source
from tempura.region.simulation import Simulation

SCHEMA = pa.schema([("source", pa.string()), ("n", pa.int64()), ("seen", pa.int64())])

Row = tuple[str, int]


def batch_of(rows: Iterable[tuple[str, int, int]]) -> Batch:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def rows_of(batch: Batch) -> list[tuple[str, int, int]]:
    return [(r["source"], r["n"], r["seen"]) for r in batch.to_pylist()]


class Whim(Source):
    """Numbers, as many at a time as it likes, and now and then none: nothing that a second run would do again by itself."""

    state: ClassVar[tuple[str, ...]] = ("next",)

    def __init__(self, name: str, count: int, random: Random) -> None:
        self.name, self.count, self.random = name, count, random
        self.next = 0

    def poll(self, rows: int) -> Read | None:
        if self.next == self.count:
            raise StopIteration
        if self.random.random() < 0.2:
            return None
        position = [self.next, min(self.count, self.next + self.random.randint(1, min(rows, 7)))]
        return Read(self.reread(position), position)

    def reread(self, position: Any) -> Batch:
        first, end = position
        assert first == self.next
        self.next = end
        return batch_of((self.name, n, 0) for n in range(first, end))


class Same(Operator):
    def process(self, batch: Batch, port: int) -> Iterable[Batch]:
        return [batch]


class Odd(Operator):
    """Keeps odd numbers."""

    def process(self, batch: Batch, port: int) -> Iterable[Batch]:
        return [batch_of(r for r in rows_of(batch) if r[1] % 2)]


class Twice(Operator):
    """Gives each row twice, in several small steps."""

    def process(self, batch: Batch, port: int) -> Iterator[Batch | None]:
        for row in rows_of(batch):
            yield batch_of([row])
            yield None
            yield batch_of([row])


class Numbered(Operator):
    """Numbers the rows in the order in which they come; at the end it says how many there were, as a row of its own."""

    state: ClassVar[tuple[str, ...]] = ("seen", "version")

    def __init__(self) -> None:
        self.seen = 0
        self.version = 0

    def process(self, batch: Batch, port: int) -> Iterator[Batch]:
        found = []
        for source, n, _ in rows_of(batch):
            self.seen += 1
            found.append((source, n, self.seen))
        yield batch_of(found[: len(found) // 2])
        yield batch_of(found[len(found) // 2 :])

    def set_version(self, version: int) -> int:
        self.version = version
        return self.seen


class Epochs(Sink):
    """Keeps rows until their snapshot is complete. ``World`` is what is outside of the region and outlives all workers."""

    state: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, world: "World") -> None:
        self.name, self.world = name, world
        self.rows: list[tuple[str, int, int]] = []

    def write(self, batch: Batch) -> None:
        self.rows += rows_of(batch)

    def prepare(self, id: str) -> None:
        self.world.prepared[self.name, int(id)] = list(self.rows)
        self.rows = []

    def commit(self, id: str) -> None:
        for (name, n), rows in sorted(self.world.prepared.items()):
            if name == self.name and n <= int(id):
                known = self.world.committed.setdefault((name, n), rows)
                self.world.altered |= known != rows


class World:
    """What sinks have made durable, and what can be seen; ``altered``: something that could be seen has changed."""

    def __init__(self) -> None:
        self.prepared: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
        self.committed: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
        self.altered = False

    def seen(self, sink: str) -> list[tuple[str, int, int]]:
        parts = [rows for (name, _), rows in sorted(self.committed.items()) if name == sink]
        return [row for part in parts for row in part]


OPERATORS: dict[str, Callable[[], Operator]] = {"same": Same, "odd": Odd, "twice": Twice, "numbered": Numbered}


class Case:
    """A random region, and the rows that each of its sinks has to get."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.world = World()
        self.whim = Random(seed + 1)
        self.kinds: dict[str, str] = {}
        self.expected: dict[str, Counter[Row]] = {}
        nodes: list[Node] = []
        links: list[Link] = []
        for n in range(rng.randint(1, 3)):
            name, count = f"source{n}", rng.randint(0, 40)
            nodes.append(Node(name, self._source(name, count)))
            self.kinds[name], self.expected[name] = "source", Counter((name, i) for i in range(count))
        for n in range(rng.randint(1, 4)):
            self._add(rng, nodes, links, f"op{n}", rng.choice(list(OPERATORS)))
        unread = [node.name for node in nodes if all(link.sender != node.name for link in links)]
        for n, name in enumerate(unread):
            nodes.append(Node(f"numbers{n}", lambda _: Numbered()))
            nodes.append(Node(f"sink{n}", self._sink(f"sink{n}")))
            links += [Link(name, f"numbers{n}"), Link(f"numbers{n}", f"sink{n}")]
            self.expected[f"sink{n}"] = self.expected[name]
        self.graph = Graph(tuple(nodes), tuple(links))
        self.sinks = [f"sink{n}" for n in range(len(unread))]

    def _source(self, name: str, count: int) -> Callable[[int], Operator]:
        return lambda _: Whim(name, count, self.whim)

    def _sink(self, name: str) -> Callable[[int], Operator]:
        return lambda _: Epochs(name, self.world)

    def _add(self, rng: Random, nodes: list[Node], links: list[Link], name: str, kind: str) -> None:
        senders = rng.sample(nodes, rng.randint(1, min(3, len(nodes))))
        workers = rng.choice((1, 1, 2))
        by = ("source", "n") if workers > 1 or any(s.workers > 1 for s in senders) else ()
        links += [Link(s.name, name, port=rng.randint(0, 1), by=by) for s in senders]
        nodes.append(Node(name, lambda _: OPERATORS[kind](), workers))
        rows: Counter[Row] = sum((self.expected[s.name] for s in senders), Counter())
        if kind == "odd":
            rows = Counter({row: count for row, count in rows.items() if row[1] % 2})
        self.expected[name] = Counter({row: 2 * count for row, count in rows.items()}) if kind == "twice" else rows

    def faults(self) -> list[str]:
        """What is wrong with what can be seen."""
        found = ["what was seen has changed"] if self.world.altered else []
        for sink in self.sinks:
            rows = self.world.seen(sink)
            if Counter(row[:2] for row in rows) != self.expected[sink]:
                found.append(f"{sink} has {len(rows)} rows, not {self.expected[sink].total()}, or others")
            if [row[2] for row in rows] != list(range(1, len(rows) + 1)):
                found.append(f"the rows of {sink} are not numbered 1, 2, …")
        return found


def faults_of(seed: int, **options: Any) -> tuple[list[str], Simulation]:
    """What is wrong with a random region after a random run."""
    case = Case(seed)
    simulation = Simulation(case.graph, seed, **options)
    simulation.run(60_000)
    ended = [] if simulation.coordinator.is_done else ["it stands still:", simulation.why()]
    return [*ended, *case.faults()], simulation
