"""Which relations are what they were plus a delta. A step that saves such a relation writes the delta only, and the plan's price is that of
the delta: search, plan and executor ask here."""

from collections.abc import Callable
from dataclasses import dataclass

from tempura.algebra.rel import Consolidate, Project, Rel, Union, is_renaming
from tempura.algebra.scalar import Column
from tempura.algebra.states import MergeStates, Slot, SlotKind, decimal_of
from tempura.physical.operators import Load

_SAFE_DIGITS = 28
"""Totals of decimals of more digits can leave the 38 digits that there are; then the order of merging matters."""


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """A relation as a stored one and what comes to it; ``columns`` are those of ``delta``, in the stored order. Rows of both that are equal
    in the first ``keys`` columns are one: of an aggregation state ``slots`` give the kind of each other column; a bag has none, and
    the weights of its rows are added. ``signed``: the delta may take away rows."""

    base: Rel
    delta: Rel
    columns: tuple[Column, ...]
    keys: int
    slots: tuple[SlotKind, ...] = ()
    signed: bool = False

    @property
    def is_merged(self) -> bool:
        """Whether rows of both have to be grouped when the whole is read."""
        return self.signed or bool(self.slots)


def is_load(rel: Rel) -> bool:
    """Whether a relation is a stored one in a plan that is built."""
    return isinstance(rel, Load)


def growth(rel: Rel, is_stored: Callable[[Rel], bool] = is_load) -> Growth | None:
    """How a relation grows out of a stored one: a state merged with its delta, or a sum of bags; None when it does not. ``is_stored``
    says what is stored."""
    core = named_otherwise(rel)
    if isinstance(core, MergeStates):
        return _state_growth(core, is_stored)
    terms = named_otherwise(core.input) if isinstance(core, Consolidate) else core
    return _sum_growth(terms, is_stored, terms is not core) if isinstance(terms, Union) else None


def _state_growth(rel: MergeStates, is_stored: Callable[[Rel], bool]) -> Growth | None:
    base = named_otherwise(rel.left)
    same_order = rel.left.columns == rel.columns == rel.right.columns
    depends_on_order = not rel.layout.is_exact or any(map(_may_overflow, rel.layout.slots))
    if not is_stored(base) or not same_order or depends_on_order:
        return None
    return Growth(base, rel.right, rel.columns, len(rel.keys), tuple(slot.kind for slot in rel.layout.slots))


def _sum_growth(rel: Union, is_stored: Callable[[Rel], bool], signed: bool) -> Growth | None:
    for i, term in enumerate(rel.terms if len(rel.terms) > 1 else ()):
        base = named_otherwise(term)
        if is_stored(base) and term.columns == rel.columns:
            rest = rel.terms[:i] + rel.terms[i + 1 :]
            delta = rest[0] if len(rest) == 1 else Union(rest)
            found = Growth(base, delta, rel.columns, len(rel.columns), signed=signed)
            return found if delta.columns == rel.columns else None
    return None


def named_otherwise(rel: Rel) -> Rel:
    """The relation below renamings, which keep the order of columns."""
    while isinstance(rel, Project) and is_renaming(rel):
        rel = rel.input
    return rel


def _may_overflow(slot: Slot) -> bool:
    decimal = decimal_of(slot.arg.type) if slot.kind == "total" and slot.arg is not None else None
    return decimal is not None and decimal[0] > _SAFE_DIGITS
