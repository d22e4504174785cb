"""What a step asks of the JVM: calls do not grow with what it is made of."""

from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Rel
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref
from tempura.algebra.states import Finalize, Partial
from tempura.execute import functions as fn
from tempura.execute.draft import Draft
from tempura.execute.metrics import Meter
from tempura.frontend.compiled import compiled
from tests.spark.bags import executor, read


def averages(number: int) -> Rel:
    """As many averages per group."""
    rows = read("l", "int", "bigint")
    keys = (Output(Column("k", "k", "int"), Ref(rows.columns[0])),)
    call = AggregateCall("Average", (Ref(rows.columns[1]),), "double", detail="legacy")
    outputs = tuple(AggregateOutput(Column(f"v{i}", f"v{i}", "double"), call) for i in range(number))
    return Finalize(Partial(rows, keys, outputs), keys, outputs)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that are sent to the JVM."""
    sent: list[str] = []
    send = ClientServerConnection.send_command

    def noted(self: ClientServerConnection, command: str) -> object:
        # Not what forgets objects ("m"): it comes whenever Python's garbage collector does.
        sent.extend([command] if not command.startswith("m\n") else [])
        return send(self, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    return sent


def test_columns_take_no_calls_of_their_own(spark: SparkSession, calls: list[str]) -> None:
    tables = {"l": SignedBag.of([(1, 2)])}

    def asked(number: int) -> int:
        executor(spark, tables).dataframe(averages(number))  # what is looked up once for all
        calls.clear()
        executor(spark, tables).dataframe(averages(number))
        return len(calls)

    few = asked(2)
    assert few > 0
    assert asked(12) <= few, calls


def test_operators_take_no_calls_of_their_own(spark: SparkSession, calls: list[str]) -> None:
    """The filters of a plan, and the parts of their conditions."""

    def asked(filters: int) -> int:
        rows = Draft.of(spark.range(3))
        calls.clear()
        for n in range(filters):
            rows = rows.filter((fn.col("id") >= -n) | fn.coalesce(fn.lit(None).cast("boolean"), fn.lit(True)))
        frame = rows.select("id").dataframe()
        found = len(calls)
        assert frame.count() == 3
        return found

    asked(2)
    few = asked(2)
    assert few > 0
    assert asked(40) <= few, calls


def test_measuring_does_not_grow_with_the_jobs_of_a_session(spark: SparkSession, calls: list[str]) -> None:
    def measured() -> int:
        calls.clear()
        with Meter(spark.sparkContext) as meter:
            spark.range(1).count()
        assert meter.usage.jobs >= 1
        return len(calls)

    first = measured()
    for _ in range(20):
        spark.range(1).collect()
    assert measured() <= first


def test_measuring_does_not_grow_with_what_is_measured(spark: SparkSession, calls: list[str]) -> None:
    def measured(jobs: int) -> int:
        with Meter(spark.sparkContext) as meter:
            for _ in range(jobs):
                spark.range(0, 100, 1, 2).rdd.count()
            calls.clear()
        assert meter.usage.jobs == jobs
        assert meter.usage.tasks == 2 * jobs
        return len(calls)

    measured(1)
    one = measured(1)
    assert one > 0
    assert measured(12) <= one, calls


def test_a_stage_that_the_store_has_dropped_is_left_out(spark: SparkSession) -> None:
    with Meter(spark.sparkContext) as meter:
        spark.range(0, 100, 1, 3).rdd.count()
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    (job,) = meter.jobs
    stage = store.job(job).stageIds().head()
    found = [compiled(spark, "Stages").stage(store, id) for id in (10**6, stage, 10**6 + 1)]
    assert [told.partition(" ")[0] for told in found] == ["", "3", ""]
