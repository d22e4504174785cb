"""Where rows come from, over an engine without a JVM: folders of several formats, files of changes, updates by key."""

import gzip
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.commits.files import Files
from tempura.warehouse.declared.text import header
from tempura.warehouse.engine import Source
from tempura.warehouse.sources.spelt import check_spelt
from tempura.warehouse.table import Table
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.take import take
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import BagEngine, Row, bag, parse, write_rows

SALES = "o_id INT, cat STRING"
CHANGES = f"{SALES}, _change STRING"


class Looking(BagEngine):
    """Notes in how many rows those that are to leave were looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = list[int]()

    def met(self, present: Source, came: Rows, updates: Rows, keys: Sequence[str]) -> list[Row]:
        self._look(present)
        return super().met(present, came, updates, keys)

    def missing(self, present: Source, arriving: Rows, keys: Sequence[str]) -> str | None:
        self._look(present)
        return super().missing(present, arriving, keys)

    def _look(self, present: Source) -> None:
        there = Rows(tuple(file for file in present.rows.inserted if "/inserted/" not in file))
        self.looked.append(bag(replace(present, rows=there), present.schema.names).size)


@pytest.fixture
def wh(tmp_path: Path) -> Warehouse:
    return open_site(tmp_path / "wh", BagEngine(), Files(), lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def code(error: pytest.ExceptionInfo[TempuraError]) -> str:
    return error.value.code


def held(table: Table) -> SignedBag:
    found: object = table.df()
    assert isinstance(found, SignedBag)
    return found


def version(wh: Warehouse) -> int:
    found: int = wh.status()["tables"]["sales"]["version"]
    return found


def put(path: Path, rows: list[Row], ddl: str = SALES, age: float = 100) -> None:
    """A Parquet file that was written ``age`` seconds ago."""
    write_rows(path, parse(ddl), rows)
    aged(path, age)


def aged(path: Path, age: float) -> None:
    os.utime(path, (time.time() - age,) * 2)


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"settle": 5}, "BAD_OPTION"),
        ({"follow_links": True}, "BAD_OPTION"),
        ({"format": "csv"}, "BAD_OPTION"),
        ({"format": "delta"}, "BAD_OPTION"),
        ({"format": "csv", "options": {"sep": ";"}}, "BAD_OPTION"),
        ({"new_columns": "add"}, "BAD_OPTION"),
        ({"value_format": "csv"}, "BAD_SOURCE"),
        ({"start": "latest"}, "BAD_SOURCE"),
        ({"connection": {"sasl.mechanism": "PLAIN"}}, "BAD_SOURCE"),
    ],
)
def test_what_says_nothing_of_a_managed_table_is_refused(wh: Warehouse, given: dict[str, Any], refusal: str) -> None:
    with pytest.raises(TempuraError) as error:
        wh.add_table("sales", schema=SALES, **given)
    assert code(error) == refusal
    assert wh.tables() == ()
    assert wh.add_table("sales", schema=SALES, format="parquet", settle=0, follow_links=False).is_managed


@pytest.mark.parametrize("given", [{"settle": 5}, {"follow_links": True}])
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_what_says_nothing_of_a_lake_is_refused(wh: Warehouse, lake: Path, format: str, given: dict[str, Any]) -> None:
    with pytest.raises(TempuraError, match=f"of format {format} cannot have {next(iter(given))}") as error:
        wh.add_table("sales", path=lake, format=format, schema=SALES, **given)
    assert code(error) == "BAD_OPTION"


class TestChangeFiles:
    def test_inserts_deletes_and_updates(self, wh: Warehouse, lake: Path) -> None:
        table = wh.add_table("sales", path=lake, schema=SALES, keys=["o_id"])
        put(lake / "a.parquet", [(1, "x"), (2, "x"), (3, None)])
        put(
            lake / "b.parquet",
            [(4, "y", "insert"), (1, "x", "delete"), (3, "z", "update"), (9, "n", "update")],
            CHANGES,
        )
        assert held(table) == SignedBag.of([(2, "x"), (4, "y"), (3, "z"), (9, "n")])
        assert version(wh) == 2

    def test_those_that_wait_are_one_arrival_in_the_order_of_writing(self, wh: Warehouse, lake: Path) -> None:
        table = wh.add_table("sales", path=lake, schema=SALES, keys=["o_id"])
        put(lake / "z.parquet", [(1, "first", "insert")], CHANGES, age=30)
        put(lake / "y.parquet", [(1, "second", "update")], CHANGES, age=20)
        put(lake / "x.parquet", [(1, "third", "update")], CHANGES, age=10)
        assert held(table) == SignedBag.of([(1, "third")])
        assert version(wh) == 1
        assert held(table) == SignedBag.of([(1, "third")])
        assert version(wh) == 1

    def test_plain_files_between_them_keep_their_turn(self, wh: Warehouse, lake: Path) -> None:
        table = wh.add_table("sales", path=lake, schema=SALES, keys=["o_id"])
        put(lake / "a.parquet", [(1, "x", "insert")], CHANGES, age=60)
        put(lake / "b.parquet", [(1, "x", "delete")], CHANGES, age=50)
        put(lake / "c.parquet", [(1, "y")], age=40)
        put(lake / "d.parquet", [(2, "y")], age=30)
        put(lake / "e.parquet", [(1, "z", "update")], CHANGES, age=20)
        put(lake / "f.parquet", [(1, "z", "delete"), (3, "z", "insert")], CHANGES, age=10)
        assert held(table) == SignedBag.of([(2, "y"), (3, "z")])
        assert [[o.path for o in a.origins] for a in table.arrivals.arrivals()] == [
            ["a.parquet", "b.parquet"],
            [],
            ["e.parquet", "f.parquet"],
        ]

    @pytest.mark.parametrize(
        ("wrong", "refusal"),
        [
            ((9, "x", "delete"), "DELETE_OF_MISSING"),
            ((1, "x", "insert"), "DUPLICATE_KEY"),
            ((3, "x", "insert"), "DUPLICATE_KEY"),
        ],
    )
    def test_those_before_one_that_is_refused_arrive(self, wh: Warehouse, lake: Path, wrong: Row, refusal: str) -> None:
        table = wh.add_table("sales", path=lake, schema=SALES, keys=["o_id"])
        put(lake / "a.parquet", [(1, "x")], age=60)
        put(lake / "b.parquet", [(2, "y", "insert")], CHANGES, age=50)
        put(lake / "c.parquet", [(3, "y", "insert")], CHANGES, age=40)
        put(lake / "d.parquet", [wrong], CHANGES, age=30)
        put(lake / "e.parquet", [(4, "y", "insert")], CHANGES, age=20)
        with pytest.raises(TempuraError) as error:
            table.df()
        assert code(error) == refusal
        assert f"Table sales, file {lake / 'd.parquet'}: " in error.value.what
        assert version(wh) == 3
        put(lake / "d.parquet", [(5, "y", "insert")], CHANGES, age=30)
        assert held(table) == SignedBag.of([(1, "x"), (2, "y"), (3, "y"), (4, "y"), (5, "y")])
        assert version(wh) == 4

    @pytest.mark.parametrize(
        ("promise", "refusal"), [({"append_only": True}, "APPEND_ONLY"), ({"static": True}, "STATIC_TABLE")]
    )
    def test_promises_hold_for_each_of_them(
        self, wh: Warehouse, lake: Path, promise: dict[str, Any], refusal: str
    ) -> None:
        table = wh.add_table("sales", path=lake, schema=SALES, keys=["o_id"], **promise)
        put(lake / "a.parquet", [(1, "x", "insert")], CHANGES, age=60)
        put(lake / "b.parquet", [(1, "y", "update")], CHANGES, age=50)
        with pytest.raises(TempuraError) as error:
            table.df()
        assert code(error) == refusal
        assert version(wh) == 1

    def test_many_are_several_arrivals(self, wh: Warehouse, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempura.warehouse.sources.folder._TOGETHER", 2)
        table = wh.add_table("sales", path=lake, schema=SALES, keys=["o_id"])
        for i in range(5):
            put(lake / f"{i}.parquet", [(1, f"{i}", "update")], CHANGES, age=100 - i)
        assert held(table) == SignedBag.of([(1, "4")])
        assert version(wh) == 3

    def test_a_table_is_looked_through_once_for_updates_and_deletes(self, tmp_path: Path, lake: Path) -> None:
        engine = Looking()
        table = open_site(tmp_path / "wh", engine, Files()).add_table("sales", path=lake, schema=SALES, keys=["o_id"])
        put(lake / "a.parquet", [(i, "x") for i in range(50)])
        changes = [(1, "x", "delete"), (2, "y", "update"), (3, "x", "delete"), (3, "z", "update"), (60, "z", "update")]
        put(lake / "b.parquet", [*changes, (61, "z", "insert")], CHANGES, age=50)
        new: list[Row] = [(2, "y"), (3, "z"), (60, "z"), (61, "z")]
        assert held(table) == SignedBag.of([(0, "x"), *((i, "x") for i in range(4, 50)), *new])
        assert engine.looked == [50]
        assert table.arrivals.arrivals()[1].rows == (4, 3)
        put(lake / "c.parquet", [(4, "y", "delete"), (5, "y", "update")], CHANGES, age=40)
        with pytest.raises(TempuraError, match=r"a row to be deleted is not there.*\(4, 'y'\)") as error:
            table.df()
        assert (code(error), len(table.arrivals.arrivals())) == ("DELETE_OF_MISSING", 2)
        assert not list(tmp_path.glob("**/missing"))

    def test_columns_that_are_told_once(self, wh: Warehouse, lake: Path) -> None:
        table = wh.add_table("sales", path=lake, schema=SALES, keys=["o_id"])
        more = f"{CHANGES}, price INT"
        for i in range(3):
            put(lake / f"{i}.parquet", [(i, "x", "insert", 5)], more, age=100 - i)
        with pytest.warns(UserWarning, match="price") as warned:
            table.df()
        assert (len(warned), version(wh)) == (1, 1)

    def test_another_process_may_be_faster_at_each_of_them(self, tmp_path: Path, lake: Path) -> None:
        other = open_site(tmp_path / "wh", BagEngine(), Files()).add_table("sales", path=lake, schema=SALES).arrivals
        for i in range(0, 6, 2):
            put(lake / f"{i}.parquet", [(i, "x", "insert")], CHANGES, age=100 - i)
            put(lake / f"{i + 1}.parquet", [(i + 1, "x")], age=99 - i)

        def take_one_before(operation: str, path: Path) -> None:
            if operation == "link" and path.parent.name == "arrivals":
                arrivals, number = other.opened()
                for batch in islice(other.feed.pending(arrivals, other.schema) if other.feed else (), 1):
                    take(other, arrivals, number, batch)

        wh = open_site(tmp_path / "wh", BagEngine(), Files(take_one_before))
        assert held(wh.table("sales")) == SignedBag.of([(i, "x") for i in range(6)])
        assert version(wh) == 6

    def test_what_cannot_be_registered_is_not_tried_for_ever(
        self, wh: Warehouse, lake: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = wh.add_table("sales", path=lake, schema=SALES)
        put(lake / "a.parquet", [(1, "x")])
        tried = list[int]()

        def lost(table: Arrivals, arrivals: object, number: int, batch: object) -> None:
            tried.append(number)
            raise TempuraError("COMMIT_LOST", "Somebody was first.", "Call again.")

        monkeypatch.setattr("tempura.warehouse.tables.take.take", lost)
        with pytest.raises(TempuraError) as error:
            table.df()
        assert code(error) == "COMMIT_LOST"
        assert tried == [1, 1, 1]

    def test_an_update_of_what_comes_with_it(self, wh: Warehouse) -> None:
        table = wh.add_table("sales", schema=SALES, keys=["o_id"])
        table.append([(1, "old"), (2, "old")])  # type: ignore[arg-type]
        changes = [(1, "old", "delete"), (1, "new", "update"), (3, "a", "insert"), (3, "b", "update")]
        table.apply(changes)  # type: ignore[arg-type]
        assert held(table) == SignedBag.of([(1, "new"), (2, "old"), (3, "b")])

    def test_two_updates_of_one_key_are_refused(self, wh: Warehouse, lake: Path) -> None:
        wh.add_table("sales", path=lake, schema=SALES, keys=["o_id"])
        put(lake / "a.parquet", [(1, "x", "update"), (1, "y", "update")], CHANGES)
        with pytest.raises(TempuraError) as error:
            wh.table("sales").df()
        assert code(error) == "DUPLICATE_KEY"
        assert version(wh) == 0

    def test_updates_need_keys(self, wh: Warehouse, lake: Path) -> None:
        wh.add_table("sales", path=lake, schema=SALES)
        put(lake / "a.parquet", [(1, "x", "update")], CHANGES)
        with pytest.raises(TempuraError) as error:
            wh.table("sales").df()
        assert code(error) == "NO_KEYS"

    def test_a_delete_of_a_missing_row_is_refused(self, wh: Warehouse, lake: Path) -> None:
        wh.add_table("sales", path=lake, schema=SALES)
        put(lake / "a.parquet", [(1, "x")])
        put(lake / "b.parquet", [(1, "y", "delete")], CHANGES, age=50)
        with pytest.raises(TempuraError) as error:
            wh.table("sales").df()
        assert code(error) == "DELETE_OF_MISSING"
        assert version(wh) == 1

    def test_append_only_takes_inserts_alone(self, wh: Warehouse, lake: Path) -> None:
        table = wh.add_table("sales", path=lake, schema=SALES, keys=["o_id"], append_only=True)
        put(lake / "a.parquet", [(1, "x", "insert"), (2, "x", "update")], CHANGES)
        assert held(table) == SignedBag.of([(1, "x"), (2, "x")])
        put(lake / "b.parquet", [(2, "y", "update")], CHANGES, age=50)
        with pytest.raises(TempuraError) as error:
            table.df()
        assert code(error) == "APPEND_ONLY"

    def test_a_file_that_does_not_fit_is_refused_before_the_others_arrive(self, wh: Warehouse, lake: Path) -> None:
        wh.add_table("sales", path=lake, schema=SALES)
        put(lake / "a.parquet", [(1, "x")])
        put(lake / "b.parquet", [("1", "x", "insert")], "o_id STRING, cat STRING, _change STRING", age=50)
        with pytest.raises(TempuraError, match=r"b\.parquet: column o_id has type string, but the table expects int"):
            wh.table("sales").df()
        assert version(wh) == 0

    def test_copies_do_not_free_the_files(self, wh: Warehouse, lake: Path) -> None:
        table = wh.add_table("sales", path=lake, schema=SALES)
        put(lake / "a.parquet", [(1, "x", "insert")], CHANGES)
        table.df()
        put(lake / "a.parquet", [(1, "y", "insert")], CHANGES, age=1)
        with pytest.raises(TempuraError) as error:
            table.df()
        assert code(error) == "FILE_CHANGED"
        (lake / "a.parquet").unlink()
        with pytest.raises(TempuraError) as error:
            table.df()
        assert code(error) == "FILE_GONE"

    def test_gc_keeps_copies(self, wh: Warehouse, lake: Path) -> None:
        table = wh.add_table("sales", path=lake, schema=SALES)
        put(lake / "a.parquet", [(1, "x")])
        put(lake / "b.parquet", [(1, "x", "delete"), (2, "y", "insert")], CHANGES, age=50)
        table.df()
        (wh.path / "tables/sales/data/left/inserted").mkdir(parents=True)
        assert wh.gc() == ("tables/sales/data/left",)
        assert held(table) == SignedBag.of([(2, "y")])


class TestUpsert:
    def test_rows_take_the_place_of_those_of_their_keys(self, wh: Warehouse) -> None:
        table = wh.add_table("sales", schema=SALES, keys=["o_id"])
        table.append([(1, "x"), (2, "x"), (None, "x")])  # type: ignore[arg-type]
        assert table.upsert([(2, "y"), (3, "y"), (None, "y")]) == 2  # type: ignore[arg-type]
        assert held(table) == SignedBag.of([(1, "x"), (2, "y"), (3, "y"), (None, "y")])

    def test_refusals(self, wh: Warehouse) -> None:
        with pytest.raises(TempuraError) as error:
            wh.add_table("plain", schema=SALES).upsert([(1, "x")])  # type: ignore[arg-type]
        assert code(error) == "NO_KEYS"
        table = wh.add_table("sales", schema=SALES, keys=["o_id"])
        with pytest.raises(TempuraError) as error:
            table.upsert([(1, "x"), (1, "y")])  # type: ignore[arg-type]
        assert code(error) == "DUPLICATE_KEY"
        assert version(wh) == 0


class TestTextFormats:
    def test_csv(self, wh: Warehouse, lake: Path) -> None:
        table = wh.add_table("sales", path=lake, format="csv", schema=SALES)
        (lake / "a.csv").write_text("o_id,cat\n1,x\n2,\n")
        (lake / "b.csv").write_text("cat,o_id,_change\ny,3,insert\nx,1,delete\n")
        aged(lake / "a.csv", 60)
        assert held(table) == SignedBag.of([(2, None), (3, "y")])
        assert version(wh) == 2

    def test_json(self, wh: Warehouse, lake: Path) -> None:
        table = wh.add_table("sales", path=lake, format="json", schema=SALES)
        (lake / "a.json").write_text("\n".join(json.dumps(row) for row in ({"o_id": 1, "cat": "x"}, {"o_id": 2})))
        (lake / "b.json").write_text(json.dumps({"o_id": 2, "_change": "delete"}))
        aged(lake / "a.json", 60)
        assert held(table) == SignedBag.of([(1, "x")])
        assert version(wh) == 2

    def test_the_time_zone_of_texts_is_pinned(self, wh: Warehouse, lake: Path) -> None:
        wh.add_table("sales", path=lake, format="csv", schema=SALES)
        engine = BagEngine(session={"spark.sql.session.timeZone": "Asia/Tokyo"})
        again = open_site(wh.path, engine, Files())
        again.add_table("sales", path=lake, format="csv", schema=SALES)
        assert again.status()["tables"]["sales"]["options"] == {"timeZone": "UTC"}

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("o_id\n1\n", "column cat is missing"),
            ("o_id,cat,price\n", "there is a column 'price'"),
            ("o_id,o_id,cat\n", "two columns have the name 'o_id'"),
        ],
    )
    def test_headers_that_do_not_fit(self, wh: Warehouse, lake: Path, text: str, what: str) -> None:
        wh.add_table("sales", path=lake, format="csv", schema=SALES)
        (lake / "a.csv").write_text(text)
        with pytest.raises(TempuraError, match=rf"a\.csv: {what}") as error:
            wh.table("sales").df()
        assert code(error) == "WRONG_SCHEMA"

    def test_headers_are_read_as_they_are_written(self, tmp_path: Path) -> None:
        file = tmp_path / "a.csv"
        file.write_bytes("\ufeff'o;id';cat\n".encode())
        assert header(file, {"sep": ";", "quote": "'"}, ["o;id", "cat"]) == ("o;id", "cat")
        file.write_bytes("# by hand\no_id,cät\n".encode("latin-1"))
        assert header(file, {"encoding": "latin-1", "comment": "#"}, ["o_id", "cät"]) == ("o_id", "cät")
        file.write_bytes(b"")
        assert header(file, {}, ["a"]) == ("a",)
        file.write_bytes(b"1,2\n")
        assert header(file, {"header": "false"}, ["a", "b"]) == ("a", "b")
        file.write_bytes(b"\xff\n")
        with pytest.raises(TempuraError, match="its header cannot be read"):
            header(file, {}, ["a"])


def test_files_lie_in_folders_of_the_same_columns(wh: Warehouse, lake: Path) -> None:
    wh.add_table("sales", path=lake, schema=SALES)
    put(lake / "a.parquet", [(1, "x")])
    put(lake / "cat=x" / "b.parquet", [(1,)], "o_id INT")
    with pytest.raises(TempuraError, match=r"its path spells cat, but that of a\.parquet spells no column") as error:
        wh.table("sales").df()
    assert code(error) == "WRONG_SCHEMA"


@pytest.mark.parametrize(
    ("type", "fit", "refused"),
    [
        (
            DateType(),
            ["2026-01-31", "2026-1-2", "2026", "12026-01-01", "__HIVE_DEFAULT_PARTITION__"],
            ["zz", "2026-02-30", "20260131"],
        ),
        (ByteType(), ["-128", "+7", "007"], ["300", "1.0", " 1", "x", ""]),
        (LongType(), ["9223372036854775807"], ["9223372036854775808", "1e3", "9" * 5000]),
        (DecimalType(5, 2), ["5.25", "-0.25", "00999.99", ".25"], ["5", "5.2", "5.250", "1000.00", "x", "."]),
        (DecimalType(3, 0), ["7", "-999"], ["1000", "7.0", "+", "1e2"]),
        (BooleanType(), ["true", "FALSE"], ["yes", "1"]),
        (StringType(), ["a%3Db", "x"], [""]),
        (TimestampType(), ["left to Spark"], [""]),
    ],
)
def test_paths_spell_values_of_their_columns(
    tmp_path: Path, type: DataType, fit: list[str], refused: list[str]
) -> None:
    schema = StructType([StructField("a b", type)])
    for value in fit:
        check_spelt(tmp_path, f"x/a%20b={value}/other=1/a.csv", schema)
    for value in refused:
        with pytest.raises(TempuraError, match=f"spells a b={re.escape(value)}, but the table expects") as error:
            check_spelt(tmp_path, f"a b={value}/a.csv", schema)
        assert code(error) == "WRONG_SCHEMA"


def test_a_folder_that_spells_no_value_of_its_column_is_refused_before_it_arrives(wh: Warehouse, lake: Path) -> None:
    table = wh.add_table("sales", path=lake, schema="o_id INT, day INT")
    put(lake / "day=7" / "a.parquet", [(1,)], "o_id INT")
    table.df()
    put(lake / "day=zz" / "b.parquet", [(1,)], "o_id INT")
    calls: list[Callable[[], object]] = [table.df, table.refresh]
    for call in calls:
        with pytest.raises(
            TempuraError, match=r"day=zz/b\.parquet: its path spells day=zz, but the table expects int"
        ) as error:
            call()
        assert code(error) == "WRONG_SCHEMA"
        assert error.value.remedy.startswith("Name the folder by such a value")
    assert version(wh) == 1


def test_a_file_with_a_colon_in_its_name_is_refused(wh: Warehouse, lake: Path) -> None:
    table = wh.add_table("sales", path=lake, schema=SALES)
    put(lake / "10:00" / "a.parquet", [(1, "x")])
    assert held(table) == SignedBag.of([(1, "x")])
    put(lake / "x:y.parquet", [(1, "x")])
    with pytest.raises(
        TempuraError, match=r"x:y\.parquet, for there is a colon in its name\. Rename the file"
    ) as error:
        table.df()
    assert code(error) == "UNSUPPORTED_PATH"


def test_columns_that_differ_in_case_only_are_refused(wh: Warehouse, lake: Path) -> None:
    table = wh.add_table("sales", path=lake, schema=SALES)
    put(lake / "a.parquet", [(1, "x", 2)], "o_id INT, cat STRING, CAT INT")
    with pytest.raises(
        TempuraError, match=r"a\.parquet: there are columns cat, CAT, which Spark cannot tell apart"
    ) as error:
        table.df()
    assert code(error) == "WRONG_SCHEMA"
    assert version(wh) == 0


def test_compressed_files_whose_header_cannot_be_read(wh: Warehouse, lake: Path) -> None:
    table = wh.add_table("sales", path=lake, format="csv", schema=SALES)
    for data in (b"o_id,cat\n1,x\n", gzip.compress(b"o_id,cat\n1,x\n")[:12]):
        (lake / "a.csv.gz").write_bytes(data)
        with pytest.raises(TempuraError, match=r"a\.csv\.gz cannot be read") as error:
            table.df()
        assert code(error) == "FILE_UNREADABLE"
        assert error.value.remedy == "Write it again whole, or take it out of the folder."
