"""Declarations in tempura.toml, and what Parquet files say of themselves."""

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tempura.cost.stats import number
from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, ColumnSummary
from tempura.warehouse.batches.parquet import inspect, partition_columns, spark_type
from tempura.warehouse.batches.sample import sketches_of
from tempura.warehouse.commits.files import Files
from tempura.warehouse.declared.declare import DeclarationFile, QuerySpec, TableSpec, check_name
from tempura.warehouse.sources.folder import data_files
from tempura.warehouse.tables.facts import column_stats
from tempura.warehouse.times.schedule import Schedule


@pytest.fixture
def declarations(tmp_path: Path) -> DeclarationFile:
    return DeclarationFile(tmp_path / "tempura.toml", tmp_path / "lock", Files())


class TestDeclarations:
    def test_round_trip(self, declarations: DeclarationFile) -> None:
        table = TableSpec("a INT", "lake", keys=("a",), static=True, settle=2.5)
        declarations.put_table("t", table)
        declarations.put_table("m", TableSpec("a INT", append_only=True))
        for name, sql in {
            "one": "SELECT 1",
            "two": "SELECT 'x'\nFROM t",
            "three": "SELECT\n\t'''q'''",
            "four": "a\n'b'",
        }.items():
            declarations.put_query(name, QuerySpec(Schedule.progressive({"24:00": 1}), sql))
            assert declarations.read().queries[name].sql == sql
        declarations.put_query("df", QuerySpec(Schedule.view(3), fingerprint="abc"))
        found = declarations.read()
        assert found.tables == {"t": table, "m": TableSpec("a INT", append_only=True)}
        assert found.queries["df"] == QuerySpec(Schedule.view(3), fingerprint="abc")

    @pytest.mark.parametrize("relative", [True, False])
    def test_a_symbolic_link_is_written_through(self, tmp_path: Path, relative: bool) -> None:
        kept = tmp_path / "repository"
        (tmp_path / "wh").mkdir()
        kept.mkdir()
        link = tmp_path / "wh/tempura.toml"
        link.symlink_to("../repository/ours.toml" if relative else kept / "ours.toml")
        declarations = DeclarationFile(link, tmp_path / "lock", Files())
        declarations.make()
        declarations.put_table("t", TableSpec("a INT"))
        assert link.is_symlink()
        assert [path.name for path in kept.iterdir()] == ["ours.toml"]
        assert "[tables.t]" in (kept / "ours.toml").read_text()
        assert list(declarations.read().tables) == ["t"]

    def test_a_link_into_a_folder_that_is_not_there_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "tempura.toml").symlink_to("gone/ours.toml")
        with pytest.raises(TempuraError, match=r"no folder .*gone") as error:
            DeclarationFile(tmp_path / "tempura.toml", tmp_path / "lock", Files()).make()
        assert error.value.code == "BAD_TOML"
        assert (tmp_path / "tempura.toml").is_symlink()

    def test_edits_keep_comments_and_other_entries(self, declarations: DeclarationFile) -> None:
        text = '# ours\n[tables.t] # the facts\nschema = "a INT" # one column\n'
        declarations.path.write_text(text)
        declarations.put_query("q", QuerySpec(Schedule.view(), "SELECT\n1"))
        declarations.put_query("q", QuerySpec(Schedule.view(5), "SELECT\n2"))
        after = declarations.path.read_text()
        assert after.startswith(text)
        assert "SELECT\n2" in after
        assert "SELECT\n1" not in after
        assert list(declarations.path.parent.glob(".*.tmp")) == []

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("[tables.t", "BAD_TOML"),
            ("[tables.t]\npath = 'x'", "BAD_TOML"),
            ("[tables.t]\nschema = 'a INT'\nsortkey = 'a'", "BAD_TOML"),
            ("[tables.'../t']\nschema = 'a INT'", "BAD_NAME"),
            ("[queries.q]\nschedule = {kind = 'view'}", "BAD_TOML"),
            ("[queries.q]\nsql = 'x'\nschedule = {kind = 'never'}", "BAD_SCHEDULE"),
        ],
    )
    def test_a_wrong_file_is_refused(self, declarations: DeclarationFile, text: str, code: str) -> None:
        declarations.path.write_text(text)
        with pytest.raises(TempuraError) as error:
            declarations.read()
        assert error.value.code == code

    @pytest.mark.parametrize("name", ["", "../x", "a/b", "a.b", "1a", "a b", "a\n", "ä", "x" * 101])
    def test_hostile_names_are_refused(self, name: str) -> None:
        with pytest.raises(TempuraError) as error:
            check_name("table", name)
        assert error.value.code == "BAD_NAME"


def schema(**types: DataType) -> StructType:
    return StructType([StructField(name, type) for name, type in types.items()])


