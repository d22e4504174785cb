"""The plan says which side of a join is sent to every task, and Spark does so."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Aggregate, Join, Rel
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref, equal
from tempura.cost.bounds import Bounds
from tempura.cost.model import CostModel
from tempura.cost.prices import BESIDE_TASKS
from tempura.execute import tuning
from tempura.execute.machine import is_local
from tempura.execute.tuning import sendable_bytes
from tempura.plan.progressive import Note, Step
from tempura.warehouse.spark import spark_engine
from tempura.warehouse.spark.spark_engine import SparkEngine
from tests.spark.bags import executor, read, signed_bag

L, R = read("l", "int", "string", signed=False), read("r", "int", "string", signed=False)
TABLES = {"l": SignedBag.of([(i % 50, "x") for i in range(200)]), "r": SignedBag.of([(i, "y") for i in range(40)])}
KEYS = (Output(Column("k", "k", "int"), Ref(R.columns[0])),)
FEW = Aggregate(R, KEYS, (AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint")),))
"""Of what was grouped Spark does not know how small it is."""


def join(kind: str) -> Join:
    return Join(L, FEW, kind, equal(Ref(L.columns[0]), Ref(FEW.columns[0])))  # type: ignore[arg-type]


def step(rel: Rel, side: int | None) -> Step:
    return Step(0, (), rel, 0, {rel: Note(1.0, 0, broadcast=side)})


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    made = spark.newSession()
    made.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # Spark by itself would shuffle both sides
    made.conf.set("spark.sql.adaptive.enabled", "false")
    return made


@pytest.mark.parametrize(("kind", "side"), [("inner", 0), ("inner", 1), ("left", 1), ("semi", 1), ("anti", 1)])
def test_the_side_that_the_plan_names_is_sent(session: SparkSession, kind: str, side: int) -> None:
    rel = join(kind)
    frames = {}
    for sent in (side, None):
        frames[sent] = executor(session, TABLES).dataframe(rel, step(rel, sent).notes)
    plans = {sent: frame._jdf.queryExecution().executedPlan().toString() for sent, frame in frames.items()}
    assert f"Build{('Left', 'Right')[side]}" in plans[side], plans[side]
    assert "BroadcastHashJoin" not in plans[None], plans[None]
    width = len(rel.columns)
    assert signed_bag(frames[side], width) == signed_bag(frames[None], width)


def test_what_is_too_large_to_be_sent_is_joined_otherwise(session: SparkSession, tmp_path: Path) -> None:
    if "maxBroadcastTableSize" not in str(session.sql("SET -v").filter("key LIKE '%maxBroadcastTableSize'").collect()):
        pytest.skip("this version of Spark has no limit that a test could reach")
    session.conf.set("spark.sql.maxBroadcastTableSize", "10b")
    said: list[str] = []
    rel, running = join("inner"), executor(session, TABLES, progress=said.append)
    outcome = running.run(step(rel, 1), tmp_path / "step")
    assert outcome.output is not None
    assert outcome.output.rows == executor(session, TABLES).dataframe(rel).count()
    assert any("too large" in message for message in said)


def test_bounds_hold_what_keys_warrant() -> None:
    sizes = {L: 1000.0, R: 10.0}
    bounds = Bounds(lambda leaf: sizes[leaf])  # type: ignore[index]
    assert bounds.rows(FEW) == 10
    assert bounds.rows(join("semi")) == 1000
    assert bounds.rows(join("inner")) == 4000
    assert bounds.rows(replace(join("inner"), on=Ref(L.columns[0]))) == 10_000
    assert bounds.rows(Join(L, R, "left", equal(Ref(L.columns[0]), Ref(R.columns[0])))) == 5000


def test_a_session_with_more_memory_sends_more(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_memory", lambda context: [64 << 30, 3200 << 20])
    assert SparkEngine(lambda: spark, CostModel()).prices.counted_bytes == sendable_bytes(spark) == 100 << 20
    monkeypatch.setattr(tuning, "_memory", lambda context: [])
    assert SparkEngine(lambda: spark, CostModel()).prices.counted_bytes == 0, "nothing is known"
    monkeypatch.undo()
    assert 0 < sendable_bytes(spark) <= 256 << 20


def test_a_session_whose_tasks_run_in_the_drivers_process_says_so(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they make it do besides is not taken for the driver's (``times.correction``)."""
    assert is_local(spark.sparkContext)
    assert SparkEngine(lambda: spark, CostModel()).prices.beside_tasks == BESIDE_TASKS
    assert CostModel().beside_tasks == 0, "nothing is known"
    monkeypatch.setattr(spark_engine, "is_local", lambda context: False)
    assert SparkEngine(lambda: spark, CostModel()).prices.beside_tasks == 0
