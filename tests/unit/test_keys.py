"""Keys that are counted in files by the driver: as often as counting says, whatever the type, NULLs, row groups and deletions."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    BinaryType,
    CharType,
    DataType,
    DateType,
    DoubleType,
    StringType,
    StructType,
    TimestampType,
)

from tempura.warehouse.batches import keys
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.batches.keys import Extremes, Keyed, Partners, are_unique, extremes, partners

Key = tuple[Any, ...]
INTS = StructType().add("a", "integer")
MIXED = StructType().add("a", "long").add("b", "string").add("c", "decimal(5,2)").add("d", "date")
ARROW = {"a": pa.int64(), "b": pa.string(), "c": pa.decimal128(5, 2), "d": pa.date32()}


class Files:
    """Files of keys, of four rows a row group."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def of(self, found: Sequence[Key], schema: pa.Schema) -> tuple[str, ...]:
        self._count += 1
        path = self._folder / f"{self._count}.parquet"
        columns = [pa.array([key[i] for key in found], schema.field(i).type) for i in range(len(schema))]
        pq.write_table(pa.table(columns, schema=schema), path, row_group_size=4)
        return (str(path),)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def drawn(random: Random, names: str, values: int) -> Key:
    of: dict[str, Callable[[int], Any]] = {
        "a": lambda n: n * 1_000_000_007,
        "b": lambda n: "ä" * n,
        "c": lambda n: Decimal(n) / 4,
        "d": lambda n: date.fromordinal(738_000 + n),
    }
    return tuple(None if random.random() < 0.1 else of[name](random.randrange(values)) for name in names)


@pytest.mark.parametrize("names", ["a", "b", "c", "d", "ab", "bad", "cdab"])
def test_keys_are_unique_as_counting_says(files: Files, names: str) -> None:
    random, schema = Random(7), pa.schema([(name, ARROW[name]) for name in names])
    outcomes = Counter[bool]()
    for _ in range(40):
        values = {1: 40, 2: 8, 3: 4, 4: 2}[len(names)]
        there = [drawn(random, names, values) for _ in range(10)]
        came = [drawn(random, names, values) for _ in range(random.randrange(1, 4))]
        gone = random.sample(there, random.randrange(4))
        net = Counter(there + came)
        net.subtract(gone)
        unique = max(net[key] for key in came) <= 1
        outcomes[unique] += 1
        present = Rows(files.of(there[:5], schema) + files.of(there[5:], schema), files.of(gone, schema))
        assert are_unique(Keyed(MIXED, present, names), Keyed(MIXED, Rows(files.of(came, schema)), names)) == unique
    assert min(outcomes.values()) > 5
    assert len(outcomes) == 2


def test_what_comes_and_goes_with_one_arrival_is_counted_off(files: Files) -> None:
    schema = pa.schema([("a", pa.int32())])
    present, one = Rows(files.of([(1,)], schema)), files.of([(1,)], schema)
    assert not are_unique(Keyed(INTS, present, "a"), Keyed(INTS, Rows(one), "a"))
    assert are_unique(Keyed(INTS, present, "a"), Keyed(INTS, Rows(one, one), "a"))


@pytest.mark.parametrize("names", ["a", "b", "ab", "dc"])
def test_partners_are_found_as_counting_says(files: Files, names: str) -> None:
    random, schema = Random(11), pa.schema([(name, ARROW[name]) for name in names])
    outcomes = Counter[Partners]()
    for _ in range(40):
        there = [drawn(random, names, 4) for _ in range(12 if len(names) > 1 else 5)]
        gone = random.sample(there, random.choice((0, 0, 1)))
        came = [drawn(random, names, 4) for _ in range(random.randrange(1, 4))]
        net = Counter(there)
        net.subtract(gone)
        wanted = [key for key in (*came, *gone) if None not in key]
        expected = Partners(all(net[key] > 0 for key in wanted), any(None in key for key in came))
        outcomes[expected] += 1
        changed = Rows(deleted=files.of(gone, schema)) if gone else Rows()
        rows = Rows(files.of(there[:5], schema) + files.of(there[5:], schema), changed.deleted)
        sides = (Rows(files.of(came, schema)), changed, rows)
        assert partners(*(Keyed(MIXED, side, names) for side in sides)) == expected
    assert len(outcomes) == 4


