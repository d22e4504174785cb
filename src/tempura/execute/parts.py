"""States that grow by parts: what a step adds is appended, and the parts are merged when the state is read.

A state that is saved as what it was before plus a delta needs no rewriting: its parts stay where they are, and the delta becomes one
more. Reading merges them, which costs more with every part; so the last parts are written together with the delta when that costs
less than to go on reading them apart. Merging a few small parts often and large ones rarely, a step writes about as much as has
changed, however large the state is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tempura.algebra.rel import Consolidate, Project, Rel, Union, is_renaming
from tempura.algebra.scalar import Column
from tempura.algebra.states import MergeStates, Slot, StateLayout, decimal_of
from tempura.cost.model import CostModel
from tempura.cost.stats import StoredFacts
from tempura.execute.contract import Merge, Part, StoredState
from tempura.physical.operators import Load

_SAFE_DIGITS = 28
"""Totals of decimals of more digits can leave the 38 digits that there are; then the order of merging matters."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A relation as a stored one and what comes to it; ``columns`` are those of ``delta``, in the stored order."""

    base: Load
    delta: Rel
    columns: tuple[Column, ...]
    merge: Merge


def growth(rel: Rel) -> Growth | None:
    """How a relation that is saved grows out of a stored one: a state merged with its delta, or a sum of bags; None when it does
    not."""
    core = _named_otherwise(rel)
    if isinstance(core, MergeStates):
        return _state_growth(core)
    terms = _named_otherwise(core.input) if isinstance(core, Consolidate) else core
    return _sum_growth(terms) if isinstance(terms, Union) else None


def _state_growth(rel: MergeStates) -> Growth | None:
    base = _named_otherwise(rel.left)
    same_order = rel.left.columns == rel.columns == rel.right.columns
    depends_on_order = not rel.layout.is_exact or any(map(_may_overflow, rel.layout.slots))
    if not isinstance(base, Load) or not same_order or depends_on_order:
        return None
    return Growth(base, rel.right, rel.columns, Merge(len(rel.keys), tuple(slot.kind for slot in rel.layout.slots)))


def _sum_growth(rel: Union) -> Growth | None:
    for i, term in enumerate(rel.terms):
        base = _named_otherwise(term)
        if isinstance(base, Load) and term.columns == rel.columns:
            rest = rel.terms[:i] + rel.terms[i + 1 :]
            delta = rest[0] if len(rest) == 1 else Union(rest)
            return Growth(base, delta, rel.columns, Merge(len(rel.columns))) if delta.columns == rel.columns else None
    return None


def _named_otherwise(rel: Rel) -> Rel:
    """The relation below renamings, which keep the order of columns."""
    while isinstance(rel, Project) and is_renaming(rel):
        rel = rel.input
    return rel


def _may_overflow(slot: Slot) -> bool:
    decimal = decimal_of(slot.arg.type) if slot.kind == "total" and slot.arg is not None else None
    return decimal is not None and decimal[0] > _SAFE_DIGITS


def layout_of(merge: Merge, columns: Sequence[Column]) -> StateLayout:
    """The layout of an aggregation state from its stored form."""
    keys, values = tuple(columns[: merge.keys]), columns[merge.keys :]
    slots = (Slot(column, kind) for column, kind in zip(values, merge.slots, strict=True))
    return StateLayout(keys, tuple(slots))


def stored_facts(stored: StoredState) -> StoredFacts:
    """What reading a state takes beside its rows: a sum of bags without deletions is read as it lies, all else is merged."""
    merge = stored.merge if len(stored.parts) > 1 else None
    grouped = merge is not None and (bool(merge.slots) or stored.weighted)
    return StoredFacts(len(stored.parts), grouped, shuffled=grouped and not stored.bucket)


def parts_to_keep(stored: StoredState, merge: Merge, uses: int, prices: CostModel) -> int:
    """How many of a state's parts stay as they are when a delta comes to it; the others are written anew together with it.
    ``uses`` is how often the state is expected to be read."""
    gains = [(_gain(stored, merge, keep, uses, prices), keep) for keep in range(len(stored.parts))]
    best, keep = max(gains, default=(0.0, 0))
    return keep if best > 0 else len(stored.parts)


def _gain(stored: StoredState, merge: Merge, keep: int, uses: int, prices: CostModel) -> float:
    """Nanoseconds saved by writing all parts but the first ``keep`` together: fewer files and rows to be read in each use, against
    reading and writing them now."""
    merged = stored.parts[keep:]
    rows, row_bytes = sum(part.rows for part in merged), stored.bytes / max(1, stored.rows)
    read, write = prices.read_row + prices.read_byte * row_bytes, prices.write_row + prices.write_byte * row_bytes
    files = len(merged) * max(1, stored.buckets) * prices.file
    return uses * (files + _superfluous(merged, merge, keep) * read) - rows * (read + write)


def _superfluous(parts: Sequence[Part], merge: Merge, keep: int) -> int:
    """The rows that merging leaves out, roughly: groups that occur again, and rows that cancel out with earlier ones."""
    again = sum(part.rows for part in parts[1:])
    if merge.slots:
        return again
    return min(sum(part.rows for part in parts), 2 * sum(_deletions(parts))) if keep == 0 else 0


def _deletions(parts: Sequence[Part]) -> Iterator[int]:
    """Of a signed part about every other row is a deletion."""
    return (part.rows // 2 for part in parts[1:] if part.weighted)
