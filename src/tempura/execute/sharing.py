"""What the sinks of a step have in common: which must be written first, and which expressions are worth keeping."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Consolidate, Join, Opaque, Rel, Support, TopK
from tempura.algebra.states import MergeStates, Partial
from tempura.algebra.window import Window
from tempura.errors import TempuraError
from tempura.physical.operators import Load, StateKey
from tempura.plan.progressive import Save, Step

_COSTLY = (Join, Aggregate, Partial, MergeStates, Consolidate, Support, TopK, One, Window, Opaque)


@dataclass(frozen=True)
class Sink:
    """Something that a step writes: a state (``save``), or the output (None)."""

    rel: Rel
    save: Save | None

    @property
    def name(self) -> str:
        """For people and for the outcome: the state's key, or "output"."""
        return str(self.save.key) if self.save else "output"

    @property
    def bucket(self) -> tuple[int, ...]:
        """The positions of the columns by which it is bucketed."""
        return self.save.bucket if self.save else ()

    @property
    def is_plain(self) -> bool:
        """Whether its rows are written as those of a result are."""
        return self.save is None or self.save.plain


def sinks_of(step: Step) -> tuple[Sink, ...]:
    """What the step writes, in the order of :func:`needs_of`, and with its errors."""
    return tuple(needs_of(step))


def needs_of(step: Step) -> dict[Sink, frozenset[Sink]]:
    """Of each thing that the step writes those that must be written before it, because it reads their states instead of computing them;
    in an order in which it comes after them.

    Raises TempuraError ``CYCLIC_STEP`` when states of the step need one another.
    """
    waiting = [Sink(save.rel, save) for save in step.saves] + ([Sink(step.emit, None)] if step.emit is not None else [])
    needs = {sink: frozenset(other for other in waiting if _needs(sink, other)) for sink in waiting}
    ordered: list[Sink] = []
    while waiting:
        ready = [sink for sink in waiting if needs[sink].isdisjoint(waiting)]
        if not ready:
            names = ", ".join(sink.name for sink in waiting)
            raise TempuraError(
                "CYCLIC_STEP", f"these states need one another: {names}.", "This is an error in Tempura."
            )
        ordered += ready
        waiting = [sink for sink in waiting if sink not in ready]
    return {sink: needs[sink] for sink in ordered}


def shared(sinks: Sequence[Sink]) -> frozenset[Rel]:
    """The expressions with more than one reader that cost more than reading a table again.

    A saved expression is not among them: whoever needs it reads the state.
    """
    saved = {sink.rel for sink in sinks if sink.save}
    nodes = {node for sink in sinks for node in _down_to(sink.rel, saved)}
    readers = Counter(input for node in nodes for input in set(node.inputs))
    readers.update({sink.rel for sink in sinks if not sink.save})
    return frozenset(rel for rel, n in readers.items() if n > 1 and rel not in saved and _is_costly(rel, saved))


def _needs(sink: Sink, other: Sink) -> bool:
    if other.save is None or other == sink:
        return False
    inside = any(_is_load(rel, other.save.key) for rel in sink.rel.walk())
    return inside or (other.rel != sink.rel and other.rel in set(sink.rel.walk())) or _is_twin(sink, other)


def _is_twin(sink: Sink, other: Sink) -> bool:
    """Whether the output is a state as it is: then it is read from the state."""
    return sink.save is None and sink.rel == other.rel


def _is_load(rel: Rel, key: StateKey) -> bool:
    return isinstance(rel, Load) and rel.key == key


def _down_to(rel: Rel, saved: set[Rel]) -> Iterator[Rel]:
    """The operators that are computed for ``rel``: not those below a saved one other than itself."""
    seen: set[Rel] = set()
    stack = [rel]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack += [input for input in node.inputs if input not in saved]


def _is_costly(rel: Rel, saved: set[Rel]) -> bool:
    return any(isinstance(node, _COSTLY) for node in _down_to(rel, saved))
