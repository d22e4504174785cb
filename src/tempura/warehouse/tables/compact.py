"""Storing arrivals together as well, so that a table of many is read from few files: when it is due, and of which rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival
from tempura.warehouse.batches.content import Content, last_reset
from tempura.warehouse.batches.places import place_columns
from tempura.warehouse.commits.ledger import attempt, discarding, discarding_if_refused
from tempura.warehouse.commits.spans import FAN, Span
from tempura.warehouse.engine import Changes, Source
from tempura.warehouse.sources.folder import Folder
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.writing import PLACED, summarised, with_placed, write_side


def compact(table: Arrivals, arrivals: Sequence[Arrival]) -> None:
    """Store arrivals together that were copied into the warehouse, when there are sixteen more: before the next one is taken, so
    that nothing is refused that has been committed, and what is killed or fails here has changed nothing."""
    if len(arrivals) % FAN:
        return
    since, blocks, shelf = last_reset(arrivals), table.blocks, table.shelf
    for span in blocks.due(arrivals, since):
        # Of a folder's files a refresh has to tell what each has brought, but for those of changes.
        if isinstance(table.feed, Folder) and not all(arrival.changing for arrival in arrivals[slice(*span)]):
            continue
        pieces = blocks.read(arrivals, *span)
        before = blocks.read(arrivals, since, span[0]) if since < span[0] else ()
        wanted, beside = Content(None, pieces), Content(None, (*before, *pieces))
        # Places in files that are not read beside the block would be lost: then more files are read.
        if before and wanted.notes_places and not beside.holds_places:
            continue
        # Of damaged rows whoever reads them is told.
        if not shelf.damage(pieces):
            places = shelf.places(pieces) if wanted.notes_places and beside.is_placed else {}
            source = Source(table.schema, replace(shelf.rows(wanted), places=places))
            net = partial(table.site.engine.net, source, place_columns(table.schema.names))
            _store_together(table, span, net)


def store_anew(table: Arrivals, arrivals: Sequence[Arrival]) -> None:
    """Store the rows of a table that are stored elsewhere as a whole, too, when most that has arrived was deleted again: a result that
    changes as a whole is read as it is, not as the sum of its changes. Killed or failing here, all that arrived is committed."""
    since, upstream = last_reset(arrivals), table.upstream
    if upstream and table.blocks.is_stale(arrivals, since) and (rows := upstream.present(arrivals)):
        _store_together(table, (since, len(arrivals)), rows)


def _store_together(table: Arrivals, span: Span, found: Callable[[], Changes]) -> None:
    """Commit a block of the net changes of a range."""
    site, copies = table.site, table.shelf.copies
    with attempt(site.files, site.attempts) as work:
        folder = copies / work.id
        with discarding(site.files, folder):
            site.files.make_folder(folder)
            net = found()
            sides = (("inserted", net.inserts), ("deleted", net.deletes))
            inserted, deleted = (write_side(table, folder / name, rows) for name, rows in sides)
            rows = summarised(table, inserted, deleted, copies)
            if net.placed is not None:
                rows = with_placed(table, rows, folder / PLACED, net.placed)
            site.files.sync_tree(folder)
        try:
            with discarding_if_refused(site.files, folder):
                table.blocks.commit(work, span, replace(rows, position=f"arrivals {span[0] + 1} to {span[1]}"))
        except TempuraError as error:
            # Another process has stored the same.
            if error.code != "COMMIT_LOST":
                raise
