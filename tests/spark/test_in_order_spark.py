"""Files of changes that come together come to what they come to one after the other, or are taken one by one."""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura import Warehouse
from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.engine import Changes, FileSet, OneByOneError, Source
from tempura.warehouse.spark.in_order import changes_in_order
from tempura.warehouse.spark.told import split
from tempura.warehouse.table import Table

Row = tuple[int | None, str | None, int | None]
Change = tuple[Row, str]
File = Sequence[Change]

COLUMNS = "k INT, name STRING, n BIGINT"
_TYPES = {"k": pa.int32(), "name": pa.string(), "n": pa.int64()}


def write(path: Path, changes: File) -> str:
    columns = {name: pa.array([row[i] for row, _ in changes], type) for i, (name, type) in enumerate(_TYPES.items())}
    columns["_change"] = pa.array([kind for _, kind in changes], pa.string())
    pq.write_table(pa.table(columns), path)
    return str(path)


def come_to(
    spark: SparkSession, folder: Path, files: Sequence[File], present: Sequence[Row], keys: Sequence[str]
) -> Changes:
    schema = spark.createDataFrame([], COLUMNS).schema
    paths = tuple(write(folder / f"{i} +%2B.parquet", file) for i, file in enumerate(files))
    there = write(folder / "there.parquet", [(row, "") for row in present])
    told = FileSet("t", schema, "parquet", {}, paths, None)
    return split(changes_in_order(spark, told, Source(schema, Rows((there,))), keys))


def applied(changes: Changes, present: Sequence[Row], keyed: bool) -> Counter[Row]:
    """The rows that are there after some changes, by what they are said to mean."""
    inserts, deletes, updates = (
        [] if side is None else [(r["k"], r["name"], r["n"]) for r in side.collect()]
        for side in (changes.inserts, changes.deletes, changes.updates)
    )
    now = Counter(present)
    now.update(inserts)
    now.subtract(deletes)
    assert min(now.values(), default=0) >= 0, "a row is deleted that is not there"
    replaced = {row[0] for row in updates}
    now = Counter({row: n for row, n in now.items() if n and not (keyed and row[0] in replaced)})
    now.update(updates)
    assert not keyed or max(Counter(row[0] for row in now.elements()).values(), default=0) <= 1, "a key is there twice"
    return now


