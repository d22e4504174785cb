"""What lies in a table's folder: tables of lakes are not read as plain files, links out of the folder are not followed unasked."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.sources.lake import LAKES
from tempura.warehouse.sources.source import SourceFiles
from tempura.warehouse.table import Table
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import BagEngine, Row, parse, write_rows

SALES = "o_id INT, cat STRING"


@pytest.fixture
def wh(tmp_path: Path) -> Warehouse:
    return open_site(tmp_path / "wh", BagEngine(), Files())


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    put(tmp_path / "lake" / "a.parquet", [(1, "x")])
    return tmp_path / "lake"


def put(path: Path, rows: list[Row]) -> None:
    write_rows(path, parse(SALES), rows)


def held(table: Table) -> object:
    return table.df()


def make(folder: Path, kind: str) -> None:
    """Turn a folder into what a lake's writer makes of it."""
    if kind == "delta":
        (folder / "_delta_log").mkdir(parents=True)
        (folder / "_delta_log" / f"{0:020d}.json").write_text("{}")
    elif kind == "hudi":
        (folder / ".hoodie").mkdir(parents=True)
    else:
        (folder / "metadata").mkdir(parents=True)
        (folder / "metadata" / f"{kind}.metadata.json").write_text(json.dumps({"format-version": 2}))


KINDS = {"delta": "LAKE_AS_FILES", "v1": "LAKE_AS_FILES", "00001-6f1e": "LAKE_AS_FILES", "hudi": "UNSUPPORTED_FORMAT"}


class TestLakes:
    @pytest.mark.parametrize("format", ["parquet", "json", "csv"])
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("schema", [None, SALES])
    def test_a_folder_of_a_lake_is_not_read_as_files(
        self, wh: Warehouse, lake: Path, kind: str, format: str, schema: str | None
    ) -> None:
        make(lake, kind)
        with pytest.raises(TempuraError) as error:
            wh.add_table("sales", path=lake, format=format, schema=schema)
        assert error.value.code == KINDS[kind]
        assert str(lake) in error.value.what
        wanted = {"delta": "--format delta", "hudi": "push them"}.get(kind, "--format iceberg")
        assert wanted in error.value.command
        assert not wh.status()["tables"]

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_folder_that_becomes_one_later_is_refused_when_it_is_read(
        self, wh: Warehouse, lake: Path, kind: str
    ) -> None:
        table = wh.add_table("sales", path=lake)
        assert held(table) == SignedBag.of([(1, "x")])
        make(lake, kind)
        with pytest.raises(TempuraError) as error:
            held(table)
        assert error.value.code == KINDS[kind]

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("inner", ["day=1", "deep/orders", "_year=2024"])
    def test_one_below_the_folder_or_above_it(self, wh: Warehouse, lake: Path, kind: str, inner: str) -> None:
        put(lake / inner / "b.parquet", [(2, "y")])
        make(lake / inner, kind)
        with pytest.raises(TempuraError) as error:
            wh.add_table("sales", path=lake)
        assert error.value.code == KINDS[kind]
        assert str(lake / inner) in error.value.what
        put(lake / inner / "part=1" / "data" / "c.parquet", [(2, "y")])
        with pytest.raises(TempuraError) as error:
            wh.add_table("sales", path=lake / inner / "part=1" / "data")
        assert error.value.code == KINDS[kind]

    def test_what_is_not_read_may_be_one(self, wh: Warehouse, lake: Path) -> None:
        make(lake / "_staging", "delta")
        make(lake / ".old", "v1")
        (lake / "metadata").mkdir()
        assert held(wh.add_table("sales", path=lake)) == SignedBag.of([(1, "x")])


