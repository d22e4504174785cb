"""What the search tells whoever listens: plain data, no logging. Traces and effort counters subscribe."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in the search."""


@dataclass(frozen=True, slots=True)
class ClassCreated(Event):
    """A class with its first member; ``rule`` made it, or it is part of the query."""

    id: int
    member: str
    rule: str

    def __str__(self) -> str:
        return f"class c{self.id} = {self.member}" + (f" by {self.rule}" if self.rule else "")


@dataclass(frozen=True, slots=True)
class ClassesMerged(Event):
    """Two classes turned out to be equal: ``gone`` is now ``kept``."""

    kept: int
    gone: int
    rule: str

    def __str__(self) -> str:
        return f"merge c{self.gone} into c{self.kept}" + (f" by {self.rule}" if self.rule else "")


@dataclass(frozen=True, slots=True)
class ClassSplit(Event):
    """A class has parts now, each a class: pairs of a kind of link and a class, None for a part that is constantly empty. ``table``:
    the one by which it is split."""

    id: int
    parts: tuple[tuple[str, int | None], ...]
    rule: str
    table: str | None = None

    def __str__(self) -> str:
        of = f"[{self.table}]" if self.table else ""
        parts = ", ".join(f"{kind}{of} = {'∅' if id is None else f'c{id}'}" for kind, id in self.parts)
        return f"split c{self.id} into {parts} by {self.rule}"


@dataclass(frozen=True, slots=True)
class ClassRewritten(Event):
    """A law at all times had something to say of a member of a class."""

    id: int
    rule: str

    def __str__(self) -> str:
        return f"rewrite c{self.id} by {self.rule}"


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """For searches that nobody listens to."""


def telling(listeners: Iterable[Listener]) -> Listener:
    """A listener that lets others know."""
    known = tuple(listener for listener in listeners if listener is not ignore)

    def tell(event: Event) -> None:
        for listener in known:
            listener(event)

    return tell
