"""States that grow by parts: what a step adds is appended, and the parts are merged when the state is read.

A state that is saved as what it was before plus a delta needs no rewriting: its parts stay where they are, and the delta becomes one
more. Reading merges them, which costs more with every part; so the last parts are written together with the delta when that costs
less than to go on reading them apart. Merging a few small parts often and large ones rarely, a step writes about as much as has
changed, however large the state is.
"""

from collections.abc import Iterator, Sequence

from tempura.algebra.scalar import Column
from tempura.algebra.states import Slot, StateLayout
from tempura.cost.model import CostModel
from tempura.cost.stats import StoredFacts
from tempura.execute.contract import Merge, Part, StoredState
from tempura.physical.deletions import are_few
from tempura.physical.growth import Growth


def merge_of(grown: Growth) -> Merge:
    """How the parts of a relation that has grown make up its rows."""
    return Merge(grown.keys, grown.slots)


def layout_of(merge: Merge, columns: Sequence[Column]) -> StateLayout:
    """The layout of an aggregation state from its stored form."""
    keys, values = tuple(columns[: merge.keys]), columns[merge.keys :]
    slots = (Slot(column, kind) for column, kind in zip(values, merge.slots, strict=True))
    return StateLayout(keys, tuple(slots))


def stored_facts(stored: StoredState) -> StoredFacts:
    """How a state lies."""
    merge = stored.merge if len(stored.parts) > 1 else None
    rows = stored.rows - (_superfluous(stored.parts, merge, 0) if merge else 0)
    grouped = is_grouped(stored)
    return StoredFacts(len(stored.parts), grouped, stored.bucket, rows, _few(stored) if grouped else None)


def is_grouped(stored: StoredState) -> bool:
    """Whether the rows of several parts have to be put together when they are read. A sum of bags without deletions is read as it lies."""
    if stored.merge is None or len(stored.parts) < 2:
        return False
    return bool(stored.merge.slots) or bool(signed_after_first(stored))


def is_counted(stored: StoredState) -> bool:
    """Whether it is known how many rows it stands for: then it can be a result."""
    is_bag = stored.merge is None or not stored.merge.slots
    return is_bag and all(part.counted is not None for part in stored.parts)


def _few(stored: StoredState) -> float | None:
    """The rows of a bag's signed parts but the first, if they are few."""
    added = signed_after_first(stored)
    is_bag = stored.merge is not None and not stored.merge.slots
    return sum(p.rows for p in added) if is_bag and are_few(sum(p.bytes for p in added), stored.bytes) else None


def signed_after_first(stored: StoredState) -> list[Part]:
    """The parts that may take away rows of those before them. The first was saved whole: it may have weights, but no negative ones."""
    return [part for part in stored.parts[1:] if part.weighted]


def parts_to_keep(stored: StoredState, merge: Merge, uses: int, prices: CostModel) -> int:
    """How many of a state's parts stay as they are when a delta comes to it; the others are written anew together with it.
    ``uses`` is how often the state is expected to be read."""
    gains = [(_gain(stored, merge, keep, uses, prices), keep) for keep in range(len(stored.parts))]
    best, keep = max(gains, default=(0.0, 0))
    return keep if best > 0 else len(stored.parts)


def _gain(stored: StoredState, merge: Merge, keep: int, uses: int, prices: CostModel) -> float:
    """Nanoseconds saved by writing all parts but the first ``keep`` together: fewer files and rows to be read in each use, against
    reading and writing them now.

    That what comes lies with what is there, and not apart, saves files in the next use only: then there is something new again. Among
    themselves parts lie together from now on; but only if none is much larger than what has come since, for else it would be written
    again as soon as a little has."""
    merged = stored.parts[keep:]
    rows, row_bytes = sum(part.rows for part in merged), stored.bytes / max(1, stored.rows)
    read = prices.read_row + prices.read_byte * row_bytes
    lasting = uses if 2 * merged[0].rows <= rows else 1
    files = (1 + lasting * (len(merged) - 1)) * max(1, stored.buckets) * prices.file
    return files + uses * _superfluous(merged, merge, keep) * read - prices.rewrite(rows, row_bytes)


def _superfluous(parts: Sequence[Part], merge: Merge, keep: int) -> int:
    """The rows that merging leaves out, roughly: groups that occur again, and rows that cancel out with earlier ones."""
    again = sum(part.rows for part in parts[1:])
    if merge.slots:
        return again
    return min(sum(part.rows for part in parts), 2 * sum(_deletions(parts))) if keep == 0 else 0


def _deletions(parts: Sequence[Part]) -> Iterator[int]:
    """Of a signed part about every other row is a deletion."""
    return (part.rows // 2 for part in parts[1:] if part.weighted)
