"""Rows of which a column says what happens to each: what they come to, that they are looked at once, and what is refused."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tempura as tp
from tempura import Schedule, Warehouse
from tempura.errors import TempuraError
from tempura.execute.metrics import Meter
from tempura.warehouse.table import Table
from tempura.warehouse.tables.take import register

Row = tuple[int | None, str | None, int | None]
Change = tuple[Row, str]

COLUMNS = "k INT, s STRING, n BIGINT"
_TYPES = {"k": pa.int32(), "s": pa.string(), "n": pa.int64()}
_PLACES = {name: i for i, name in enumerate(_TYPES)}


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return tp.open(tmp_path / "wh", spark=spark)


def write(path: Path, changes: Sequence[Change]) -> None:
    columns = {name: pa.array([row[i] for row, _ in changes], type) for i, (name, type) in enumerate(_TYPES.items())}
    columns["_change"] = pa.array([kind for _, kind in changes], pa.string())
    pq.write_table(pa.table(columns), path)


def key_of(row: Row, keys: Sequence[str]) -> tuple[object, ...]:
    return tuple(row[_PLACES[key]] for key in keys)


def applied(there: Counter[Row], changes: Sequence[Change], keys: Sequence[str]) -> Counter[Row] | str:
    """The rows that are there after some changes, by what they are said to mean; or why they are refused."""
    by_kind: Mapping[str, Counter[Row]] = {
        kind: Counter(row for row, told in changes if told == kind) for kind in ("insert", "delete", "update")
    }
    now = Counter(there)
    now.update(by_kind["insert"])
    now.subtract(by_kind["delete"])
    updated = {key_of(row, keys) for row in by_kind["update"]}
    now = Counter({row: min(n, 0) if key_of(row, keys) in updated else n for row, n in now.items()})
    now.update(by_kind["update"])
    if min(now.values(), default=0) < 0:
        return "DELETE_OF_MISSING"
    counts = Counter(key_of(row, keys) for row in now.elements()) if keys else Counter[tuple[object, ...]]()
    return "DUPLICATE_KEY" if max(counts.values(), default=0) > 1 else +now


def random_row(rng: random.Random) -> Row:
    return rng.choice((None, *range(30))), rng.choice((None, "a", "b")), rng.choice((None, 1))


def random_changes(rng: random.Random, there: Counter[Row], keys: Sequence[str]) -> list[Change]:
    """Changes most of which can be: few of a key, and deletes of rows that are there."""
    found: dict[tuple[object, ...], Change] = {}
    rows = [*there.elements()]
    for _ in range(rng.choice((1, 3, 6))):
        kinds = ("insert", "delete", "update") if keys else ("insert", "insert", "delete")
        kind = rng.choice(kinds) if rows else "insert"
        row = rng.choice(rows) if kind == "delete" and rng.random() < 0.9 else random_row(rng)
        found[key_of(row, keys) if keys else (len(found),)] = row, kind
    more = [(random_row(rng), rng.choice(("insert", "delete")))] if rng.random() < 0.2 else []
    return [*found.values(), *more]


@pytest.mark.parametrize("keys", [("k",), ("s", "k"), ()])
@pytest.mark.parametrize("is_managed", [True, False])
def test_random_changes(
    spark: SparkSession, wh: Warehouse, tmp_path: Path, keys: tuple[str, ...], is_managed: bool
) -> None:
    """Those of a managed table are noted with their places, those of a folder are not."""
    check_random_changes(spark, wh, tmp_path / "lake", keys, is_managed)


@pytest.mark.parametrize("is_managed", [True, False])
def test_random_changes_that_are_too_many_to_be_sent(
    spark: SparkSession, wh: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_managed: bool
) -> None:
    monkeypatch.setattr("tempura.warehouse.spark.rows._SENT_BYTES", -1)
    check_random_changes(spark, wh, tmp_path / "lake", ("k",), is_managed)


def check_random_changes(
    spark: SparkSession, wh: Warehouse, lake: Path, keys: tuple[str, ...], is_managed: bool
) -> None:
    rng = random.Random(f"{keys} {is_managed}")
    lake.mkdir()
    table = (
        wh.add_table("t", schema=COLUMNS, keys=keys)
        if is_managed
        else wh.add_table("t", schema=COLUMNS, keys=keys, path=lake)
    )
    there = Counter[Row]()
    outcomes = Counter[str]()
    for n in range(18):
        changes = random_changes(rng, there, keys)
        file = lake / f"{n}.parquet"
        write(file, changes)
        expected = applied(there, changes, keys)
        take = partial(taken, table, spark.read.parquet(f"file:{file}") if is_managed else None)
        if isinstance(expected, str):
            with pytest.raises(TempuraError, match=expected):
                take()
            file.unlink()
            outcomes[expected] += 1
        else:
            take()
            there = expected
            outcomes["done"] += 1
        assert Counter(map(tuple, table.df().collect())) == there, (changes, there)
    assert outcomes["done"] > 4
    assert len(outcomes) > 1


def taken(table: Table, changes: DataFrame | None) -> None:
    """Let changes arrive that are pushed, or else what waits."""
    register(table.arrivals) if changes is None else table.apply(changes)


def folders(table: Table) -> list[Path]:
    copies = table.arrivals.shelf.copies
    return [*copies.rglob("*")] if copies.exists() else []


def test_what_is_of_no_kind_is_refused(spark: SparkSession, wh: Warehouse) -> None:
    """Also what file systems do not tell apart: other letters, and an empty name."""
    table = wh.add_table("t", schema="k INT", keys=["k"])
    for value, told in (("'move'", "'move'"), ("'INSERT'", "'INSERT'"), ("''", "''"), ("NULL", "None"), ("'0'", "'0'")):
        changes = spark.sql(f"SELECT 1 AS k, 'insert' AS _change UNION ALL SELECT 2, {value}")
        with pytest.raises(TempuraError) as error:
            table.apply(changes)
        assert error.value.code == "BAD_CHANGE"
        assert error.value.what == f"Column _change has the value {told}, not insert, delete or update."
    assert table.status()["version"] == 0
    assert not folders(table)


def test_no_changes_are_an_arrival_without_files(spark: SparkSession, wh: Warehouse) -> None:
    table = wh.add_table("t", schema="k INT", keys=["k"])
    table.apply(spark.createDataFrame([], "k INT, _change STRING"))
    assert table.status()["version"] == 1
    assert not folders(table)
    table.apply(spark.sql("SELECT 1 AS k, 'update' AS _change"))
    assert [tuple(row) for row in table.df().collect()] == [(1,)]


def test_rows_are_looked_at_once(spark: SparkSession, wh: Warehouse) -> None:
    """Those that are another each time: what is of one kind in one look is of no other in the next."""
    table = wh.add_table("t", schema="k BIGINT, v DOUBLE")
    table.append(spark.sql("SELECT -1L AS k, 0D AS v"))
    kind = "CASE WHEN v < 0.5 THEN 'insert' ELSE 'delete' END"
    changes = spark.sql(f"SELECT k, v, {kind} AS _change FROM (SELECT id AS k, rand() AS v FROM range(200))")
    table.apply(changes, trust=True)
    arrival = table.arrivals.committed()[-1]
    files = [
        [pq.read_table(table.arrivals.shelf.copies / f.path) for f in side]
        for side in (arrival.inserted, arrival.deleted)
    ]
    inserted, deleted = (pa.concat_tables(side).to_pydict() for side in files)
    assert sorted(inserted["k"] + deleted["k"]) == list(range(200))
    assert max(inserted["v"]) < 0.5 <= min(deleted["v"])


def test_types_of_changes_are_those_of_other_rows(spark: SparkSession, wh: Warehouse) -> None:
    """They are checked, widened and matched by name."""
    table = wh.add_table("t", schema="a BIGINT, `b c` DECIMAL(12,2)", keys=["a"])
    table.apply(spark.sql("SELECT 'insert' AS _change, CAST(2 AS SMALLINT) AS `b c`, 1 AS a"))
    assert [tuple(map(str, row)) for row in table.df().collect()] == [("1", "2.00")]
    for wrong, told in (("'x' AS a, 1 AS `b c`", "column a has type string"), ("1 AS a", "column b c is missing")):
        with pytest.raises(TempuraError, match=told):
            table.apply(spark.sql(f"SELECT 'insert' AS _change, {wrong}"))
    with pytest.raises(TempuraError, match="there is no column d"):
        table.apply(spark.sql("SELECT 'insert' AS _change, 1 AS a, 1 AS `b c`, 2 AS d"))


@pytest.mark.parametrize(("kinds", "most"), [(("insert", "update"), 4), (("insert", "update", "delete"), 5)])
def test_few_jobs_take_a_file_of_changes(
    spark: SparkSession, wh: Warehouse, tmp_path: Path, kinds: tuple[str, ...], most: int
) -> None:
    """One writes rows of all kinds; bounds and keys are looked up without any; what is there is looked through once."""
    lake = tmp_path / "lake"
    lake.mkdir()
    write(lake / "0.parquet", [((k, "a", 1), "insert") for k in range(100)])
    table = wh.add_table("t", schema=COLUMNS, keys=["k"], path=lake)
    register(table.arrivals)
    for n in (1, 2):
        rows = {"insert": (100 + n, "b", n), "update": (n, "b", 2), "delete": (10 + n, "a", 1)}
        write(lake / f"{n}.parquet", [(rows[kind], kind) for kind in kinds])
        with Meter(spark.sparkContext) as meter:
            register(table.arrivals)
        assert meter.usage.jobs <= most
    assert table.df().count() == (100 if "delete" in kinds else 102)
    query = wh.add_query("q", sql="SELECT s, count(*) AS n FROM t GROUP BY s", schedule=Schedule.view())
    query.run()
    assert query.verify()
