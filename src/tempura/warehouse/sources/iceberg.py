"""Iceberg tables by their metadata: which snapshots there are, and whether reading what was appended says all that happened.

Tables that lie in a folder of their own, as Hadoop catalogs keep them: ``metadata/vN.metadata.json`` (Iceberg's table specification).
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tempura.errors import TempuraError
from tempura.warehouse.sources.feed import Advance, ways_on
from tempura.warehouse.sources.source import check_regular

_NO_ROWS = ("replace",)
"""Operations that change files and no rows."""


def advance(table: str, path: Path, position: str) -> Advance | None:
    """What to read to come from a position, "" at first, to the table's current snapshot; None when there is nothing new.

    Raises TempuraError FEED_REPLACED, FEED_EXPIRED or FEED_NOT_APPENDED when incremental reads do not say all that happened.
    """
    metadata = _metadata(path)
    uuid, current = str(metadata["table-uuid"]), int(metadata.get("current-snapshot-id") or -1)
    if not position:
        return None if current < 0 else whole(table, path)
    since, known = int(position.split()[0]), position.split()[1]
    if uuid != known:
        what = f"Table {table}: the Iceberg table at {path} is not the one of which snapshot {since} has arrived."
        raise TempuraError("FEED_REPLACED", what, *ways_on(table, "Restore it"))
    if since == current:
        return None
    for snapshot in _between(table, path, metadata, since, current):
        _check_appended(table, path, snapshot)
    return Advance(f"{current} {uuid}", {"start-snapshot-id": str(since), "end-snapshot-id": str(current)})


def whole(table: str, path: Path) -> Advance:
    """How to read all rows of the table's current snapshot; nothing is to be read, and the position is "", when it has none. Raises
    TempuraError FOLDER_MISSING."""
    metadata = _metadata(path)
    current = int(metadata.get("current-snapshot-id") or -1)
    return (
        Advance("", {})
        if current < 0
        else Advance(f"{current} {metadata['table-uuid']}", {"snapshot-id": str(current)})
    )


def _between(
    table: str, path: Path, metadata: Mapping[str, Any], since: int, current: int
) -> Iterator[Mapping[str, Any]]:
    """The snapshots from the current one back to the one that has arrived."""
    snapshots = {int(snapshot["snapshot-id"]): snapshot for snapshot in metadata.get("snapshots", ())}
    at: int | None = current
    while at != since:
        if at not in snapshots:
            what = f"Table {table}: snapshot {since} of the Iceberg table at {path}, which has arrived, does not lead to {current}: "
            what += "snapshots in between have expired, or the table was rolled back."
            raise TempuraError("FEED_EXPIRED", what, *ways_on(table, "Run more often than snapshots expire"))
        yield snapshots[at]
        at = snapshots[at].get("parent-snapshot-id")


def _check_appended(table: str, path: Path, snapshot: Mapping[str, Any]) -> None:
    operation = snapshot.get("summary", {}).get("operation")
    if operation not in ("append", *_NO_ROWS):
        what = f"Table {table}: snapshot {snapshot['snapshot-id']} of the Iceberg table at {path} is an {operation!r}, whose "
        what += "deletes an incremental read leaves out."
        raise TempuraError("FEED_NOT_APPENDED", what, *ways_on(table, "Append only"))


def _metadata(path: Path) -> Mapping[str, Any]:
    """The newest metadata. Raises TempuraError FOLDER_MISSING when there is no Iceberg table, NOT_A_FILE."""
    found: dict[int, Path] = {}
    for file in (path / "metadata").glob("v*.metadata.json"):
        number = file.name[1:].split(".")[0]
        if number.isdigit():
            found[int(number)] = file
    if not found:
        what = f"There is no Iceberg table in a folder of its own at {path}."
        raise TempuraError("FOLDER_MISSING", what, "Correct the path in tempura.toml.")
    check_regular(found[max(found)])
    data = found[max(found)].read_bytes()
    parsed: Mapping[str, Any] = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    return parsed
