"""Groups of a stored relation that lies in several parts.

Often only those are asked for that have changed. They are taken out of each part first, and only what is left is merged; for a group's rows
are those that its rows in each part make up:

    merge(P) ⋉ K = merge(P ⋉ K)      where ⋉ compares nothing but what the merge groups by

Search and executor ask here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tempura.algebra.rel import Aggregate, Join, Rel
from tempura.physical.growth import named_otherwise
from tempura.tvr.views import Snapshot, State, View

Keys = Callable[[Rel], int]
"""How many of its first columns the rows of a stored relation are put together by; 0 of what is not stored."""


def selected(join: Rel, keys: Keys) -> Rel | None:
    """The stored relation of which a semi join selects groups, below renamings; None where it is no such join."""
    if not isinstance(join, Join) or join.kind != "semi":
        return None
    found = named_otherwise(join.left)
    compared = [i for i, column in enumerate(join.left.columns) if column in join.on.columns]
    return found if compared and max(compared) < keys(found) else None


def selections(rel: Rel, keys: Keys) -> Iterator[tuple[Join, Rel]]:
    """The semi joins of an expression that select groups, each with the relation of which it does."""
    for join in rel.walk():
        found = selected(join, keys)
        if found is not None:
            assert isinstance(join, Join)
            yield join, found


def read_whole(roots: Iterable[Rel], selecting: Callable[[Rel], bool]) -> Iterator[Rel]:
    """What is read for some expressions otherwise than through joins that are ``selecting``: each once."""
    seen: set[Rel] = set()
    stack = list(roots)
    while stack:
        rel = stack.pop()
        if rel not in seen:
            seen.add(rel)
            yield rel
            stack.extend(rel.inputs[1:] if selecting(rel) else rel.inputs)


@dataclass(frozen=True, slots=True)
class Selected:
    """What is read of a ``view``, should that be stored in parts: the groups that semi joins select; ``only`` these."""

    view: View
    joins: tuple[Join, ...]
    only: bool


def selected_views(rhs: Rel) -> tuple[Selected, ...]:
    """The views of which an expression selects groups."""
    joins: dict[View, list[Join]] = {}
    for join, view in selections(rhs, _keys_of_stored):
        assert isinstance(view, View)
        joins.setdefault(view, []).append(join)
    selecting = {join for found in joins.values() for join in found}
    whole = set(read_whole((rhs,), selecting.__contains__)) if joins else set()
    return tuple(Selected(view, tuple(found), view not in whole) for view, found in joins.items())


def _keys_of_stored(rel: Rel) -> int:
    """By how many columns the rows of a view are put together when it is stored in parts."""
    match rel:
        case View(tvr=Aggregate(keys=keys), at=State()):
            return len(keys)
        case View(at=Snapshot()):
            return len(rel.columns)
    return 0