def random_row(rng: random.Random, key: int | None) -> Row:
    return key, rng.choice((None, "a", "b")), rng.choice((None, 1, 2))


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_by_key(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    keys: list[int | None] = [None, *range(120)]
    now: dict[int | None, Row] = {key: random_row(rng, key) for key in keys if rng.random() < 0.5}
    present = list(now.values())
    files = []
    for _ in range(rng.choice((2, 5))):
        file: list[Change] = []
        for key in rng.sample(keys, 60):
            row, was = random_row(rng, key), now.get(key)
            moves: list[list[Change]] = [[(row, "update")]]
            moves += [[(row, "insert")]] if was is None else []
            moves += (
                [[(was, "delete")], [(was, "delete"), (row, "insert")], [(was, "delete"), (row, "update")]]
                if was
                else []
            )
            move = rng.choice(moves)
            file += move
            now.pop(key, None)
            if move[-1][1] != "delete":
                now[key] = row
        files.append(rng.sample(file, len(file)))
    changes = come_to(spark, tmp_path, files, present, ["k"])
    assert applied(changes, present, True) == Counter(now.values())


@pytest.mark.parametrize("seed", range(2))
def test_random_changes_by_row(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = [random_row(rng, key) for key in (None, *range(8)) for _ in range(4)]
    now = Counter(rng.choices(rows, k=60))
    present = list(now.elements())
    gone = set[Row]()
    files = []
    for _ in range(4):
        inserts = [row for row in rng.choices(rows, k=15) if row not in gone]
        now.update(inserts)
        deletes = rng.sample(list(now.elements()), 12)
        now.subtract(deletes)
        gone |= set(deletes)
        files.append([*((row, "insert") for row in inserts), *((row, "delete") for row in deletes)])
    changes = come_to(spark, tmp_path, files, present, [])
    assert applied(changes, present, False) == +now


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return tp.open(tmp_path / "wh", spark=spark)


def in_turn(files: Sequence[File], present: Sequence[Row], keyed: bool) -> Counter[Row] | None:
    """The rows that are there when the files have come one after the other; None when one of them is refused."""
    now = Counter(present)
    for file in files:
        rows = {kind: [row for row, told in file if told == kind] for kind in ("insert", "delete", "update")}
        now.update(rows["insert"])
        now.subtract(rows["delete"])
        if min(now.values(), default=0) < 0 or (rows["update"] and not keyed):
            return None
        replaced = {row[0] for row in rows["update"]}
        now = Counter({row: n for row, n in now.items() if n and row[0] not in replaced})
        now.update(rows["update"])
        if keyed and max(Counter(row[0] for row in now.elements()).values(), default=0) > 1:
            return None
    return now


@pytest.mark.parametrize(("keys", "seed"), [(["k"], 1), (["k"], 2), ([], 3)])
def test_nothing_is_taken_that_would_be_refused(
    spark: SparkSession, tmp_path: Path, keys: list[str], seed: int
) -> None:
    """Of changes at random few fit. What they come to together is what they come to in turn, or is refused, here or by what looks at
    arrivals."""
    rng = random.Random(seed)
    rows: list[Row] = [(1, "a", 1), (1, "b", 1), (2, None, 1)]
    kinds = ["insert", "delete", "delete", "update"] if keys else ["insert", "delete"]
    outcomes = Counter[str]()
    for case in range(12):
        present = rng.sample(rows, 1) if rng.random() < 0.5 else []
        files = [[(row, rng.choice(kinds)) for row in rng.sample(rows, rng.choice((0, 1, 1, 2)))] for _ in range(3)]
        wanted = in_turn(files, present, bool(keys))
        folder = tmp_path / str(case)
        folder.mkdir()
        try:
            found = applied(come_to(spark, folder, files, present, keys), present, bool(keys))
        except OneByOneError:
            outcomes["one by one"] += 1
        except AssertionError:
            assert wanted is None, (present, files)
            outcomes["refused"] += 1
        else:
            assert wanted is not None, (present, files)
            assert found == +wanted
            outcomes["together"] += 1
    assert outcomes["together"], outcomes
    assert outcomes["one by one"] + outcomes["refused"], outcomes


A, B, C = (1, "a", 1), (1, "b", None), (1, "a", None)


@pytest.mark.parametrize(
    ("present", "files"),
    [
        pytest.param([], [[(A, "insert")], [(B, "insert")]], id="the key is there since the file before"),
        pytest.param([], [[(A, "insert")], [(C, "delete")]], id="another row was left under the key"),
        pytest.param([A], [[(A, "delete")], [(A, "delete")]], id="the row has left before"),
        pytest.param([A], [[(B, "update"), (C, "update")], [(A, "update")]], id="two updates in one file"),
        pytest.param([A], [[(A, "delete"), (A, "delete")], [(A, "update")]], id="twice deleted in one file"),
        pytest.param([A], [[(B, "insert")], [(B, "delete")]], id="a key that passes was there"),
        pytest.param([], [[(A, "delete")], [(A, "insert")]], id="a row that comes back was not there"),
        pytest.param([B], [[(A, "delete")], [(A, "update")]], id="a row that comes back was another"),
        pytest.param([A], [[(B, "update")], [(B, "replace")]], id="another value of _change"),
    ],
)  # fmt: skip
def test_what_does_not_fit_by_key(spark: SparkSession, tmp_path: Path, present: list[Row], files: list[File]) -> None:
    with pytest.raises(OneByOneError):
        come_to(spark, tmp_path, files, present, ["k"])


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([[(A, "delete")], [(A, "insert")]], id="the row comes after it has left"),
        pytest.param([[(A, "insert")], [(B, "update")]], id="no keys to find a row by"),
        pytest.param([[(A, "insert")], [(B, None)]], id="no value of _change"),
    ],
)
def test_what_does_not_fit_by_row(spark: SparkSession, tmp_path: Path, files: list[File]) -> None:
    with pytest.raises(OneByOneError):
        come_to(spark, tmp_path, files, [], [])