class TestFooters:
    def write(self, folder: Path, **columns: pa.Array) -> Path:
        path = folder / "f.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=3)
        return path

    def test_statistics_over_row_groups(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path,
            i=pa.array([5, None, 3, 9, 9], pa.int32()),
            d=pa.array([date(1970, 1, 2)] * 5),
            m=pa.array([Decimal("1.50")] * 5, pa.decimal128(7, 2)),
            s=pa.array(["a", "b", "b", "b", None]),
        )
        types = schema(i=IntegerType(), d=DateType(), m=DecimalType(7, 2), s=StringType())
        found = inspect(path, types)
        assert found.rows == 5
        assert all(column.bytes > 0 for column in found.columns.values())
        counted = {name: replace(column, bytes=0) for name, column in found.columns.items()}
        assert counted["i"] == ColumnSummary(nulls=1, low=3.0, high=9.0)
        assert (found.columns["d"].low, found.columns["m"].high) == (1.0, 1.5)
        assert counted["s"] == ColumnSummary(nulls=1)

    @pytest.mark.parametrize(
        ("expected", "told"),
        [
            (schema(i=LongType()), "column i has type int, but the table expects bigint"),
            (schema(i=IntegerType(), j=IntegerType()), "column j is missing"),
            (schema(I=IntegerType()), "column I is missing"),
        ],
    )
    def test_a_wrong_schema_is_named(self, tmp_path: Path, expected: StructType, told: str) -> None:
        path = self.write(tmp_path, i=pa.array([1], pa.int32()))
        with pytest.raises(TempuraError, match="WRONG_SCHEMA") as error:
            inspect(path, expected)
        assert str(path) in error.value.what
        assert told in error.value.what

    def test_partition_columns_are_not_looked_for_in_the_file(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, i=pa.array([1], pa.int32()))
        found = inspect(path, schema(i=IntegerType(), day=StringType()), partitions=("day",))
        assert set(found.columns) == {"i"}

    def test_what_is_not_parquet_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "x.parquet"
        path.write_text("id,name")
        with pytest.raises(TempuraError) as error:
            inspect(path, schema(i=IntegerType()))
        assert error.value.code == "NOT_PARQUET"

    def test_types_as_spark_reads_them(self) -> None:
        assert spark_type(pa.struct([("a", pa.list_(pa.int64())), ("b", pa.map_(pa.string(), pa.float32()))])) == (
            "struct<a:array<bigint>,b:map<string,float>>"
        )
        assert spark_type(pa.dictionary(pa.int8(), pa.large_string())) == "string"
        assert spark_type(pa.timestamp("us", "UTC")) == "timestamp"
        assert spark_type(pa.timestamp("us")) == "timestamp_ntz"
        assert spark_type(pa.timestamp("ns")) is None
        assert spark_type(pa.list_(pa.time64("us"))) is None

    def test_numbers(self) -> None:
        assert number(float("inf")) is None
        assert number(True) is None
        assert number(datetime(1970, 1, 1, 0, 0, 1)) == 1e6

    def test_of_a_column_that_was_not_looked_at_each_row_may_have_its_own_value(self) -> None:
        assert ColumnSummary(nulls=100).stats(1000, step=None).distinct == 900
        assert ColumnSummary(low=1.0, high=50.0).stats(1000, step=1.0).distinct == 50


class TestDistinctValues:
    """Estimated from 10,000 of 200,000 rows, whatever their order: within a factor of two."""

    ROWS = 200_000

    def estimated(self, folder: Path, values: pa.Array, type: DataType) -> float:
        file, whole = folder / "f.parquet", schema(x=type)
        pq.write_table(pa.table({"x": values}), file)
        found = inspect(file, whole)
        sketches = sketches_of([file], found.rows, whole.names)
        return column_stats(found.columns, whole, found.rows, sketches)["x"].distinct

    @pytest.mark.parametrize("each", [1, 4, 100, 2_000, 20_000, 200_000])
    @pytest.mark.parametrize("order", ["sorted", "shuffled"])
    def test_of_numbers(self, tmp_path: Path, each: int, order: str) -> None:
        values = [7 * (i // each) for i in range(self.ROWS)]
        if order == "shuffled":
            Random(each).shuffle(values)
        found = self.estimated(tmp_path, pa.array(values, pa.int64()), LongType())
        assert self.ROWS / each / 2 <= found <= self.ROWS / each * 2

    @pytest.mark.parametrize("each", [1, 4, 100, 1_000])
    def test_of_sorted_text(self, tmp_path: Path, each: int) -> None:
        found = self.estimated(tmp_path, pa.array([f"{i // each:09}" for i in range(self.ROWS)]), StringType())
        assert self.ROWS / each / 2 <= found <= self.ROWS / each * 2

    def test_of_nothing_but_nulls(self, tmp_path: Path) -> None:
        assert self.estimated(tmp_path, pa.array([None] * 10, pa.int64()), LongType()) == 1


def test_what_manifests_of_format_2_say_of_samples_is_left_out() -> None:
    footer = {"nulls": 1, "low": 0.0, "high": 9.0, "bytes": 80}
    sample = {"sample": 10, "distinct": 9, "once": 8, "clustered": False}
    manifest = Arrival((), (), schema="x BIGINT").to_json()
    of_before = Arrival.from_json(manifest | {"columns": {"x": footer | sample}})
    assert of_before == Arrival.from_json(manifest | {"columns": {"x": footer}})
    assert of_before.columns["x"] == ColumnSummary(nulls=1, low=0.0, high=9.0, bytes=80)


def test_files_that_count(tmp_path: Path) -> None:
    for name in (
        "b.parquet",
        "a.parquet",
        "_SUCCESS",
        ".x.crc",
        "_temporary/0/c.parquet",
        ".hidden/d.parquet",
        "day=1/e.parquet",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [str(p.relative_to(tmp_path)) for p in data_files(tmp_path)] == ["a.parquet", "b.parquet", "day=1/e.parquet"]
    assert partition_columns("day=1/k%20x=2/e.parquet") == ("day", "k x")
