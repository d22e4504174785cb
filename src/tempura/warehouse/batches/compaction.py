"""Arrivals that are also stored together, so that a table of many small arrivals is read from few files.

A *block* is committed beside the ledger: it says that the arrivals after one version up to another are also stored together, in
these files, rows that came and went left out. Whoever reads the arrivals of a range takes the fewest blocks and arrivals that make
it up. There is a block of sixteen arrivals, of 256, and so on; and one from the beginning whenever half of what would be read has
been deleted again. So a read opens a few files per power of sixteen, and a row is copied once per power, and once more for each
time that the table has changed as a whole.

A block is *sole* when what lies inside of it has been given up: no version inside is referred to, and none can be read any more.
That is committed first; then ``gc`` frees the files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, totals
from tempura.warehouse.batches.content import last_reset
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import Attempt, commit, named_spans, span_name, whoever_is_first
from tempura.warehouse.commits.manifests import read_manifest
from tempura.warehouse.commits.spans import Span, spans

_SOLE = "sole-"


@dataclass(frozen=True, slots=True)
class Plane:
    """The blocks of a table, and which of them are sole, at one moment."""

    blocks: frozenset[Span]
    sole: frozenset[Span] = frozenset()

    def is_given_up(self, span: Span) -> bool:
        """Whether a range begins or ends inside of a sole block."""
        return any(after < version < upto for after, upto in self.sole for version in span)

    def cover(self, after: int, upto: int) -> tuple[Span, ...] | None:
        """The fewest ranges, of blocks and single arrivals, that make up a range; None when it begins or ends where nothing can be
        read any more."""
        # Of the ways to each version the shortest, from the first version on.
        inner = [b for b in self.blocks if after <= b[0] and b[1] <= upto and not self.is_given_up(b)]
        ending: dict[int, list[Span]] = {}
        for span in sorted(inner):
            ending.setdefault(span[1], []).append(span)
        hidden = self._hidden(after, upto)
        length, last = {after: 0}, dict[int, Span]()
        for version in range(after + 1, upto + 1):
            single = [] if version in hidden else [(version - 1, version)]
            reached = [span for span in (*ending.get(version, ()), *single) if span[0] in length]
            if reached:
                best = min(reached, key=lambda span: length[span[0]])
                length[version], last[version] = length[best[0]] + 1, best
        return tuple(_back(last, after, upto)) if upto in length else None

    def _hidden(self, after: int, upto: int) -> set[int]:
        """The versions whose arrival cannot be read on its own."""
        inside = ((max(a, after), min(u, upto)) for a, u in self.sole if u - a > 1)
        return {version for a, u in inside for version in range(a + 1, u + 1)}

    def giving_up(self, versions: Sequence[int]) -> "Plane":
        """With as many sole blocks as there can be while all ranges between some versions can be read."""
        pairs = list(pairwise(sorted(set(versions))))
        used = {span for a, b in [*pairs, (0, max(versions, default=0))] for span in self.cover(a, b) or ()}
        for span in sorted(used & self.blocks - self.sole, key=lambda s: s[0] - s[1]):
            smaller = Plane(self.blocks, self.sole | {span})
            inside = any(span[0] < version < span[1] for version in versions)
            if not inside and not self.is_given_up(span) and all(smaller.cover(a, b) is not None for a, b in pairs):
                return smaller.giving_up(versions)
        return self


def _way_without_deletions(plane: Plane, arrivals: Sequence[Arrival], after: int, upto: int) -> tuple[Span, ...] | None:
    """The longest block from the beginning, where nothing is deleted, and what was only inserted since; None when there is none."""
    if after != last_reset(arrivals[:upto]):
        return None
    losing = max((n for n in range(after + 1, upto + 1) if arrivals[n - 1].rows[1]), default=0)
    blocks = [b for b in plane.blocks if b[0] == after and losing <= b[1] <= upto and not plane.is_given_up(b)]
    first = max(blocks, default=None)
    rest = plane.cover(first[1], upto) if first and losing else None
    return (first, *rest) if first and rest is not None else None


def _back(last: dict[int, Span], after: int, upto: int) -> list[Span]:
    way: list[Span] = []
    while upto > after:
        way.append(last[upto])
        upto = last[upto][0]
    return way[::-1]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The committed blocks of a table, in a folder beside its ledger."""

    folder: Path
    files: Files
    table: str

    def now(self) -> Plane:
        """Which blocks there are."""
        names = self.files.names(self.folder)
        sole = named_spans(tuple(name.removeprefix(_SOLE) for name in names if name.startswith(_SOLE)))
        return Plane(frozenset(named_spans(names)), frozenset(sole))

    def read(self, arrivals: Sequence[Arrival], after: int, upto: int) -> tuple[Arrival, ...]:
        """Blocks and arrivals, as few as can be, with the rows of the arrivals after one version up to another; if those of a version
        can be had without deletions, these. That stays so when there are more blocks.

        Raises TempuraError VERSION_COLLECTED when one of the versions was given up.
        """
        while True:
            plane = self.now()
            way = _way_without_deletions(plane, arrivals, after, upto) or plane.cover(after, upto)
            if way is None:
                what = f"Table {self.table}: the rows of versions {after} to {upto} are kept only together with others."
                raise TempuraError(
                    "VERSION_COLLECTED", what, "Run the queries that read it again: they read it as it is now."
                )
            try:
                return tuple(self._block(s) if s in plane.blocks else arrivals[s[1] - 1] for s in way)
            except TempuraError:
                # A block that was removed meanwhile is a part of a longer one.
                if self.now() == plane:
                    raise

    def due(self, arrivals: Sequence[Arrival], since: int = 0) -> Iterator[Span]:
        """The ranges of which blocks are to be made, one after the other, of what arrived ``since`` a version."""
        for span in spans(len(arrivals)):
            if since <= span[0] and self._is_due(span):
                yield span
        if self.is_stale(arrivals, since):
            yield since, len(arrivals)

    def _is_due(self, span: Span) -> bool:
        plane = self.now()
        return span not in plane.blocks and len(plane.cover(*span) or ()) > 1

    def is_stale(self, arrivals: Sequence[Arrival], since: int) -> bool:
        """Whether more than half of the rows that make up the table have been deleted again."""
        pieces = self.read(arrivals, since, len(arrivals))
        inserted, deleted = totals(arrivals[since:])
        return len(pieces) > 1 and sum(totals(pieces)) > 2 * (inserted - deleted)

    def commit(self, work: Attempt, span: Span, rows: Arrival) -> None:
        """Commit a block. Raises TempuraError COMMIT_LOST when it is there."""
        commit(self.files, work, self.folder / span_name(span), rows.to_json())

    def give_up(self, work: Attempt, span: Span) -> None:
        """Commit that a block is sole."""
        with whoever_is_first():
            commit(self.files, work, self.folder / f"{_SOLE}{span_name(span)}", {})

    def freed(self, plane: Plane, since: int = 0) -> tuple[Path, ...]:
        """The manifests of blocks, and of their being sole, that say nothing more since some are sole, and those of what a reset has
        forgotten: all up to the version ``since``."""
        blocks = [s for s in plane.blocks if plane.is_given_up(s) or s[1] <= since]
        covered = [s for s in plane.sole if any(o != s and o[0] <= s[0] and s[1] <= o[1] for o in plane.sole)]
        sole = [s for s in plane.sole if s in covered or s[1] <= since]
        names = [*map(span_name, sorted(blocks)), *(f"{_SOLE}{span_name(s)}" for s in sorted(sole))]
        return tuple(self.folder / name for name in names if (self.folder / name).exists())

    def kept(self, plane: Plane, arrivals: Sequence[Arrival], since: int = 0) -> list[Arrival]:
        """The blocks and arrivals whose files are needed; ``since`` as in :meth:`freed`."""
        singles = [a for n, a in enumerate(arrivals) if not plane.is_given_up((n, n + 1))]
        blocks = (span for span in sorted(plane.blocks) if span[1] > since and not plane.is_given_up(span))
        return [*singles, *map(self._block, blocks)]

    def _block(self, span: Span) -> Arrival:
        return read_manifest(self.folder / span_name(span)).made(Arrival.from_json)