@pytest.mark.parametrize("keys", [["k"], []])
def test_rows_of_a_file_that_is_not_found_among_the_files(spark: SparkSession, tmp_path: Path, keys: list[str]) -> None:
    """Spark writes a path in one way, by which rows are told their file."""
    write(tmp_path / "a.parquet", [(A, "insert")])
    schema = spark.createDataFrame([], COLUMNS).schema
    told = FileSet("t", schema, "parquet", {}, (f"{tmp_path}/./a.parquet", f"{tmp_path}/./a.parquet"), None)
    with pytest.raises(OneByOneError):
        changes_in_order(spark, told, Source(schema, Rows()), keys)


def test_a_key_that_passes_and_files_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    passing = come_to(spark, tmp_path, [[(A, "insert")], [(B, "update")], [(B, "delete")]], [(2, "a", 1)], ["k"])
    assert passing.is_empty
    assert come_to(spark, tmp_path, [[(A, "delete")], [(A, "insert")]], [A], ["k"]).is_empty
    assert come_to(spark, tmp_path, [[], []], [A], ["k"]).is_empty
    assert come_to(spark, tmp_path, [[], []], [A], []).is_empty


@pytest.mark.parametrize("type", ["DOUBLE", "MAP<STRING, INT>", "STRING COLLATE UTF8_LCASE"])
def test_values_whose_equality_is_not_identity_come_one_by_one(
    wh: Warehouse, spark: SparkSession, tmp_path: Path, type: str
) -> None:
    value = {"DOUBLE": "1D", "MAP<STRING, INT>": "map('a', 1)"}.get(type, "'a'")
    table = wh.add_table("t", path=tmp_path / "t", schema=f"k INT, v {type}", keys=["k"])
    stored = "STRING" if "COLLATE" in type else type
    for i, kind in enumerate(("insert", "update", "delete")):
        frame = spark.sql(f"SELECT 1 k, CAST({value} AS {stored}) v, '{kind}' _change")
        frame.coalesce(1).write.mode("append").parquet(str(tmp_path / "t"))
        for path in (tmp_path / "t").glob("part-*.parquet"):
            if path.stat().st_mtime > 1e9:
                os.utime(path, (i + 1, i + 1))
    assert table.df().count() == 0
    assert len(table.arrivals.arrivals()) == 3


def _stamp(path: Path, age: int) -> None:
    os.utime(path, (time.time() - age,) * 2)


@pytest.mark.parametrize("format", ["csv", "json"])
def test_texts_that_wait_are_one_arrival(wh: Warehouse, tmp_path: Path, format: str) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    table = wh.add_table("t", path=lake, format=format, schema="k INT, name STRING", keys=["k"])
    query = wh.add_query("q", "SELECT name, count(*) AS n FROM t GROUP BY name")

    def put(name: str, age: int, *rows: tuple[int, str, str]) -> None:
        lines = [json.dumps({"k": k, "name": n, "_change": c}) for k, n, c in rows]
        if format == "csv":
            lines = ["k,_change,name", *(f"{k},{c},{n}" for k, n, c in rows)]
        (lake / name).write_text("\n".join(lines))
        _stamp(lake / name, age)

    put("c", 90, (1, "a", "insert"), (2, "a", "insert"), (3, "b", "insert"))
    query.run()
    put("b", 80, (1, "c", "update"), (2, "a", "delete"))
    put("a", 70, (1, "d", "update"), (2, "e", "insert"), (4, "e", "insert"))
    query.run()
    assert query.verify()
    assert sorted(map(tuple, table.df().collect())) == [(1, "d"), (2, "e"), (3, "b"), (4, "e")]
    assert [len(a.origins) for a in table.arrivals.arrivals()] == [1, 2]
    put("d", 60, (3, "b", "delete"))
    put("e", 50, (3, "b", "delete"))
    with pytest.raises(TempuraError, match="a row to be deleted is not there"):
        query.run()
    assert _origins(table) == [["c"], ["b", "a"], ["d"]]


def _origins(table: Table) -> list[list[str]]:
    return [[Path(o.path).name for o in a.origins] for a in table.arrivals.arrivals()]
