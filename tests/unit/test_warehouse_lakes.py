"""Delta and Iceberg tables by their logs: what is read, and which feeds are refused. No package and no Spark is needed."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.sources import delta, iceberg
from tempura.warehouse.sources.feed import Advance
from tempura.warehouse.warehouse import open_site
from tests.unit.bag_engine import BagEngine

ON = {"metaData": {"id": "d1", "configuration": {"delta.enableChangeDataFeed": "true"}}}
OFF: dict[str, Any] = {"metaData": {"id": "d1", "configuration": {}}}


def code(error: pytest.ExceptionInfo[TempuraError]) -> str:
    return error.value.code


def commit(path: Path, version: int, *actions: Mapping[str, Any]) -> None:
    """A commit of a Delta table, and the files that it adds."""
    log = path / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))
    for action in actions:
        for kind in ("add", "cdc"):
            if kind in action:
                (path / action[kind]["path"].replace("%20", " ")).touch()


def add(name: str) -> dict[str, Any]:
    return {"add": {"path": name, "dataChange": True}}


def remove(name: str) -> dict[str, Any]:
    return {"remove": {"path": name, "dataChange": True}}


class TestDelta:
    def test_all_rows_at_first_then_the_feed(self, tmp_path: Path) -> None:
        commit(tmp_path, 0, ON, add("a"))
        commit(tmp_path, 1, add("b%20c"))
        assert delta.advance("t", tmp_path, "") == Advance("1 d1", {"versionAsOf": "1"})
        assert delta.advance("t", tmp_path, "1 d1") is None
        commit(tmp_path, 2, remove("a"), {"cdc": {"path": "changed", "dataChange": False}})
        (tmp_path / "a").unlink()
        options = {"readChangeFeed": "true", "startingVersion": "1", "endingVersion": "2"}
        assert delta.advance("t", tmp_path, "0 d1") == Advance("2 d1", options)

    def test_versions_without_a_feed_are_refused(self, tmp_path: Path) -> None:
        commit(tmp_path, 0, OFF, add("a"))
        commit(tmp_path, 1, ON)
        commit(tmp_path, 2, add("b"))
        assert delta.advance("t", tmp_path, "0 d1") is not None
        commit(tmp_path, 3, OFF)
        commit(tmp_path, 4, add("c"))
        commit(tmp_path, 5, ON)
        with pytest.raises(TempuraError, match="off in version 4") as error:
            delta.advance("t", tmp_path, "0 d1")
        assert code(error) == "FEED_OFF"
        # Files that are rewritten change no rows.
        commit(tmp_path, 4, {"add": {"path": "c", "dataChange": False}})
        assert delta.advance("t", tmp_path, "0 d1") is not None

    def test_the_checkpoint_knows_what_the_log_has_forgotten(self, tmp_path: Path) -> None:
        commit(tmp_path, 10, add("a"))
        commit(tmp_path, 11, add("b"))
        with pytest.raises(TempuraError) as error:
            delta.advance("t", tmp_path, "10 d1")
        assert code(error) == "FEED_UNREADABLE"
        type_ = pa.struct([("id", pa.string()), ("configuration", pa.map_(pa.string(), pa.string()))])
        rows = pa.array([None, ON["metaData"] | {"configuration": [("delta.enableChangeDataFeed", "true")]}], type_)
        pq.write_table(pa.table({"metaData": rows}), tmp_path / "_delta_log" / f"{10:020d}.checkpoint.parquet")
        found = delta.advance("t", tmp_path, "10 d1")
        assert found is not None
        assert found.position == "11 d1"

    @pytest.mark.parametrize("gone", ["_delta_log/00000000000000000001.json", "b"])
    def test_what_was_vacuumed_is_refused(self, tmp_path: Path, gone: str) -> None:
        commit(tmp_path, 0, ON, add("a"))
        commit(tmp_path, 1, add("b"))
        commit(tmp_path, 2, add("c"))
        (tmp_path / gone).unlink()
        with pytest.raises(TempuraError, match="version 1") as error:
            delta.advance("t", tmp_path, "0 d1")
        assert code(error) == "FEED_EXPIRED"

    def test_another_table_at_the_same_path_is_refused(self, tmp_path: Path) -> None:
        commit(tmp_path, 0, ON, add("a"))
        for position in ("0 d0", "1 d1"):
            with pytest.raises(TempuraError) as error:
                delta.advance("t", tmp_path, position)
            assert code(error) == "FEED_REPLACED"
        with pytest.raises(TempuraError) as error:
            delta.advance("t", tmp_path / "none", "")
        assert code(error) == "FOLDER_MISSING"

    def test_a_table_of_a_warehouse(self, tmp_path: Path) -> None:
        lake, engine = tmp_path / "lake", BagEngine()
        wh = open_site(tmp_path / "wh", engine, Files())
        with pytest.raises(TempuraError) as error:
            wh.add_table("t", path=lake, format="delta")
        assert code(error) == "NO_PACKAGE"
        table = wh.add_table("t", path=lake, format="delta", schema="id INT")
        commit(lake, 0, ON, add("a"))
        engine.lake_columns = "id INT"
        engine.lakes = {"0": [(1, "insert"), (2, "insert")], "2": [(3, "insert"), (1, "delete")], "3": [(9, "delete")]}
        assert held(table.df()) == SignedBag.of([(1,), (2,)])
        commit(lake, 1, add("b"))
        commit(lake, 2, add("c"))
        for _ in range(2):
            assert held(table.df()) == SignedBag.of([(2,), (3,)])
        assert wh.status()["tables"]["t"]["version"] == 2
        commit(lake, 3, add("d"))
        with pytest.raises(TempuraError) as error:
            table.df()
        assert code(error) == "DELETE_OF_MISSING"


def held(rows: object) -> SignedBag:
    assert isinstance(rows, SignedBag)
    return rows


def metadata(path: Path, version: int, operations: Sequence[str], uuid: str = "i1", first: int = 1) -> None:
    """The metadata of an Iceberg table whose snapshots are 1, 2 …, of which those before ``first`` have expired."""
    snapshots = [
        {"snapshot-id": n, "summary": {"operation": kind}} | ({"parent-snapshot-id": n - 1} if n > 1 else {})
        for n, kind in enumerate(operations, 1)
    ]
    data = {"table-uuid": uuid, "current-snapshot-id": len(snapshots) or -1, "snapshots": snapshots[first - 1 :]}
    (path / "metadata").mkdir(parents=True, exist_ok=True)
    (path / "metadata" / f"v{version}.metadata.json").write_text(json.dumps(data))


class TestIceberg:
    def test_all_rows_at_first_then_what_was_appended(self, tmp_path: Path) -> None:
        metadata(tmp_path, 1, [])
        assert iceberg.advance("t", tmp_path, "") is None
        metadata(tmp_path, 9, ["append", "overwrite"])
        assert iceberg.advance("t", tmp_path, "") == Advance("2 i1", {"snapshot-id": "2"})
        metadata(tmp_path, 10, ["append", "overwrite", "append", "replace"])
        options = {"start-snapshot-id": "2", "end-snapshot-id": "4"}
        assert iceberg.advance("t", tmp_path, "2 i1") == Advance("4 i1", options)
        assert iceberg.advance("t", tmp_path, "4 i1") is None

    @pytest.mark.parametrize("operation", ["overwrite", "delete"])
    def test_snapshots_that_are_no_appends_are_refused(self, tmp_path: Path, operation: str) -> None:
        metadata(tmp_path, 1, ["append", operation, "append"])
        with pytest.raises(TempuraError, match=f"snapshot 2 .* is an '{operation}'") as error:
            iceberg.advance("t", tmp_path, "1 i1")
        assert code(error) == "FEED_NOT_APPENDED"

    def test_expired_and_rolled_back_snapshots_are_refused(self, tmp_path: Path) -> None:
        metadata(tmp_path, 1, ["append"] * 4, first=3)
        for since in (1, 7):
            with pytest.raises(TempuraError) as error:
                iceberg.advance("t", tmp_path, f"{since} i1")
            assert code(error) == "FEED_EXPIRED"

    def test_another_table_at_the_same_path_is_refused(self, tmp_path: Path) -> None:
        metadata(tmp_path, 1, ["append"], uuid="i2")
        with pytest.raises(TempuraError) as error:
            iceberg.advance("t", tmp_path, "1 i1")
        assert code(error) == "FEED_REPLACED"
        with pytest.raises(TempuraError) as error:
            iceberg.advance("t", tmp_path / "none", "")
        assert code(error) == "FOLDER_MISSING"

    def test_compressed_metadata(self, tmp_path: Path) -> None:
        metadata(tmp_path, 1, ["append"])
        plain = tmp_path / "metadata" / "v1.metadata.json"
        (tmp_path / "metadata" / "v2.gz.metadata.json").write_bytes(gzip.compress(plain.read_bytes()))
        assert iceberg.advance("t", tmp_path, "") == Advance("1 i1", {"snapshot-id": "1"})
