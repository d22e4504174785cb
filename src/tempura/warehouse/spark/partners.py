"""Whether rows have their partners. Only keys are looked up that came with rows, or left with partners, since it was looked at last."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from tempura.execute.contract import WEIGHT
from tempura.execute.draft import Draft
from tempura.execute.identity import consolidate
from tempura.execute.naming import attribute, ids, weight
from tempura.warehouse.batches.keys import Keyed, partners
from tempura.warehouse.engine import Lookup, Source, Unmatched
from tempura.warehouse.spark.rows import are_few_keys, columns_of, signed_rows

_TOLD = 3
"""So many rows without partner are named."""

_KEY, _NULL = "key", "null"


def unmatched(session: SparkSession, asked: Sequence[Lookup]) -> list[Unmatched]:
    """What :meth:`Engine.unmatched` says. Of references of which the driver does not know that all is well Spark is asked."""
    known = [_looked_up(lookup) for lookup in asked]
    rest = iter(_asked(session, [lookup for lookup, found in zip(asked, known, strict=True) if found is None]))
    return [found or next(rest) for found in known]


def _looked_up(lookup: Lookup) -> Unmatched | None:
    sides = ((lookup.came, lookup.columns), (lookup.changed, lookup.key), (lookup.there, lookup.key))
    found = partners(*(Keyed(source.schema, source.rows, key) for source, key in sides))
    return Unmatched((), found.nulls) if found and found.complete else None


def _asked(session: SparkSession, asked: Sequence[Lookup]) -> list[Unmatched]:
    """Of all references in one job; of those with keys that nobody has, the rows in another."""
    keys = [_Keys.of(session, lookup) for lookup in asked]
    parts = [
        part for i, (lookup, known) in enumerate(zip(asked, keys, strict=True)) for part in _found(i, lookup, known)
    ]
    found = {tuple(row) for row in parts[0].union(*parts[1:]).dataframe().collect()} if parts else set()
    rows = (_rows(known, asked[i]) if (i, _KEY) in found else () for i, known in enumerate(keys))
    return [Unmatched(told, (i, _NULL) in found) for i, told in enumerate(rows)]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys that are looked up, and those of them that the table does not have."""

    came: Draft
    open: Draft
    few: bool

    @staticmethod
    def of(session: SparkSession, lookup: Lookup) -> "_Keys":
        came = signed_rows(session, lookup.came).filter(weight() > 0)
        wanted = _named(came, _ids(lookup.came, lookup.columns), "k")
        changed = signed_rows(session, lookup.changed)
        if lookup.changed.rows.signed:
            wanted = wanted.union(_named(changed.filter(weight() < 0), _ids(lookup.changed, lookup.key), "k"))
        wanted = _present(wanted, len(lookup.key)).distinct()
        if not lookup.changed.rows.signed:
            # Most keys that come together with their partners are found among these.
            wanted = wanted.join(
                *_with(_named(changed, _ids(lookup.changed, lookup.key), "n"), "k", "n", lookup), "left_anti"
            )
        few = are_few_keys(lookup.came.rows, lookup.changed.rows)
        there = _there(session, lookup, wanted.broadcast() if few else wanted)
        return _Keys(came, wanted.join(*_with(there, "k", "p", lookup), "left_anti"), few)


def _there(session: SparkSession, lookup: Lookup, wanted: Draft) -> Draft:
    """Those of the keys that the table has."""
    names = [f"p{i}" for i in range(len(lookup.key))]
    columns = _ids(lookup.there, lookup.key)
    rows = signed_rows(session, lookup.there).select(*zip(columns, names, strict=True), WEIGHT)
    hit = rows.join(*_with(wanted, "p", "k", lookup), "left_semi")
    if not lookup.there.rows.signed:
        return hit.select(*names)
    counted = hit.aggregate(names, [fn.sum(WEIGHT).alias(WEIGHT)])
    return counted.filter(weight() > 0).select(*names)


def _found(number: int, lookup: Lookup, keys: _Keys) -> list[Draft]:
    """A row if there is a key that the table does not have, and one if there is a NULL."""
    null = reduce(SparkColumn.__or__, (attribute(id).isNull() for id in _ids(lookup.came, lookup.columns)))
    some = ((keys.open, _KEY), (keys.came.filter(null), _NULL))
    return [rows.select(fn.lit(number).alias("n"), fn.lit(kind).alias("kind")).limit(1) for rows, kind in some]


def _rows(keys: _Keys, lookup: Lookup) -> tuple[str, ...]:
    """A few rows that are there, whose keys the table does not have."""
    columns = columns_of(lookup.rows.schema)
    same = (attribute(id) == attribute(f"k{i}") for i, id in enumerate(_ids(lookup.rows, lookup.columns)))
    open = keys.open.broadcast() if keys.few else keys.open
    hit = signed_rows(keys.open.session, lookup.rows).join(open, reduce(SparkColumn.__and__, same), "left_semi")
    net = consolidate(hit, columns).filter(weight() > 0).select(*ids(columns)).renamed(*lookup.rows.schema.names)
    return tuple(str(row.asDict(recursive=True)) for row in net.limit(_TOLD).dataframe().collect())


def _ids(source: Source, names: Sequence[str]) -> list[str]:
    known = {column.name: column.id for column in columns_of(source.schema)}
    return [known[name] for name in names]


def _named(rows: Draft, columns: Sequence[str], prefix: str) -> Draft:
    return rows.select(*((column, f"{prefix}{i}") for i, column in enumerate(columns)))


def _present(rows: Draft, width: int) -> Draft:
    return rows.filter(reduce(SparkColumn.__and__, (attribute(f"k{i}").isNotNull() for i in range(width))))


def _with(other: Draft, own: str, others: str, lookup: Lookup) -> tuple[Draft, SparkColumn]:
    """The other side of a join by key, and its condition."""
    pairs = (attribute(f"{own}{i}") == attribute(f"{others}{i}") for i in range(len(lookup.key)))
    return other, reduce(SparkColumn.__and__, pairs)