def test_row_groups_that_have_none_of_the_keys_are_not_read(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred row groups two may have the keys: a limit of eight rows is not met."""
    schema = pa.schema([("a", pa.int32())])
    present = Keyed(INTS, Rows(files.of([(n,) for n in range(400)], schema)), "a")
    monkeypatch.setattr(keys, "_MOST_ROWS", 8)
    assert not are_unique(present, Keyed(INTS, Rows(files.of([(17,), (390,)], schema)), "a"))
    assert are_unique(present, Keyed(INTS, Rows(files.of([(-1,), (400,)], schema)), "a"))
    there = Keyed(INTS, present.rows, "a")
    assert partners(Keyed(INTS, Rows(files.of([(17,), (390,)], schema)), "a"), Keyed(INTS, Rows(), "a"), there)
    far = Keyed(INTS, Rows(files.of([(17,), (200,), (390,)], schema)), "a")
    assert partners(far, Keyed(INTS, Rows(), "a"), there) is None, "twelve rows are too many"


def test_too_many_keys_are_not_looked_up(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("a", pa.int32())])
    came = Keyed(INTS, Rows(files.of([(1,), (2,)], schema)), "a")
    assert are_unique(Keyed(INTS, Rows(), "a"), came)
    monkeypatch.setattr(keys, "_MOST_KEYS", 1)
    assert not are_unique(Keyed(INTS, Rows(), "a"), came)


@pytest.mark.parametrize(
    ("type", "arrow", "value"),
    [
        (DoubleType(), pa.float64(), 1.0),
        (TimestampType(), pa.timestamp("us", "UTC"), 0),
        (BinaryType(), pa.binary(), b"x"),
        (CharType(3), pa.string(), "x"),
        (StringType("UTF8_LCASE"), pa.string(), "x"),
        (DateType(), pa.date32(), date(1500, 1, 1)),
    ],
)
def test_types_that_files_may_keep_otherwise_are_left_to_spark(
    files: Files, type: DataType, arrow: pa.DataType, value: object
) -> None:
    schema = StructType().add("a", type)
    came = files.of([(value,)], pa.schema([("a", arrow)]))
    assert not are_unique(Keyed(schema, Rows(), "a"), Keyed(schema, Rows(came), "a"))


def test_what_is_in_no_file_or_lacks_the_column_is_left_to_spark(files: Files) -> None:
    schema = pa.schema([("a", pa.int32())])
    (path,) = files.of([(1,)], schema)
    (other,) = files.of([("x",)], pa.schema([("b", pa.string())]))
    came = Keyed(INTS, Rows(files.of([(2,)], schema)), "a")
    assert are_unique(Keyed(INTS, Rows((path,)), "a"), came)
    for rows in (
        Rows((path,), given=(((7,), 1),)),
        Rows((path, other)),
        Rows((path,), narrow={path: 0}),
        Rows((f"{path}.gone",)),
        Rows((__file__,)),
    ):
        assert not are_unique(Keyed(INTS, rows, "a"), came)
        assert partners(came, Keyed(INTS, Rows(), "a"), Keyed(INTS, rows, "a")) is None


def test_a_column_that_a_path_spells_is_not_what_the_file_has(files: Files, tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int32())])
    there = tmp_path / "lake" / "A=7" / "x.parquet"
    there.parent.mkdir(parents=True)
    Path(*files.of([(1,)], schema)).rename(there)
    came = Keyed(INTS, Rows(files.of([(7,)], schema)), "a")
    assert are_unique(Keyed(INTS, Rows((str(there),)), "a"), came)
    assert not are_unique(Keyed(INTS, Rows((str(there),), base=str(tmp_path / "lake")), "a"), came)


def test_files_may_have_dictionaries_and_narrower_text(files: Files) -> None:
    """As pandas writes categories: the same values, under another type of Arrow."""
    table = StructType().add("a", "string")
    there = files.of([("x",), ("y",), ("y",)], pa.schema([("a", pa.dictionary(pa.int8(), pa.string()))]))
    came = [files.of([(key,)], pa.schema([("a", pa.large_string())])) for key in "xz"]
    assert [are_unique(Keyed(table, Rows(there), "a"), Keyed(table, Rows(c), "a")) for c in came] == [False, True]


def test_names_with_dots_are_not_parts_of_structures(files: Files) -> None:
    table = StructType().add("a.b", "integer")
    came = files.of([(1,)], pa.schema([("a.b", pa.int32())]))
    assert not are_unique(Keyed(table, Rows(), ["a.b"]), Keyed(table, Rows(came), ["a.b"]))


def test_extremes_are_those_of_all_rows_of_all_files(files: Files) -> None:
    arrow = pa.schema(ARROW)
    random = Random(5)
    found = [[drawn(random, "abcd", 40) for _ in range(9)] for _ in range(3)]
    found[1][4] = (None, "", None, date(2024, 2, 29))
    rows = Rows(tuple(path for some in found for path in files.of(some, arrow)))
    columns = list(zip(*(key for some in found for key in some), strict=True))
    expected = [
        Extremes(min(known), max(known), len(known) < len(column))
        for column in columns
        if (known := [value for value in column if value is not None])
    ]
    assert extremes(Keyed(MIXED, rows, "abcd")) == expected
    none = Rows(files.of([(None,)], pa.schema([("a", pa.int32())])))
    assert extremes(Keyed(INTS, none, "a")) == [Extremes(None, None, True)]
    assert extremes(Keyed(INTS, Rows(), "a")) == [Extremes(None, None, False)]


def test_extremes_of_what_is_left_to_spark_are_not_known(files: Files) -> None:
    rows = Rows(files.of([(1.5,)], pa.schema([("a", pa.float64())])))
    assert extremes(Keyed(StructType().add("a", DoubleType()), rows, "a")) is None
