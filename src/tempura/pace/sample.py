"""Statistics from a sample of the tables' rows: a batch run over it, corrected for what is not there (Thrifty Query Execution via
Incrementability, 3.1.2, takes them from earlier runs only).

Each use of a table has a sample of its own. A pair of a join is then in the samples of both sides with the product of their shares, also
where a table is joined with itself: pairs ÷ (left rows x right rows) is right on average. In one sample for all uses a row would find
itself, and its own group, too often.

Two other quantities do not grow with the share. *Groups*: one of k rows is seen with probability 1 - (1 - x)^k. *Rows that match*: one
with k matches finds one with the same. Both are solved for what is there in the end (``groups_in_the_end``, ``covered_in_the_end``).

A group of which some rows are missing has another sum, and meets a condition on it seldom or always. So where keys of an aggregation are
columns of a table, the use of it below is sampled *by keys*: all rows of some groups and none of the others. What is joined with it on
a key is sampled by the same keys: a pair is there with the share x of the keys, not with its square, and the factor is x times pairs ÷
(left rows x right rows).

Tables up to ``LEAST`` rows are taken as a whole, of others at least so many rows; of several tables that are sampled by the same keys the
share of that with the smallest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil
from random import Random

from tempura.algebra.bag import Row
from tempura.pace.cut import Cut, Operator, Path, Segment
from tempura.pace.origin import equalities, key_origins
from tempura.pace.run import PacedRun
from tempura.pace.statistics import Statistics, measured

LEAST = 1_000
"""Rows of a table that are taken at least."""

MANY_KEYS = 50
"""Keys that a sample by keys has at least: fewer would say less than as many rows of all groups."""

Weighted = Sequence[tuple[Row, int]]
Rows = Mapping[str, Weighted]
Keys = Mapping[Path, tuple[str, ...]]
"""Uses of tables with the columns by which they are sampled."""


@dataclass(frozen=True, eq=False)
class Sample:
    """``rows`` per path that starts at a table. ``by_keys``: the aggregations below which rows were taken by their keys, and the joins
    both of whose sides were, with the share of the keys."""

    rows: Mapping[Path, Weighted]
    by_keys: Mapping[Operator, float]

    @property
    def sizes(self) -> dict[str, int]:
        """Rows per use of a table."""
        return {str(path): len(rows) for path, rows in self.rows.items()}


def drawn(
    cut: Cut, rows: Rows, columns: Mapping[str, tuple[str, ...]], share: float, seed: int = 0, least: int = LEAST
) -> Sample:
    """A random sample of about a ``share`` of the rows of each table, without replacement, for each of its uses; of ``least`` rows where
    that is more, or all. ``columns`` names the columns of the rows."""
    sizes = {table: min(len(rows[table]), max(least, ceil(share * len(rows[table])))) for table in cut.tables}
    parts: dict[Path, Weighted] = {}
    by_keys: dict[Operator, float] = {}
    for segment in cut.segments:
        of_tables = {path: path.table for path in segment.paths if path.table is not None}
        missing = {path: len(rows[table]) - sizes[table] for path, table in of_tables.items()}
        for keys in _keys(segment, {path: number for path, number in missing.items() if number}):
            part = min(sizes[of_tables[path]] / len(rows[of_tables[path]]) for path in keys)
            taken = {
                path: _of_some_keys(
                    rows[table], [columns[table].index(name) for name in keys[path]], part, f"{seed} {segment.number}"
                )
                for path, table in of_tables.items()
                if path in keys
            }
            if all(number >= MANY_KEYS for _, number in taken.values()):
                parts |= {path: found for path, (found, _) in taken.items()}
                by_keys |= dict.fromkeys(_linked(segment, keys), part)
                break
        for path, table in of_tables.items():
            if not missing[path]:
                parts[path] = rows[table]
            elif path not in parts:
                parts[path] = Random(f"{seed} {path.number}").sample(rows[table], sizes[table])
    return Sample(parts, by_keys)


def sampled(
    cut: Cut, sample: Sample, columns: Mapping[str, tuple[str, ...]], before: Statistics, totals: Mapping[str, float]
) -> Statistics:
    """From a batch run over a sample of tables that have ``totals`` rows in the end. ``before`` stays where nothing comes through."""
    run = PacedRun(cut, columns)
    for path, rows in sample.rows.items():
        run.arrive_on(path, rows)
    run.flush({path.number for path in cut.paths}, at_end=True)
    return measured(cut, run, before, totals, sample.by_keys)


def _of_some_keys(rows: Weighted, at: Sequence[int], share: float, seed: str) -> tuple[Weighted, int]:
    """All rows whose key falls into the share, the same keys for each table; and how many keys these are."""
    known: dict[Row, bool] = {}

    def is_in(key: Row) -> bool:
        if key not in known:
            digest = blake2b(f"{seed} {key!r}".encode(), digest_size=8).digest()
            known[key] = int.from_bytes(digest) < share * 2**64
        return known[key]

    found = [entry for entry in rows if is_in(tuple(entry[0][i] for i in at))]
    return found, sum(known.values())


# --- which columns of tables are keys of the aggregation above ---


def _keys(segment: Segment, partial: Mapping[Path, int]) -> Iterator[Keys]:
    """Ways to sample by keys of the aggregation above, the better ones first: several uses of tables by a column that joins equate, then
    one use by all of its columns that are keys. ``partial`` are the uses of which rows are missing in the sample, with how many."""
    alone: dict[Path, tuple[str, ...]] = {}
    together: list[Keys] = []
    for origins in key_origins(segment):
        path, name = next(iter(origins.items()))
        alone[path] = (*alone.get(path, ()), name)
        together.append({path: (name,) for path, name in origins.items() if path in partial})
    together.sort(key=lambda keys: -sum(partial[path] for path in keys))
    yield from (keys for keys in together if len(keys) > 1)
    for path in sorted(alone.keys() & partial.keys(), key=lambda path: -partial[path]):
        yield {path: alone[path]}
    yield from (keys for keys in together if len(keys) == 1)


def _linked(segment: Segment, keys: Keys) -> Iterator[Operator]:
    """The aggregation, and the joins of what is sampled by the same keys."""
    assert isinstance(segment.root, Operator), "it is an aggregation"
    yield segment.root
    for op, left, right in equalities(segment):
        if all(keys.get(path) == (name,) for path, name in (left, right)):
            yield op
