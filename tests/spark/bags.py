"""Signed bags as DataFrames and back, and random ones: shared by the tests of the Spark executor."""

import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Rel, Scan
from tempura.algebra.scalar import Column
from tempura.execute.contract import WEIGHT, StoredState
from tempura.execute.draft import Draft
from tempura.execute.relation import Relation, split_weights
from tempura.execute.spark import SparkExecutor
from tempura.physical.operators import Read, StateKey
from tempura.tvr.views import Snapshot

DOMAINS: Mapping[str, tuple[object, ...]] = {
    "int": (None, 0, 1, 2, -3),
    "bigint": (None, 0, 1, -(2**62), 2**62),
    "double": (None, 0.0, -0.0, float("nan"), 1.5),
    "string": (None, "", "a", "A", "a, b"),
    "boolean": (None, True, False),
    "decimal(7,2)": (None, Decimal("0.00"), Decimal("1.05"), Decimal("-99999.99"), Decimal("99999.99")),
    "decimal(15,3)": (None, Decimal("0.000"), Decimal("123456789012.345"), Decimal("-0.001")),
    "decimal(30,10)": (None, Decimal("0E-10"), Decimal("12345678901234567890.0123456789"), Decimal("-1.0000000001")),
    "array<double>": (None, [], [0.0], [-0.0], [1.5, None]),
}
"""Few values per type, so that rows repeat and keys meet; the awkward ones among them."""


def columns(prefix: str, *types: str) -> tuple[Column, ...]:
    """Columns ``<prefix>0``, ``<prefix>1`` … of the given types."""
    return tuple(Column(f"{prefix}{i}", f"{prefix}{i}", type) for i, type in enumerate(types))


def random_bag(rng: random.Random, columns: Sequence[Column], rows: int, signed: bool) -> SignedBag:
    """Random rows with weights up to 3, negative ones too if ``signed``."""
    weights = (-2, -1, 1, 1, 3) if signed else (1, 1, 3)
    return SignedBag((tuple(rng.choice(DOMAINS[c.type]) for c in columns), rng.choice(weights)) for _ in range(rows))


def scan(table: str, *types: str) -> Scan:
    """A table with columns of the given types, named after it."""
    outputs = columns(table, *types)
    return Scan(table, tuple(f"{table} field.{i}" for i in range(len(types))), outputs)


def read(table: str, *types: str, signed: bool = True) -> Read:
    """All arrivals of a table."""
    return Read(scan(table, *types), Snapshot(0), signed)


def frame(spark: SparkSession, bag: SignedBag, names: Sequence[str], types: Sequence[str], signed: bool) -> DataFrame:
    """A bag as a DataFrame. Signed: with weights, split so that consolidation has something to do."""
    typed = [StructField(name, _parse_datatype_string(type)) for name, type in zip(names, types, strict=True)]
    if not signed:
        return spark.createDataFrame(list(bag.rows()), StructType(typed))
    schema = StructType([*typed, StructField(WEIGHT, _parse_datatype_string("bigint"))])
    rows = [(*row, part) for row, weight in bag.items() for part in (weight - 1, 1) if part]
    return spark.createDataFrame(rows, schema)


def signed_bag(rows: DataFrame, width: int) -> SignedBag:
    """What a DataFrame at execution time says; a weight column is the one after the relation's columns."""
    collected = [tuple(row) for row in rows.collect()]
    return SignedBag((row[:width], row[width] if len(row) > width else 1) for row in collected)


def executor(
    spark: SparkSession,
    tables: Mapping[str, SignedBag],
    states: Mapping[StateKey, StoredState] | None = None,
    progress: Callable[[str], None] | None = None,
    units: bool = False,
) -> SparkExecutor:
    """An executor over tables in memory; ``units``: each entry of a signed one stands for one row."""

    def rows(leaf: Read) -> Draft:
        types = [column.type for column in leaf.columns]
        found = Draft.of(frame(spark, tables[leaf.scan.table], leaf.scan.fields, types, leaf.signed))
        named = [Column(field, field, type) for field, type in zip(leaf.scan.fields, types, strict=True)]
        return split_weights(Relation(found, weighted=True), named).draft if units and leaf.signed else found

    return SparkExecutor(spark, rows, dict(states or {}).__getitem__, progress, units=units)


def leaf_of(tables: Mapping[str, SignedBag]) -> Callable[[Rel], SignedBag]:
    """The same tables for the interpreter."""

    def leaf(rel: Rel) -> SignedBag:
        assert isinstance(rel, Read)
        return tables[rel.scan.table]

    return leaf
