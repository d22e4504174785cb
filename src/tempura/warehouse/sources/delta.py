"""Delta tables by their log: which versions there are, and whether their change feed can be trusted for all that is new.

The log is a folder of numbered JSON files, one per version, each with the actions of that commit, one per line; checkpoints hold
the state at a version (Delta Lake's transaction log protocol).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from tempura.errors import TempuraError
from tempura.warehouse.sources.feed import Advance, ways_on
from tempura.warehouse.sources.source import check_regular

_FEED = "delta.enableChangeDataFeed"

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Log:
    """A Delta table's log. ``commits`` are the actions of the versions whose files are there."""

    path: Path
    commits: Mapping[int, Sequence[Action]]

    @staticmethod
    def read(path: Path) -> "Log":
        """Raises TempuraError FOLDER_MISSING when there is no Delta table, NOT_A_FILE."""
        files = {int(f.stem): f for f in (path / "_delta_log").glob("*.json") if f.stem.isdigit()}
        if not files:
            what = f"There is no Delta table at {path}."
            raise TempuraError("FOLDER_MISSING", what, "Correct the path in tempura.toml.")
        return Log(path, {version: _actions(files[version]) for version in sorted(files)})

    @property
    def last(self) -> int:
        """The table's version."""
        return max(self.commits)

    def settings(self, version: int) -> Mapping[str, Any]:
        """The table's metadata as of a version; nothing when the log does not reach back so far."""
        for known in sorted((v for v in self.commits if v <= version), reverse=True):
            found = _only(self.commits[known], "metaData")
            if found:
                return found[-1]
        return self._checkpointed(version)

    def _checkpointed(self, version: int) -> Mapping[str, Any]:
        files = sorted((self.path / "_delta_log").glob("*.checkpoint*.parquet"), reverse=True)
        for file in (f for f in files if int(f.name.split(".")[0]) <= version):
            check_regular(file)
            rows = pq.read_table(file, columns=["metaData"]).column(0).to_pylist()
            found = [row for row in rows if row and row.get("id")]
            if found:
                return {**found[0], "configuration": dict(found[0]["configuration"] or ())}
        return {}


def advance(table: str, path: Path, position: str) -> Advance | None:
    """What to read to come from a position, "" at first, to the table's last version; None when there is nothing new.

    Raises TempuraError FEED_UNREADABLE, FEED_REPLACED, FEED_EXPIRED or FEED_OFF when the change feed does not say all that happened.
    """
    if not position:
        return whole(table, path)
    log = Log.read(path)
    id = _id(log)
    since, known = int(position.split()[0]), position.split()[1]
    if id != known or since > log.last:
        what = f"Table {table}: the Delta table at {path} is not the one of which version {since} has arrived."
        raise TempuraError("FEED_REPLACED", what, *ways_on(table, "Restore it"))
    if since == log.last:
        return None
    _check_versions(table, log, since)
    _check_feed(table, log, since)
    options = {"readChangeFeed": "true", "startingVersion": str(since + 1), "endingVersion": str(log.last)}
    return Advance(f"{log.last} {id}", options)


def whole(table: str, path: Path) -> Advance:
    """How to read all rows of the table's last version. Raises TempuraError FOLDER_MISSING, FEED_UNREADABLE."""
    log = Log.read(path)
    return Advance(f"{log.last} {_id(log)}", {"versionAsOf": str(log.last)})


def _id(log: Log) -> str:
    id = str(log.settings(log.last).get("id", ""))
    if not id:
        what = f"The metadata of the Delta table at {log.path} is neither in its log nor in a Parquet checkpoint."
        raise TempuraError("FEED_UNREADABLE", what, "Let its writer make a checkpoint of the classic kind.")
    return id


def _check_versions(table: str, log: Log, since: int) -> None:
    """All commits are there, and all files that the feed of their changes is made of."""
    remedy = ways_on(table, "Run more often than the log is kept")
    for version in range(since + 1, log.last + 1):
        if version not in log.commits:
            what = f"Table {table}: version {version} of the Delta table at {log.path} is no longer in its log."
            raise TempuraError("FEED_EXPIRED", what, *remedy)
        for file in _feed_files(log.commits[version]):
            if "://" not in file and not (log.path / unquote(file)).exists():
                what = f"Table {table}: file {log.path / unquote(file)}, which says what changed in version {version}, is gone."
                raise TempuraError("FEED_EXPIRED", what, *remedy)


def _check_feed(table: str, log: Log, since: int) -> None:
    settings = log.settings(since)
    for version in range(since + 1, log.last + 1):
        settings = (_only(log.commits[version], "metaData") or [settings])[-1]
        # A commit without rows needs no feed: the one that turns it on, or OPTIMIZE.
        if _changes(log.commits[version]) and (settings.get("configuration") or {}).get(_FEED) != "true":
            what = f"Table {table}: the change feed of the Delta table at {log.path} was off in version {version}."
            raise TempuraError("FEED_OFF", what, *ways_on(table, f"Turn it on ({_FEED} = true)", "then"))


def check_feed_on(table: str, path: Path) -> None:
    """Raises TempuraError FEED_OFF when what changes from now on will not be told; nothing where there is no Delta table yet."""
    if not (path / "_delta_log").is_dir():
        return
    log = Log.read(path)
    if (log.settings(log.last).get("configuration") or {}).get(_FEED) != "true":
        what = f"Table {table}: the change feed of the Delta table at {path} is off, so what changes in it could not be followed."
        remedy = f"Turn it on: ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({_FEED} = true). If it never changes, declare it static"
        raise TempuraError("FEED_OFF", what, f"{remedy}: static=True.", f"{remedy}: --static")


def _feed_files(actions: Sequence[Action]) -> Iterator[str]:
    changes = _only(actions, "cdc") or _changes(actions)
    return (str(action["path"]) for action in changes)


def _changes(actions: Sequence[Action]) -> list[Action]:
    files = [*_only(actions, "add"), *_only(actions, "remove"), *_only(actions, "cdc")]
    return [action for action in files if action.get("dataChange") or action in _only(actions, "cdc")]


def _only(actions: Sequence[Action], kind: str) -> list[Action]:
    return [action[kind] for action in actions if kind in action]


def _actions(file: Path) -> list[Action]:
    check_regular(file)
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
