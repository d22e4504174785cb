"""What a step asks of the JVM to build its DataFrames: each class and method is looked up once."""

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Rel
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref
from tempura.algebra.states import Finalize, Partial
from tempura.execute.metrics import Meter
from tests.spark.bags import executor, read


def averages(number: int) -> Rel:
    """As many averages per group."""
    rows = read("l", "int", "bigint")
    keys = (Output(Column("k", "k", "int"), Ref(rows.columns[0])),)
    call = AggregateCall("Average", (Ref(rows.columns[1]),), "double", detail="legacy")
    outputs = tuple(AggregateOutput(Column(f"v{i}", f"v{i}", "double"), call) for i in range(number))
    return Finalize(Partial(rows, keys, outputs), keys, outputs)


def test_looking_up_does_not_grow_with_the_number_of_columns(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, lookups = {"l": SignedBag.of([(1, 2)])}, list[str]()
    send = ClientServerConnection.send_command

    def counting(self: ClientServerConnection, command: str) -> object:
        lookups.extend([command] if command.startswith("r\n") else [])
        return send(self, command)

    def looked_up(number: int) -> int:
        executor(spark, tables).dataframe(averages(number))  # what is looked up once for all
        lookups.clear()
        executor(spark, tables).dataframe(averages(number))
        return len(lookups)

    monkeypatch.setattr(ClientServerConnection, "send_command", counting)
    few, many = looked_up(2), looked_up(12)
    assert many <= few + 2 * (12 - 2), lookups  # of an average: the children of its expressions, as a sequence


def test_measuring_does_not_grow_with_the_jobs_of_a_session(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    send = ClientServerConnection.send_command

    def counting(self: ClientServerConnection, command: str) -> object:
        # Not what forgets objects ("m"): it comes whenever Python's garbage collector does.
        calls.extend([command] if not command.startswith("m\n") else [])
        return send(self, command)

    def measured() -> int:
        calls.clear()
        with Meter(spark.sparkContext) as meter:
            spark.range(1).count()
        assert meter.usage.jobs >= 1
        return len(calls)

    monkeypatch.setattr(ClientServerConnection, "send_command", counting)
    first = measured()
    for _ in range(20):
        spark.range(1).collect()
    assert measured() <= first
