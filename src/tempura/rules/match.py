"""Matching: which metavariables make the left side of a law equal to an expression.

A pattern is an ordinary expression with *holes*, small legal values that stand for metavariables. Where it has an operator
and the expression has a class of equal expressions, each member of the class is tried; so there may be several matches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tempura.algebra.rel import Rel, compared
from tempura.algebra.scalar import Call, Column
from tempura.tvr.tvr import Tvr
from tempura.tvr.views import Delta, Snapshot, State, StateDelta, View

Bindings = Mapping[str, object]
"""What stands for each metavariable, by its name."""

Members = Callable[[Rel], Iterable[Rel]]
"""The expressions that an input of an operator may be replaced by: the members of a class, or the input itself."""


def itself(rel: Rel) -> tuple[Rel, ...]:
    """The members of an expression that is in no class."""
    return (rel,)


# --- holes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Hole(Rel):
    """Stands for any relation; with ``many``, among the terms of a union, for any number of terms."""

    name: str
    many: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return ()


class TupleHole(tuple[object, ...]):
    """Stands for any tuple of parameters; it is empty, so that what a rule derives from it is well formed."""

    name: str


class NumberHole(int):
    """Stands for any number: a time, a limit, a flag. No plan has such a time point."""

    name: str


_EVERYTHING_HOLDS = type(
    "EverythingHolds", (), {"__getattr__": lambda self, name: lambda *args: True, "points": lambda self, *args: ()}
)
"""What a guard asks while a rule is compiled."""


def hole(name: str, kind: str, number: int) -> object:
    """The hole of the metavariable with a name and a kind, the ``number``-th of its rule."""
    match kind:
        case "Tvr" | "Query":
            return Tvr(Hole(name))
        case "Tvrs" | "Sides":
            return (Tvr(Hole(name, many=True)),)
        case "On" | "OnAll" | "Pred" | "Generator":
            return Call("?" + name, (), "boolean")
        case "Marker" | "AnyMarker":
            return Column("?" + name, name, "boolean" if kind == "Marker" else "boolean?")
        case "How" | "Table":
            return "?" + name
        case "NotInner":
            return "?!" + name
        case "Time" | "Between" | "Limit" | "Outer":
            return _named(NumberHole(-1000 - number), name)
        case "Facts" | "Links" | "Always" | "Promised" | "Expected":
            return _EVERYTHING_HOLDS()
        case _:
            return _named(TupleHole(), name)


def _named(hole: TupleHole | NumberHole, name: str) -> object:
    hole.name = name
    return hole


def name_of_hole(pattern: object, target: object) -> str | None:
    """The metavariable for which a hole stands, where the target is something that it can stand for."""
    match pattern:
        case Hole() if isinstance(target, Rel):
            return pattern.name
        case TupleHole() | NumberHole():
            return pattern.name
        case Call(function) if function.startswith("?"):
            return function[1:]
        case Column(id, _, type) if id.startswith("?"):
            return id[1:] if isinstance(target, Column) or (target is None and type == "boolean?") else None
        case str() if pattern.startswith("?!"):
            return pattern[2:] if target != "inner" else None
        case str() if pattern.startswith("?"):
            return pattern[1:]
    return None


# --- matching ---------------------------------------------------------------------------------------------------------


def matches(pattern: object, target: object, found: Bindings, members: Members = itself) -> Iterator[Bindings]:
    """All ways to extend ``found`` so that the pattern equals the target."""
    name = name_of_hole(pattern, target)
    if name is not None:
        yield from _bound(name, Tvr(target) if isinstance(target, Rel) else target, found)
    elif isinstance(pattern, tuple):
        if isinstance(target, tuple):
            yield from _sequences(pattern, target, found, members)
    elif isinstance(pattern, Rel):
        if isinstance(target, Rel):
            for member in members(target):
                yield from _operators(pattern, member, found, members)
    elif isinstance(pattern, Snapshot | Delta | State | StateDelta):
        yield from _operators(pattern, target, found, members)
    elif not isinstance(pattern, Hole | Column) and pattern == target:
        yield found


def _operators(pattern: object, target: object, found: Bindings, members: Members) -> Iterator[Bindings]:
    if type(pattern) is type(target):
        parts = [(getattr(pattern, name), getattr(target, name)) for name in compared(type(pattern))]
        yield from _all(parts, found, members)


def _all(parts: list[tuple[object, object]], found: Bindings, members: Members) -> Iterator[Bindings]:
    if not parts:
        yield found
        return
    (pattern, target), *rest = parts
    for extended in matches(pattern, target, found, members):
        yield from _all(rest, extended, members)


def _sequences(
    pattern: tuple[object, ...], target: tuple[object, ...], found: Bindings, members: Members
) -> Iterator[Bindings]:
    """A hole for many terms takes any number of them, as few as possible first."""
    if not pattern:
        if not target:
            yield found
        return
    first, *rest = pattern
    if isinstance(first, Hole) and first.many:
        for i in range(len(target) + 1) if rest else [len(target)]:
            for extended in _bound(first.name, tuple(map(_as_tvr, target[:i])), found):
                yield from _sequences(tuple(rest), target[i:], extended, members)
    elif target:
        for extended in matches(first, target[0], found, members):
            yield from _sequences(tuple(rest), target[1:], extended, members)


def _as_tvr(rel: object) -> Tvr:
    assert isinstance(rel, Rel), "only a union has any number of terms"
    return Tvr(rel)


def _bound(name: str, value: object, found: Bindings) -> Iterator[Bindings]:
    """Equal names must bind equal values."""
    if name not in found:
        yield {**found, name: value}
    elif _plain(found[name]) == _plain(value):
        yield found


def _plain(value: object) -> object:
    return value.rel if isinstance(value, Tvr) else value


# --- dispatch ---------------------------------------------------------------------------------------------------------


def operator_of(pattern: Rel) -> type[Rel] | None:
    """The operator that an expression must have to match, or that the TVR of a view must have; None when any will do."""
    top = pattern.tvr if isinstance(pattern, View) else pattern
    return None if isinstance(top, Hole) else type(top)


def depth(pattern: Rel) -> int:
    """How many operators stand above each other in a pattern."""
    top = pattern.tvr if isinstance(pattern, View) else pattern
    return 0 if isinstance(top, Hole) else 1 + max(map(depth, top.inputs), default=0)
