"""A cache of a join of some inputs: per key the tuples of that join, for the keys that were asked for.

Source: *Adaptive Caching for Continuous Queries*, sections 3.2 and 3.3. The consistency invariant: for each key u of the cache, its value
is exactly the tuples of the join with u. Nothing is promised about which keys there are, so a key may be dropped at any time.
"""

from dataclasses import dataclass

from tempura.streams.query import Class
from tempura.streams.store import Row, Tuple

ENTRY_BYTES = 240
"""Of an entry without tuples: its key, its list, its places in two hash tables."""
TUPLE_BYTES = 48
"""Of a tuple in an entry without its references."""
REFERENCE_BYTES = 8

DEFAULT_BUCKETS = 1 << 12


@dataclass(frozen=True, slots=True)
class Group:
    """What caches in several pipelines share (definition 4.1): the join of ``inputs``, by the classes ``key``."""

    inputs: tuple[int, ...]
    key: tuple[Class, ...]

    def label(self, names: tuple[str, ...]) -> str:
        """The joined inputs, as people write them."""
        return " ⋈ ".join(names[n] for n in self.inputs)


class Cache:
    """An associative store with direct-mapped replacement: each bucket holds at most one key, the one that was created last.

    ``entries`` is the mapping that is probed; a value is a list of tuples in the order of the group's inputs. ``probes`` and
    ``misses`` count since they were last taken; ``bytes`` is what the entries take, never more than ``limit``.
    """

    def __init__(self, group: Group, buckets: int = DEFAULT_BUCKETS, limit: int | None = None) -> None:
        self.group = group
        self.entries: dict[object, list[Tuple]] = {}
        self.limit: int | None = None
        self.bytes = 0
        self.probes = 0
        self.misses = 0
        self.replaced = 0
        self._tuple_bytes = TUPLE_BYTES + REFERENCE_BYTES * (len(group.inputs) + 1)
        self._mask = 0
        self._occupant: dict[int, object] = {}
        self.resize(buckets, limit)

    def create(self, key: object, value: list[Tuple]) -> None:
        """Add a key with its value in place of whatever is in its bucket. What alone is larger than the limit is not kept."""
        bucket = hash(key) & self._mask
        if bucket in self._occupant:
            self.replaced += 1
            self.drop(self._occupant[bucket])
        size = ENTRY_BYTES + self._tuple_bytes * len(value)
        if self.limit is not None and size > self.limit:
            return
        self._occupant[bucket] = key
        self.entries[key] = value
        self.bytes += size
        self._fit()

    def drop(self, key: object) -> None:
        """Forget a key, which must be there."""
        self.bytes -= ENTRY_BYTES + self._tuple_bytes * len(self.entries.pop(key))
        del self._occupant[hash(key) & self._mask]

    def extend(self, key: object, tuples: list[Tuple]) -> None:
        """Add tuples to the value of a key that is there."""
        if not tuples:
            return
        self.entries[key] += tuples
        self.has_grown(len(tuples))

    def has_grown(self, tuples: int) -> None:
        """So many tuples were put into entries."""
        self.bytes += self._tuple_bytes * tuples
        if self.limit is not None and self.bytes > self.limit:
            self._fit()

    def remove(self, key: object, place: int, row: Row) -> None:
        """Take the tuples with a row at a place from the value of a key that is there."""
        value = self.entries[key]
        if not value:
            return
        kept = [t for t in value if t[place] is not row]
        self.bytes -= self._tuple_bytes * (len(value) - len(kept))
        self.entries[key] = kept

    def resize(self, buckets: int, limit: int | None) -> None:
        """Have at least so many buckets, and a limit of bytes or none; keys that collide or do not fit any more are dropped."""
        self.limit = limit
        mask = (1 << max(buckets - 1, 0).bit_length()) - 1
        if mask != self._mask:
            kept = list(self.entries.items())
            self._mask = mask
            self.clear()
            for key, value in kept:
                self.create(key, value)
        self._fit()

    def clear(self) -> None:
        """Forget all keys."""
        self.entries.clear()
        self._occupant.clear()
        self.bytes = 0

    @property
    def buckets(self) -> int:
        """How many keys there can be at once."""
        return self._mask + 1

    def take_counts(self) -> tuple[int, int]:
        """The probes and misses since the last time this was asked."""
        counts = self.probes, self.misses
        self.probes = self.misses = 0
        return counts

    def _fit(self) -> None:
        """Drop the keys that were created first until the entries fit."""
        while self.limit is not None and self.bytes > self.limit:
            self.drop(next(iter(self.entries)))
