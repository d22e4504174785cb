"""Writing rows into files of the warehouse's own, and summing up what files hold: what an arrival says of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from tempura.warehouse.batches.arrivals import Arrival, ColumnSummary, DataFile, Rows
from tempura.warehouse.batches.parquet import inspect, partition_columns
from tempura.warehouse.batches.places import files_hit, place_columns, with_places
from tempura.warehouse.commits.seals import checksums
from tempura.warehouse.engine import KINDS, MISSING, REPLACED, Changes
from tempura.warehouse.sources.folder import data_files
from tempura.warehouse.tables.table import Arrivals

PLACED = "placed"
"""The folder of deletions whose places were found when they came."""

_REPLACED, _MISSING = "replaced", "missing"
"""Folders of what changes meet."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Files of rows that arrive, by what happens to them, as in :class:`~tempura.warehouse.engine.Changes`."""

    inserts: tuple[Path, ...] = ()
    deletes: tuple[Path, ...] = ()
    updates: tuple[Path, ...] = ()
    placed: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """Files that were written of rows inserted and deleted; ``places`` as in :class:`Arrival`. ``are_there``: those that are deleted were
    seen to be there."""

    inserted: tuple[Path, ...] = ()
    deleted: tuple[Path, ...] = ()
    places: tuple[str, ...] = ()
    are_there: bool = False


def written_sides(table: Arrivals, folder: Path, changes: Changes) -> Sides:
    """The rows that arrive, written into a folder, which is not made for none."""
    if changes.is_empty:
        return Sides()
    table.site.files.make_folder(folder)
    folders = dict(zip(KINDS, (folder / "inserted", folder / "deleted", folder / "updated"), strict=True))
    if changes.told is not None:
        table.site.engine.write_told(changes.told, table.schema, folders, table.name)
        inserts, deletes, updates = (tuple(data_files(place)) for place in folders.values())
    else:
        rows = zip(folders.values(), (changes.inserts, changes.deletes, changes.updates), strict=True)
        inserts, deletes, updates = (write_side(table, place, side) for place, side in rows)
    schema = with_places(table.schema, place_columns(table.schema.names))
    found = Sides(inserts, deletes, updates, write_side(table, folder / PLACED, changes.placed, schema))
    if found == Sides():
        table.site.files.remove_tree(folder)
    return found


def written(table: Arrivals, folder: Path, arrivals: Sequence[Arrival], sides: Sides) -> Written:
    """The files of the rows inserted and of those deleted: by name, and because an update takes their place."""
    inserted, deleted, updated, placed = sides.inserts, sides.deletes, sides.updates, sides.placed
    names = place_columns(table.schema.names)
    if not updated:
        table.site.files.sync_tree(folder)
        return Written(inserted, (*deleted, *placed), names if placed and not deleted else ())
    engine, keys, there = table.site.engine, table.spec.keys, table.present(arrivals)
    # What is found is found where it lies, unless rows are deleted by name as well.
    places = names if not deleted and can_place(table, there.rows) else ()
    missing: tuple[Path, ...] = ()
    if places:
        present = replace(there, rows=there.rows + _rows(inserted))
        found = engine.replaced(present, _rows(updated), keys, places)
        replaced = write_side(table, folder / _REPLACED, found, with_places(table.schema, places))
    else:
        told = engine.met(there, _rows(inserted, deleted), _rows(updated), keys)
        folders = {REPLACED: folder / _REPLACED, MISSING: folder / _MISSING}
        engine.write_told(told, table.schema, folders, table.name)
        replaced, missing = (tuple(data_files(place)) for place in folders.values())
    if missing:
        table.site.files.remove_tree(folder / _MISSING)
    table.site.files.sync_tree(folder)
    return Written((*inserted, *updated), (*deleted, *placed, *replaced), places, not missing)


def _rows(inserted: Sequence[Path], deleted: Sequence[Path] = ()) -> Rows:
    return Rows(tuple(map(str, inserted)), tuple(map(str, deleted)))


def write_side(table: Arrivals, folder: Path, rows: Any | None, schema: StructType | None = None) -> tuple[Path, ...]:
    """The files of rows that were written into a folder; none of no rows. ``schema``: if it is not the table's."""
    if rows is None:
        return ()
    table.site.engine.write(rows, schema or table.schema, folder, table.name)
    return tuple(data_files(folder))


def given(arrival: Arrival) -> int:
    """How many rows were pushed: those that an update replaces are found."""
    return sum(file.rows for file in (*arrival.inserted, *by_name(arrival)))


def by_name(arrival: Arrival) -> tuple[DataFile, ...]:
    """The files of rows that are deleted by name, and not because an update takes their place."""
    return tuple(file for file in arrival.deleted if Path(file.path).parent.name != _REPLACED)


def can_place(table: Arrivals, there: Rows) -> bool:
    """Whether it can be told where rows lie that are deleted from some that are there."""
    return table.notes_places and there.can_be_located


def with_placed(table: Arrivals, arrival: Arrival, folder: Path, rows: Any) -> Arrival:
    """An arrival whose files of deletions are new ones, of these rows with their places."""
    names = place_columns(table.schema.names)
    files = write_side(table, folder, rows, with_places(table.schema, names))
    deleted = summarised(table, (), files, table.shelf.copies).deleted
    return replace(arrival, deleted=deleted, places=names, hit=files_hit(files, names))


def summarised(
    table: Arrivals,
    inserted: Sequence[Path],
    deleted: Sequence[Path],
    home: Path,
    known: Mapping[str, str] | None = None,
) -> Arrival:
    """An arrival of these files below ``home``. ``known`` are the checksums of some of them. Raises TempuraError WRONG_SCHEMA,
    NOT_PARQUET."""
    columns: dict[str, ColumnSummary] = {}
    told = known or {}
    # What the system says of a file is asked before its content is read: so a change meanwhile shows.
    seen = {path: (str(path.relative_to(home)), path.stat()) for path in (*inserted, *deleted)}

    with checksums(path for path, (name, _) in seen.items() if not told.get(name)) as read:

        def file(path: Path) -> DataFile:
            name, stat = seen[path]
            summary = inspect(path, table.schema, partition_columns(name), table.spec.added)
            for column, found in summary.columns.items():
                columns[column] = columns[column] + found if column in columns else found
            written = DataFile(name, stat.st_size, stat.st_mtime_ns, summary.rows, summary.bytes)
            digest = told.get(name) or read(path)
            is_copy = home == table.shelf.copies
            return replace(written, checksum=digest) if is_copy else replace(written, identity=digest)

        sides = [tuple(map(file, paths)) for paths in (inserted, deleted)]
    now = table.site.clock().astimezone(UTC).isoformat()
    return Arrival(sides[0], sides[1], columns, table.schema.simpleString(), now)


def summarised_in_place(table: Arrivals, files: Sequence[Path], known: Mapping[str, str] | None = None) -> Arrival:
    """The arrival that new files of the table's folder are. Raises as :func:`summarised` does."""
    return summarised(table, files, (), table.shelf.folder, known)
