"""Random SQL through the warehouse, arrival by arrival, by methods and at prices that lead to other plans: each result is Spark's own."""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tempura.cost.model import SPARK
from tests.spark.random_queries import TABLES, Arrivals, Queries
from tests.spark.test_hostile_queries import Trial, session

__all__ = ["session"]

METHODS = ("all", "im1", "im2", "ojv", "hov")
BY_ROWS = SPARK.scaled(0)
"""Prices of rows only: of tables that are small, too, what is new is joined and added."""


def problems(session: SparkSession, folder: Path, seed: int, queries: int, times: int) -> list[str]:
    """What is wrong with some queries over some arrivals. What is promised of tables is declared by turns."""
    random = Random(seed)
    arrivals = Arrivals(random)
    texts = [Queries(random).query(random.choice((1, 2, 2, 3, 3, 4))).text for _ in range(queries)]
    methods = [random.choice(METHODS) for _ in texts]
    prices = random.choice((BY_ROWS, BY_ROWS, SPARK))
    schemas = {name: table.schema for name, table in TABLES.items()}
    promises = {name: table.promises for name, table in TABLES.items()} if seed % 2 else {}
    trial = Trial(session, folder, texts, schemas, promises, methods, prices)
    return trial.run([arrivals.next() for _ in range(times)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_some_random_queries_are_exact_at_each_time(session: SparkSession, tmp_path: Path, seed: int) -> None:
    assert problems(session, tmp_path / "wh", seed, queries=5, times=3) == []


@pytest.mark.full
@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_random_queries_are_exact_at_each_time(session: SparkSession, tmp_path: Path, seed: int) -> None:
    assert problems(session, tmp_path / "wh", seed, queries=12, times=5) == []
