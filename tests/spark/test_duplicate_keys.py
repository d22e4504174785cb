"""Keys of rows that come, looked up by the driver and by Spark, as counting says: NULLs, hashes that meet, keys that came back."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import StructType

from tempura.warehouse.batches import keys
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.engine import Source
from tempura.warehouse.spark.incoming import duplicate_key

Key = tuple[int | None, str | None]
SCHEMA = StructType().add("a", "integer").add("b", "string").add("v", "integer")


@pytest.fixture(params=("driver", "spark"))
def asked(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> "Asked":
    if request.param == "spark":
        monkeypatch.setattr(keys, "_MOST_KEYS", -1)
    return Asked(spark, tmp_path)


class Asked:
    """Rows with some keys, written to files, and what is said of them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._files = 0

    def files(self, keys: list[Key]) -> tuple[str, ...]:
        if not keys:
            return ()
        self._files += 1
        path = self._folder / f"{self._files}"
        rows = [(*key, n) for n, key in enumerate(keys)]
        self._spark.createDataFrame(rows, SCHEMA).coalesce(1).write.parquet(f"file:{path}")
        return tuple(str(file) for file in path.glob("*.parquet"))

    def is_twice(self, there: list[Key], gone: list[Key], came: list[Key], key: tuple[str, ...] = ("a", "b")) -> bool:
        present = Source(SCHEMA, Rows(self.files(there), self.files(gone)))
        return duplicate_key(self._spark, present, Rows(self.files(came)), key) is not None


@pytest.mark.parametrize(
    ("there", "gone", "came", "twice"),
    [
        ([], [], [(1, "x"), (2, "x")], False),
        ([], [], [(1, "x"), (1, "x")], True),
        ([(1, "x")], [], [(1, "y")], False),
        ([(1, "x")], [], [(1, "x")], True),
        ([(1, "x")], [(1, "x")], [(1, "x")], False),
        ([(1, "x"), (1, "x")], [(1, "x")], [(1, "x")], True),
        ([(None, "x")], [], [(None, "x")], True),
        ([(None, None)], [], [(None, None)], True),
        ([(None, "x")], [], [(None, "y"), (1, "x")], False),
        ([(None, None)], [], [(None, ""), (0, None)], False),
    ],
)
def test_what_is_twice(asked: Asked, there: list[Key], gone: list[Key], came: list[Key], twice: bool) -> None:
    assert asked.is_twice(there, gone, came) == twice


def test_equal_hashes_are_not_taken_for_equal_keys(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys have one hash: exact rows decide."""
    monkeypatch.setattr(functions, "xxhash64", lambda *columns: functions.lit(7).cast("bigint"))
    assert not asked.is_twice([(1, "x")], [], [(2, "x"), (3, "y")])
    assert asked.is_twice([(1, "x")], [], [(2, "x"), (1, "x")])


def test_random_keys(asked: Asked) -> None:
    random = Random(5)
    found = set()
    for _ in range(6):
        drawn: list[Key] = [(random.choice([None, *range(6)]), random.choice([None, *"abcd"])) for _ in range(12)]
        there, came = drawn[:8], drawn[8:]
        gone = random.sample(there, 2)
        net = Counter(there + came)
        net.subtract(gone)
        touched = max(net[key] for key in came) > 1
        found.add(touched)
        assert asked.is_twice(there, gone, came) == touched
    assert found == {True, False}
