"""The promises of a table, which every arrival is held to before it is committed: what may come, and which rows are there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival
from tempura.warehouse.batches.content import live
from tempura.warehouse.batches.places import place_columns
from tempura.warehouse.engine import Changes
from tempura.warehouse.sources.folder import Folder
from tempura.warehouse.sources.topic import Topic
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.writing import PLACED, Sides, by_name, can_place, with_placed


def check_managed(table: Arrivals) -> None:
    """Raises TempuraError NOT_MANAGED for a table that takes its rows from elsewhere."""
    if table.feed is not None:
        origin, remedy = f"the results of query {table.spec.query}", "Run that query."
        if table.spec.path:
            origin, remedy = f"the files in {table.shelf.folder}", "Put new files there."
        elif table.spec.kafka:
            origin, remedy = f"topic {table.spec.kafka.topic}", "Send records there."
        raise TempuraError("NOT_MANAGED", f"Table {table.name} takes its rows from {origin}.", remedy)


def check_changes(table: Arrivals, changes: Changes | Sides) -> None:
    """Whether a table takes changes of these kinds. Raises TempuraError NO_KEYS, APPEND_ONLY."""
    updates, deletes, placed = (_is_there(side) for side in (changes.updates, changes.deletes, changes.placed))
    if updates and not table.spec.keys:
        what = f"Table {table.name} has no keys by which an update finds the row that it replaces."
        raise TempuraError("NO_KEYS", what, "Write a delete of the old row and an insert, or declare keys.")
    if (deletes or placed) and table.spec.append_only:
        raise _append_only(table)


def _is_there(side: Any) -> bool:
    """Whether there are rows of a kind: that may come, or files of them."""
    return side is not None and side != ()


def check_static(table: Arrivals, arrivals: Sequence[Arrival]) -> None:
    """Whether another arrival may follow on these. Raises TempuraError STATIC_TABLE."""
    if table.spec.static and live(arrivals):
        remedy = "Take static from its declaration if it changes."
        raise TempuraError("STATIC_TABLE", f"Table {table.name} is static, and more rows come.", remedy)


def with_deletes_checked(
    table: Arrivals,
    folder: Path,
    arrivals: Sequence[Arrival],
    arrival: Arrival,
    trust: bool,
    are_there: bool,
) -> Arrival:
    """An arrival in ``folder`` whose deleted rows are there, and noted with their places if that can be. ``are_there``: this was seen.
    Raises TempuraError APPEND_ONLY, DELETE_OF_MISSING."""
    if table.spec.append_only and arrival.rows[1]:
        raise _append_only(table)
    if trust or not arrival.rows[1] or arrival.places:
        return arrival
    placed = _with_places(table, folder, arrivals, arrival)
    if placed or are_there:
        return placed or arrival
    # What an update takes the place of was found where it is: so much of a row as there is, whatever else comes or goes.
    named = replace(arrival, deleted=by_name(arrival))
    row = table.site.engine.missing(table.present(arrivals), table.rows_of(named), table.spec.keys)
    if row is not None:
        what = f"{_come_to(table, arrival)}: a row to be deleted is not there, or not as often: {row}."
        remedy = "Nothing was changed. trust=True skips this check." if table.feed is None else "Correct the file."
        if isinstance(table.feed, Topic):
            remedy = "Declare keys, by which rows are deleted if they are there, in a table of another name."
        raise TempuraError("DELETE_OF_MISSING", what, remedy)
    return arrival


def _come_to(table: Arrivals, arrival: Arrival) -> str:
    """A table, and the file of its folder that came to it, if it was one."""
    names = [origin.path for origin in arrival.seen] if isinstance(table.feed, Folder) else []
    return f"Table {table.name}, file {table.shelf.folder / names[0]}" if len(names) == 1 else f"Table {table.name}"


def _append_only(table: Arrivals) -> TempuraError:
    remedy = "Take append_only from its declaration if rows may be deleted."
    return TempuraError("APPEND_ONLY", f"Table {table.name} is append-only; nothing was changed.", remedy)


def _with_places(table: Arrivals, folder: Path, arrivals: Sequence[Arrival], arrival: Arrival) -> Arrival | None:
    """An arrival whose files of deletions tell where the deleted rows lie; None when they cannot, or some are not there."""
    present, files = table.present(arrivals), table.site.files
    if not can_place(table, present.rows):
        return None
    places = place_columns(table.schema.names)
    found = table.site.engine.placed(present, table.rows_of(arrival), table.spec.keys, places)
    placed = with_placed(table, arrival, folder / PLACED, found)
    if placed.rows[1] != arrival.rows[1]:
        files.remove_tree(folder / PLACED)
        return None
    for home in {(table.shelf.copies / file.path).parent for file in arrival.deleted}:
        files.remove_tree(home)
    files.sync_tree(folder)
    return placed


def with_keys_checked(table: Arrivals, arrivals: Sequence[Arrival], arrival: Arrival) -> Arrival:
    """An arrival after which no two rows have one key, if there are keys. Raises TempuraError DUPLICATE_KEY."""
    if not table.spec.keys or not arrival.inserted:
        return arrival
    key = table.site.engine.duplicate(table.present(arrivals), table.rows_of(arrival), table.spec.keys)
    if key is not None:
        what = f"{_come_to(table, arrival)}: more than one row would have the key {key}."
        raise TempuraError("DUPLICATE_KEY", what, "Nothing was registered. Remove the row, or the keys promise.")
    return replace(arrival, unique=table.spec.keys)