class TestLinks:
    @pytest.fixture
    def elsewhere(self, tmp_path: Path) -> Path:
        put(tmp_path / "elsewhere" / "b.parquet", [(2, "y")])
        return tmp_path / "elsewhere"

    @pytest.mark.parametrize("to", ["elsewhere", "elsewhere/b.parquet"])
    def test_links_that_lead_out_are_refused(self, wh: Warehouse, lake: Path, elsewhere: Path, to: str) -> None:
        table = wh.add_table("sales", path=lake)
        assert held(table) == SignedBag.of([(1, "x")])
        (lake / "link").symlink_to(elsewhere.parent / to)
        calls: list[Callable[[], object]] = [lambda: held(table), lambda: wh.add_table("other", path=lake)]
        for call in calls:
            with pytest.raises(TempuraError, match=f"{lake}/link is a symbolic link") as error:
                call()
            assert error.value.code == "LINK_LEADS_OUT"
            assert "follow_links=True" in error.value.remedy
            assert "--follow-links" in error.value.command

    def test_they_are_followed_if_the_table_is_declared_so(self, wh: Warehouse, lake: Path, elsewhere: Path) -> None:
        (lake / "day").symlink_to(elsewhere)
        (lake / "again").symlink_to(elsewhere)
        (lake / "file.parquet").symlink_to(elsewhere / "b.parquet")
        (lake / "deep").symlink_to(elsewhere / "inner")
        put(elsewhere / "inner" / "d.parquet", [(4, "d")])
        (elsewhere / "back").symlink_to(lake)
        (elsewhere / "round").symlink_to(elsewhere)
        table = wh.add_table("sales", path=lake, follow_links=True)
        assert held(table) == SignedBag.of([(1, "x"), (2, "y"), (4, "d")])
        assert "follow_links = true" in (wh.path / "tempura.toml").read_text()
        put(elsewhere / "c.parquet", [(3, "z")])
        assert held(wh.table("sales")) == SignedBag.of([(1, "x"), (2, "y"), (3, "z"), (4, "d")])

    def test_links_to_what_is_read_anyway_add_nothing(self, wh: Warehouse, lake: Path) -> None:
        put(lake / "new" / "b.parquet", [(2, "y")])
        (lake / "latest").symlink_to("new")
        (lake / "first.parquet").symlink_to("a.parquet")
        (lake / "loop").symlink_to(lake)
        assert held(wh.add_table("sales", path=lake)) == SignedBag.of([(1, "x"), (2, "y")])

    def test_links_to_what_is_hidden_are_refused(self, wh: Warehouse, lake: Path) -> None:
        put(lake / "_versions" / "2" / "b.parquet", [(2, "y")])
        (lake / "current").symlink_to("_versions/2")
        with pytest.raises(TempuraError) as error:
            wh.add_table("sales", path=lake)
        assert error.value.code == "LINK_LEADS_OUT"
        assert held(wh.add_table("sales", path=lake, follow_links=True)) == SignedBag.of([(1, "x"), (2, "y")])

    def test_a_link_to_nothing(self, wh: Warehouse, lake: Path) -> None:
        (lake / "gone.parquet").symlink_to("nowhere")
        with pytest.raises(TempuraError, match="where there is nothing") as error:
            wh.add_table("sales", path=lake, follow_links=True)
        assert error.value.code == "LINK_LEADS_OUT"

    def test_a_link_into_the_table_of_a_lake(self, wh: Warehouse, lake: Path, elsewhere: Path) -> None:
        put(elsewhere / "day=1" / "c.parquet", [(3, "z")])
        make(elsewhere, "delta")
        (lake / "day").symlink_to(elsewhere / "day=1")
        with pytest.raises(TempuraError) as error:
            wh.add_table("sales", path=lake, follow_links=True)
        assert error.value.code == "LAKE_AS_FILES"

    def test_the_folder_itself_may_be_a_link(self, wh: Warehouse, lake: Path) -> None:
        link = lake.parent / "here"
        link.symlink_to(lake)
        assert held(wh.add_table("sales", path=link)) == SignedBag.of([(1, "x")])


class TestWhatIsNoFile:
    @pytest.mark.parametrize("format", ["parquet", "json", "csv"])
    def test_it_is_refused_and_nobody_waits_for_it(self, wh: Warehouse, tmp_path: Path, format: str) -> None:
        lake = tmp_path / "lake"
        (lake / "deep").mkdir(parents=True)
        table = wh.add_table("sales", path=lake, format=format, schema=SALES)
        os.mkfifo(lake / "deep" / "z.csv")
        calls: list[Callable[[], object]] = [
            lambda: held(table),
            table.refresh,
            lambda: wh.add_table("other", path=lake, format=format),
        ]
        for call in calls:
            with pytest.raises(TempuraError, match=f"{lake}/deep/z.csv is a named pipe") as error:
                call()
            assert error.value.code == "NOT_A_FILE"
            assert error.value.remedy.startswith("Take it out of the folder")

    def test_sockets_and_devices(self, wh: Warehouse, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        table = wh.add_table("sales", path=lake, follow_links=True)
        monkeypatch.chdir(lake)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("s")
        with pytest.raises(TempuraError, match=f"{lake}/s is a socket") as error:
            held(table)
        assert error.value.code == "NOT_A_FILE"
        (lake / "s").unlink()
        (lake / "null").symlink_to("/dev/null")
        with pytest.raises(TempuraError, match=f"{lake}/null is a device") as error:
            held(table)
        assert error.value.code == "NOT_A_FILE"

    def test_what_does_not_count_may_be_one(self, wh: Warehouse, lake: Path) -> None:
        os.mkfifo(lake / "_pipe")
        os.mkfifo(lake / ".pipe")
        assert held(wh.add_table("sales", path=lake)) == SignedBag.of([(1, "x")])

    @pytest.mark.parametrize(
        ("format", "file"),
        [
            ("delta", "_delta_log/00000000000000000000.json"),
            ("iceberg", "metadata/v1.metadata.json"),
        ],
    )
    def test_nor_is_the_log_of_a_lake_one(self, tmp_path: Path, format: str, file: str) -> None:
        (tmp_path / file).parent.mkdir()
        os.mkfifo(tmp_path / file)
        with pytest.raises(TempuraError, match=f"{file} is a named pipe") as error:
            LAKES[format]("sales", tmp_path, "")
        assert error.value.code == "NOT_A_FILE"


def test_no_folder_holds_no_files(tmp_path: Path) -> None:
    assert SourceFiles("t", tmp_path / "none", "parquet").find() == ()
