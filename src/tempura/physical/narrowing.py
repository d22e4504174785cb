"""Groups of a stored relation that lies in several parts.

Often only those are asked for that have changed. They are taken out of each part first, and only what is left is merged; for a group's rows
are those that its rows in each part make up:

    merge(P) ⋉ K = merge(P ⋉ K)      where ⋉ compares nothing but what the merge groups by

Search and executor ask here.
"""

from collections.abc import Callable, Iterable, Iterator

from tempura.algebra.rel import Join, Rel
from tempura.physical.growth import named_otherwise

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
