"""How rows come into a table: what its feed holds, or what is pushed, is written, held to its promises, and committed as an arrival."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, Pushed, Rows
from tempura.warehouse.batches.content import live
from tempura.warehouse.batches.places import files_hit
from tempura.warehouse.commits.ledger import attempt, discarding, discarding_if_refused
from tempura.warehouse.commits.reads import last_read
from tempura.warehouse.engine import Changes, Source
from tempura.warehouse.sources.feed import Batch
from tempura.warehouse.sources.folder import Folder
from tempura.warehouse.sources.pushes import Push, check_id, check_same, version_of
from tempura.warehouse.sources.widening import tell_ignored
from tempura.warehouse.tables.compact import compact, store_anew
from tempura.warehouse.tables.promises import (
    check_changes,
    check_managed,
    check_static,
    with_deletes_checked,
    with_keys_checked,
)
from tempura.warehouse.tables.table import Arrivals, holding
from tempura.warehouse.tables.writing import (
    Sides,
    Written,
    given,
    summarised,
    summarised_in_place,
    written,
    written_sides,
)

_ATTEMPTS_AT_REGISTERING = 3


def register(table: Arrivals) -> int:
    """Register what has come in a table's feed; nothing to do for a managed table. Returns the version.

    Raises TempuraError FOLDER_MISSING, FILE_CHANGED, FILE_GONE, WRONG_SCHEMA, BAD_CHANGE, and as :func:`push` does for a broken
    promise.
    """
    left = _ATTEMPTS_AT_REGISTERING
    while True:
        before = table.version()
        try:
            return _register(table)
        except TempuraError as error:
            if error.code != "COMMIT_LOST":
                raise
            # Another process registered the same at the same moment: look again at what is left to register. That is less each time, so
            # only what is lost while nothing has arrived counts as an attempt.
            if table.version() == before:
                left -= 1
            if not left:
                raise


def _register(table: Arrivals) -> int:
    if table.feed is None:
        return table.version()
    arrivals, number = table.opened()

    def taken(batch: Batch) -> None:
        nonlocal arrivals, number
        arrivals, number = (*arrivals, take(table, arrivals, number, batch)), number + 1

    for batch in table.feed.pending(live(arrivals), table.schema, table.widen):
        tell_ignored(table.name, arrivals, batch.ignored)
        batch.each(taken)
    store_anew(table, arrivals)
    return len(arrivals)


def is_at(table: Arrivals, version: int) -> bool:
    """Whether a version is the last one, and nothing waits to be registered. What a run would be refused for counts as waiting."""
    arrivals = table.committed()
    try:
        return len(arrivals) == version and not (table.feed and table.feed.waits(live(arrivals)))
    except TempuraError:
        return False


def push(table: Arrivals, push: Push, id: str | None = None) -> int:
    """Write rows and commit them as one arrival of a managed table. Returns the new version, or the one that a push of the same id
    has made.

    Raises TempuraError NOT_MANAGED, NO_KEYS, WRONG_SCHEMA, STATIC_TABLE, APPEND_ONLY, DELETE_OF_MISSING, DUPLICATE_KEY,
    BAD_ID, ID_REUSED, COMMIT_LOST, UNKNOWN_TABLE.
    """
    check_id(id)
    check_managed(table)
    arrivals, number = table.opened()
    before = version_of(arrivals, id)
    if before is not None:
        check_same(table.name, arrivals[before - 1], push.kind, push.count())
        return before
    pushed = Pushed(id, push.kind, 0) if id is not None else None
    batch = Batch(changes=lambda present: push.changes(), trust=push.trust, pushed=pushed)
    take(table, arrivals, number, batch)
    return len(arrivals) + 1


def reset(table: Arrivals) -> int:
    """Forget all arrivals, and begin anew with what the source holds now; empty, if rows are pushed. Returns the version.

    What is wrong with the source, as far as it is seen without reading all rows, is told before anything is forgotten. Raises
    TempuraError FOLDER_MISSING, WRONG_SCHEMA and what else :func:`register` raises, COMMIT_LOST, UNKNOWN_TABLE.
    """
    site, folder = table.site, table.shelf.folder
    for batch in table.feed.pending((), table.schema) if table.feed else ():
        names = (str(path.relative_to(folder)) for path in batch.in_place)
        summarised_in_place(table, batch.in_place, dict.fromkeys(names, "-"))
    # Whatever became of its manifests: no version that a run has read is given again.
    version = max(table.ledger.last(), last_read(site.root, site.files, table.name)[0])
    if version:
        now = site.clock().astimezone(UTC).isoformat()
        begin = Arrival((), (), {}, table.schema.simpleString(), now, reset=True)
        with attempt(site.files, site.attempts) as work, holding(table):
            table.ledger.append(work, version + 1, begin.to_json())
    return register(table)


def take(table: Arrivals, arrivals: Sequence[Arrival], number: int, batch: Batch) -> Arrival:
    """Make a batch the next arrival, under the next number of the ledger. ``arrivals`` are those that it comes after. Raises as
    :func:`push` does."""
    if not batch.refreshed:
        check_static(table, arrivals)
    compact(table, arrivals)
    files = table.site.files
    with attempt(files, table.site.attempts) as work:
        if batch.changes is None:
            arrival = replace(summarised_in_place(table, batch.in_place), ignored=batch.ignored)
            arrival = with_keys_checked(table, arrivals, arrival)
            table.shelf.hold(arrival.inserted)
            with holding(table):
                table.append(work, number, arrival)
            return arrival
        folder = table.shelf.copies / work.id
        beside = table.aside.folder / work.id
        with discarding(files, folder), discarding(files, beside):
            # A refresh of files that are read where they are looks at those that are there no more.
            present = Source(table.schema, Rows()) if batch.whole is not None else table.present(arrivals)
            arrival = copied(table, folder, arrivals, batch, batch.changes(present))
            table.shelf.hold(arrival.whole or ())
        with discarding_if_refused(files, folder), discarding_if_refused(files, beside), holding(table):
            table.append(work, number, arrival)
    return arrival


def copied(table: Arrivals, folder: Path, arrivals: Sequence[Arrival], batch: Batch, changes: Changes) -> Arrival:
    """An arrival whose rows are written into a new folder, and keep all promises beside those of ``arrivals``: it can be
    committed. Raises as :func:`push` does."""
    check_changes(table, changes)
    sides = written_sides(table, folder, changes)
    check_changes(table, sides)
    found = Written() if sides == Sides() else written(table, folder, arrivals, sides)
    for origin in batch.origins:
        Folder(table.site.engine, table.name, table.spec, table.shelf.folder).check_unchanged(origin)
    summary = summarised(table, found.inserted, found.deleted, table.shelf.copies)
    summary = replace(summary, places=found.places, hit=files_hit(found.deleted, found.places))
    pushed = replace(batch.pushed, rows=given(summary)) if batch.pushed else None
    summary = replace(summary, origins=batch.origins, position=batch.position, ignored=batch.ignored)
    beside = table.aside.put(folder.name, changes.aside)
    arrival = replace(summary, refreshed=batch.refreshed, pushed=pushed, aside=beside)
    if batch.refreshed and any(arrival.rows):
        check_static(table, arrivals)
    arrival = with_deletes_checked(table, folder, arrivals, arrival, batch.trust, found.are_there)
    arrival = with_keys_checked(table, arrivals, arrival)
    return arrival if batch.whole is None else _with_whole(table, arrival, batch.whole)


def _with_whole(table: Arrivals, arrival: Arrival, paths: Sequence[Path]) -> Arrival:
    """A refresh with the files that are read where they are; what is known of the columns is what these say."""
    known = {origin.path: origin.identity for origin in arrival.origins}
    found = summarised_in_place(table, paths, known)
    return replace(arrival, whole=found.inserted, columns=found.columns)
