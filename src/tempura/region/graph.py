"""What a region is made of: operators, links between their ports, and the workers and channels that these become."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from tempura.errors import TempuraError
from tempura.region.operators import Operator, Source

MAX_WORKERS = 64
"""More than that in one region were not tried; each has a channel to each worker that it sends to."""

Place = Literal["worker", "driver"]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a region: ``make`` makes one in each of its workers, given the worker's number among ``workers``. ``place``: in
    workers of their own, or in the process of the controller, as a callback needs it."""

    name: str
    make: Callable[[int], Operator]
    workers: int = 1
    place: Place = "worker"


@dataclass(frozen=True, slots=True)
class Link:
    """From an operator's output to a port of another. ``by`` are columns: rows that are equal there go to the same worker; without them
    rows go to the receiver's only worker, from each worker to the one of its number, or, with ``broadcast``, to all."""

    sender: str
    receiver: str
    port: int = 0
    by: tuple[str, ...] = ()
    broadcast: bool = False


@dataclass(frozen=True, slots=True)
class Channel:
    """From one worker to one worker, for a port of the receiver; ``link`` is the number of its link."""

    sender: str
    receiver: str
    port: int
    link: int

    @property
    def id(self) -> str:
        """Its name in messages and logs."""
        return f"{self.sender}>{self.receiver}:{self.port}:{self.link}"


@dataclass(frozen=True)
class Graph:
    """A region: operators and links without circles. Raises TempuraError BAD_REGION when it is none."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = field(default=())

    def __post_init__(self) -> None:
        _check(self)

    @cached_property
    def node_of(self) -> Mapping[str, Node]:
        """The operator of each worker."""
        return {f"{node.name}/{n}": node for node in self.nodes for n in range(node.workers)}

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of all workers: the operator's name and a number."""
        return tuple(self.node_of)

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """All channels, in the order of the links."""
        return tuple(channel for n, link in enumerate(self.links) for channel in self._channels(n, link))

    def _channels(self, n: int, link: Link) -> list[Channel]:
        by_name = {node.name: node for node in self.nodes}
        sender, receiver = by_name[link.sender], by_name[link.receiver]
        aligned = not link.by and not link.broadcast and sender.workers == receiver.workers
        return [
            Channel(f"{sender.name}/{s}", f"{receiver.name}/{r}", link.port, n)
            for s in range(sender.workers)
            for r in range(receiver.workers)
            if not aligned or s == r
        ]

    def inputs(self, worker: str) -> list[Channel]:
        """The channels that a worker reads."""
        return [channel for channel in self.channels if channel.receiver == worker]

    def outputs(self, worker: str) -> list[Channel]:
        """The channels that a worker writes."""
        return [channel for channel in self.channels if channel.sender == worker]

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The workers that read no channel."""
        receivers = {channel.receiver for channel in self.channels}
        return tuple(worker for worker in self.workers if worker not in receivers)

    def with_ancestors(self, workers: Sequence[str] | set[str]) -> frozenset[str]:
        """Workers and all that send to them, directly or not: what has to be restarted so that they get their input again."""
        return _reached(workers, lambda worker: {channel.sender for channel in self.inputs(worker)})

    def with_descendants(self, workers: Sequence[str] | set[str]) -> frozenset[str]:
        """Workers and all that get their output, directly or not."""
        return _reached(workers, lambda worker: {channel.receiver for channel in self.outputs(worker)})

    def only(self, name: str) -> "Graph":
        """The same region, in which only one operator can be made: what the others are made of need not travel."""
        return Graph(tuple(n if n.name == name else replace(n, make=_elsewhere) for n in self.nodes), self.links)

    def make(self, worker: str) -> Operator:
        """The operator of a worker, new. Raises TempuraError BAD_REGION when it does not suit its place."""
        operator = self.node_of[worker].make(int(worker.rpartition("/")[2]))
        if isinstance(operator, Source) != (worker in self.sources):
            kind = "a source" if isinstance(operator, Source) else "no source"
            has = "no input" if worker in self.sources else "inputs"
            raise bad_region(f"{worker} has {has}, and its operator is {kind}.", "Link it otherwise.")
        return operator


def _elsewhere(number: int) -> Operator:
    raise AssertionError(f"operator {number} is made in another process")


def bad_region(what: str, remedy: str) -> TempuraError:
    """The error of a region that cannot be."""
    return TempuraError("BAD_REGION", what, remedy)


def _check(graph: Graph) -> None:
    names = [node.name for node in graph.nodes]
    twice = [name for name in names if names.count(name) > 1]
    if twice or not names:
        raise bad_region(
            f"two operators have the name {twice[0]!r}." if twice else "there is no operator.", "Name each."
        )
    odd = [name for name in names if not name.replace("_", "").replace("-", "").isalnum()]
    if odd:
        raise bad_region(f"{odd[0]!r} is no name of an operator.", "Use letters, digits, _ and -.")
    for link in graph.links:
        unknown = {link.sender, link.receiver} - set(names)
        if unknown:
            raise bad_region(
                f"a link names {min(unknown)!r}, which is no operator.", f"Name one of {', '.join(names)}."
            )
        _check_partition(graph, link)
    if not all(node.workers >= 1 for node in graph.nodes) or len(graph.workers) > MAX_WORKERS:
        what = f"the region has {len(graph.workers)} workers, and operators with {[n.workers for n in graph.nodes]}."
        raise bad_region(what, f"Give each operator one or more, and the region at most {MAX_WORKERS}.")
    order: TopologicalSorter[str] = TopologicalSorter()
    for link in graph.links:
        order.add(link.receiver, link.sender)
    try:
        order.prepare()
    except CycleError as error:
        raise bad_region(f"links form a circle: {' > '.join(error.args[1])}.", "Remove one.") from None


def _check_partition(graph: Graph, link: Link) -> None:
    workers = {node.name: node.workers for node in graph.nodes}
    several = workers[link.receiver] not in (1, workers[link.sender])
    if several and not link.by and not link.broadcast:
        what = f"rows of {link.sender} have {workers[link.receiver]} workers of {link.receiver} to go to."
        raise bad_region(what, "Say by which columns, or broadcast.")


def _reached(workers: Iterable[str], following: Callable[[str], set[str]]) -> frozenset[str]:
    """Workers, and all that follow from one to the next."""
    found, rest = set(workers), list(workers)
    while rest:
        more = following(rest.pop()) - found
        found |= more
        rest += more
    return frozenset(found)
