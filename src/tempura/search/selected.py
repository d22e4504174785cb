"""Of which views a right side reads only some groups, which are taken out of each part of a stored one (``physical.narrowing``)."""

from dataclasses import dataclass

from tempura.algebra.rel import Aggregate, Join, Rel
from tempura.physical.narrowing import read_whole, selections
from tempura.tvr.views import Snapshot, State, View


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
