"""Keys and references that are kept: what a step pins is looked at before it is planned, and noted with its versions, so that only what has
come since is looked at again.

``tables/NAME/references.json`` says of which versions of two tables all rows were found to have their partners; of keys arrivals say it
themselves (``keyed.py``). What is declared and was not looked at is no fact.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tempura.algebra.rel import Join, Rel, scans
from tempura.errors import TempuraError
from tempura.memo.references import NO_KEYS, Keys, Reference
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.declared.references import check_reference, references_of, written
from tempura.warehouse.engine import Lookup, Source, Unmatched
from tempura.warehouse.tables.clock import Clock
from tempura.warehouse.tables.keyed import DeclaredKey
from tempura.warehouse.tables.noted import Notes, findings
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.uses import Input, Use


@dataclass(frozen=True, slots=True)
class Pair:
    """Versions of two tables with their marks: of the ``rows``, all of which have their ``partners``. ``total``: no reference is NULL."""

    rows: int
    rows_mark: str
    partners: int
    partners_mark: str
    total: bool


NOTHING = Pair(0, "", 0, "", total=True)
"""Of no rows nothing is missing."""


def _made(entry: Mapping[str, Any]) -> dict[str, list[Pair]]:
    return findings("references", Pair, entry)


NOTES = Notes("references", _made)

Versions = Mapping[str, int]


def kept(query: Rel, tables: Mapping[str, Input], pinned: Sequence[Versions]) -> dict[str, Keys]:
    """The keys and references of the tables of a query, as far as they are facts at all of the ``pinned`` versions, of which the last are
    those of the step. Of what is only looked at, for a plan, they are taken to be kept. A key is asked about where a law could.

    Raises TempuraError BAD_REFERENCES, REFERENCE_BROKEN when rows of the step have no partner, or two, and DUPLICATE_KEY when two have one
    key.
    """
    asked = [(table, reference) for table in tables.values() for reference in _references(table, tables)]
    found: dict[str, Keys] = {}
    for (table, _), fact in zip(asked, _facts(asked, tables, pinned), strict=True):
        if fact:
            own = found.get(table.name, NO_KEYS)
            found[table.name] = replace(own, references=(*own.references, fact))
            found[fact.table] = replace(found.get(fact.table, NO_KEYS), unique=fact.key)
    for name in _joined_with_keys(query, tables):
        known = found.get(name, NO_KEYS)
        if not known.unique and _is_unique(tables[name], [versions[name] for versions in pinned]):
            found[name] = replace(known, unique=tables[name].spec.keys)
    return found


def _joined_with_keys(query: Rel, tables: Mapping[str, Input]) -> Iterable[str]:
    """The tables that are joined with others, with all columns of their keys: laws ask of no others whether rows are unique."""
    joined = (scan for join in query.walk() if isinstance(join, Join) for scan in scans(join))
    read = {(scan.table, frozenset(scan.fields)) for scan in joined}
    return sorted({name for name, fields in read if (keys := tables[name].spec.keys) and fields.issuperset(keys)})


def _is_unique(table: Input, versions: Sequence[int]) -> bool:
    """Whether no two rows of a table have one key at some versions, the last of which is to be run."""
    assert not isinstance(table, Clock)
    stored = table.table if isinstance(table, Use) else table
    if isinstance(stored, Prospect):
        return True
    *past, now = versions
    key = DeclaredKey(stored, stored.spec.keys)
    twice = key.twice(now)
    if twice is not None:
        what = f"Table {stored.name}: more than one row has the key {twice}."
        remedy = (
            "Nothing is lost. Delete one of them, or take keys from its declaration in tempura.toml, and run again."
        )
        raise TempuraError("DUPLICATE_KEY", what, remedy)
    return all(map(key.was_kept, past))


def _references(table: Input, tables: Mapping[str, Input]) -> Iterable[Reference]:
    """The references of a table to others of a query."""
    if not isinstance(table, Arrivals | Prospect):
        return
    for reference in references_of(table.name, table.spec.references):
        partner = tables.get(reference.table)
        if isinstance(partner, Arrivals | Prospect):
            check_reference(table.name, reference, table.schema, partner.schema, partner.spec.keys)
            yield reference


def _facts(
    asked: Sequence[tuple[Input, Reference]], tables: Mapping[str, Input], pinned: Sequence[Versions]
) -> Iterable[Reference | None]:
    """The references as facts; None for one that was not kept at a version of the past."""
    looked = [Kept(_stored(table), _stored(tables[r.table]), r) for table, r in asked]
    if any(isinstance(table, Prospect) for table in tables.values()):
        return [replace(found.reference, total=found.was_total) for found in looked]
    *past, now = pinned
    present = _looked_up(looked, now)
    for pair in present:
        if isinstance(pair, TempuraError):
            raise pair
    at_all = [present, *(_looked_up(looked, versions) for versions in past)]
    return [found.fact([pairs[i] for pairs in at_all]) for i, found in enumerate(looked)]


def _stored(table: Input) -> Arrivals:
    assert isinstance(table, Arrivals | Prospect)
    return table.table if isinstance(table, Prospect) else table


Looked = Pair | TempuraError


def _looked_up(asked: Sequence["Kept"], versions: Versions) -> list[Looked]:
    """Each reference at some versions, or what breaks it. What was looked at before is not looked at again."""
    found: dict[int, Looked] = {}
    open: list[tuple[int, Pair]] = []
    for i, reference in enumerate(asked):
        base = reference.last_looked_at(versions)
        if (base.rows, base.partners) == reference.of(versions):
            found[i] = base
        elif broken := reference.without_key(versions):
            found[i] = broken
        else:
            open.append((i, base))
    if open:
        engine = asked[0].rows.site.engine
        answers = engine.unmatched([asked[i].lookup(base, versions) for i, base in open])
        for (i, base), answer in zip(open, answers, strict=True):
            found[i] = asked[i].judged(base, versions, answer)
    return [found[i] for i in range(len(asked))]


@dataclass(frozen=True, slots=True)
class Kept:
    """A reference of one table's ``rows`` to their ``partners`` in another."""

    rows: Arrivals
    partners: Arrivals
    reference: Reference

    def of(self, versions: Versions) -> tuple[int, int]:
        """The versions of the two tables."""
        return versions[self.rows.name], versions[self.partners.name]

    @property
    def name(self) -> str:
        """The reference as it is declared."""
        return " -> ".join(written(self.reference))

    @property
    def was_total(self) -> bool:
        """Whether no reference was NULL when it was looked at last."""
        pairs = NOTES.of(self.rows, self.name)
        return bool(pairs) and pairs[-1].total

    def fact(self, pairs: Sequence[Looked]) -> Reference | None:
        """The reference, if it was kept at all of some versions."""
        good = [pair for pair in pairs if isinstance(pair, Pair)]
        return replace(self.reference, total=all(pair.total for pair in good)) if len(good) == len(pairs) else None

    def last_looked_at(self, versions: Versions) -> Pair:
        """The last of the pairs that were looked at, up to some versions."""
        rows, partners = self.of(versions)
        before = [p for p in NOTES.of(self.rows, self.name) if p.rows <= rows and p.partners <= partners]
        newest = sorted(before, key=lambda p: p.rows + p.partners, reverse=True)
        return next(filter(self._goes_on, newest), NOTHING)

    def _goes_on(self, pair: Pair) -> bool:
        """Whether both tables have gone on from what was looked at: none was reset or made anew."""
        return self.rows.follows(pair.rows, pair.rows_mark) and self.partners.follows(pair.partners, pair.partners_mark)

    def without_key(self, versions: Versions) -> TempuraError | None:
        """What is wrong if rows of the other table have no key of their own."""
        twice = DeclaredKey(self.partners, self.reference.key).twice(self.of(versions)[1])
        if twice is None:
            return None
        what = f"{self._told}, and more than one row of {self.partners.name} has the key {twice}"
        return self._broken(what, "Delete one of them")

    def lookup(self, base: Pair, versions: Versions) -> Lookup:
        """What has to be looked up since."""
        rows, partners = self.of(versions)
        return Lookup(
            came=_since(self.rows, base.rows, rows),
            changed=_since(self.partners, base.partners, partners),
            columns=self.reference.columns,
            key=self.reference.key,
            rows=self.rows.source(0, rows),
            there=self.partners.source(0, partners),
        )

    def judged(self, base: Pair, versions: Versions, answer: Unmatched) -> Looked:
        """What was found, which is noted if it is good."""
        if answer.rows:
            what = f"{self._told}, which has no row for {'; '.join(answer.rows)}"
            return self._broken(what, f"Nothing is lost. Put the missing rows into {self.partners.name}, delete these")
        rows, partners = self.of(versions)
        marks = self.rows.mark(rows), self.partners.mark(partners)
        pair = Pair(rows, marks[0], partners, marks[1], base.total and not answer.nulls)
        NOTES.add(self.rows, self.name, pair)
        return pair

    def _broken(self, what: str, remedy: str) -> TempuraError:
        name, otherwise = self.rows.name, f"{remedy}, or take the reference back"
        ways = f'wh.alter_table("{name}", references=…)', f"tempura table alter {name} --no-references"
        return TempuraError("REFERENCE_BROKEN", f"{what}.", *(f"{otherwise}: {way}." for way in ways))

    @property
    def _told(self) -> str:
        columns, partner = written(self.reference)
        return f"Table {self.rows.name}: {columns} refers to {partner}"


def _since(table: Arrivals, after: int, upto: int) -> Source:
    return table.source(after, upto) if after < upto else Source(table.schema, Rows())
