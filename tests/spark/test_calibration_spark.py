"""``tempura calibrate`` on Spark: its jobs are what they are described as, and what was measured is what plans are made from."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.bench import calibration as bench
from tempura.bench import driver
from tempura.bench.calibration import calibrate
from tempura.bench.jobs import session_as_asked
from tempura.bench.priced import JOBS, Job, Tables
from tempura.cost.calibration import VARIABLE, keep, with_prices
from tempura.cost.fit import BOUND
from tempura.cost.model import SPARK, CostModel
from tempura.cost.prices import BESIDE_TASKS, BUILT_IN
from tempura.execute.machine import machine_of
from tempura.execute.tuning import sendable_bytes
from tempura.warehouse.spark.spark_engine import SparkEngine
from tests.unit.test_calibration import calibration


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    session = session_as_asked(spark)
    made = Tables(session, session, tmp_path_factory.mktemp("calibrate"), rows=100_000)
    made.make()
    return made


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_spark_runs_what_a_job_is_described_as(job: Job, tables: Tables) -> None:
    """It takes nothing away: as many exchanges, scans, sorts and joins as the description counts, and as many rows per group."""
    plan = str(job.frame(tables)._jdf.queryExecution().executedPlan().toString())
    units = job.consists(tables).units
    exchanges = plan.count("Exchange hashpartitioning") + plan.count("BroadcastExchange")
    assert exchanges == units.get("exchange", 0), plan
    assert plan.count("FileScan") == units["scan"], plan
    assert plan.count("Sort [") == ("sort_row" in units) + 2 * ("merge_row" in units), plan
    assert ("SortMergeJoin" in plan) == ("merge_row" in units), plan
    assert ("BroadcastHashJoin" in plan) == ("probe_row" in units), plan
    grouped = plan.count("HashAggregate(keys=[") - plan.count("HashAggregate(keys=[]")
    assert grouped == (
        1 + ("exchange" in units)
        if units.keys() & {"group_row", "many_row"}
        else 6
        if "three aggregations" in job.name
        else 0
    ), plan


def test_tables_hold_what_jobs_count_on(tables: Tables) -> None:
    rows = tables.numbers(8)
    distinct = {name: rows.select(name).distinct().count() for name in "abc"}
    assert rows.count() == distinct["a"] == tables.rows
    assert distinct["b"] == 1000
    assert distinct["c"] == tables.groups
    assert tables.read("keys", "k").count() == tables.keys
    assert len(list((tables.folder / "parts").glob("*.parquet"))) == 17
    assert tables.small("parts").count() == tables.small().count() == 17


@pytest.mark.slow
def test_prices_are_measured(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """One round is not to be trusted, and is told so; but each price is measured, and the driver's are of steps."""
    monkeypatch.setattr(bench, "_LEAST", 1)
    monkeypatch.setattr(bench, "_WARM_UP", 0)
    monkeypatch.setattr(bench, "_STEPS", 1)
    monkeypatch.setattr(bench, "JOBS", tuple(replace(job, times=1) for job in JOBS))
    monkeypatch.setattr(driver, "_WARM_UP", 1)
    monkeypatch.setattr(driver, "_QUERIES", {"star": driver._QUERIES["star"]})
    stages: list[str] = []
    found = calibrate(spark, seconds=1, rows=100_000, progress=stages.append)
    assert found.rounds == 1
    assert "only 1 round" in found.doubt
    assert found.level > 0
    assert all(1 / BOUND <= price.factor <= BOUND for price in found.prices)
    assert {"making tables", "round 1: sort", "step 1: star_im1"} <= set(stages)
    assert found.machine == machine_of(spark)


def test_a_machine_is_known_by_what_matters(spark: SparkSession) -> None:
    machine = machine_of(spark)
    assert machine == machine_of(spark.newSession())
    assert machine.about["cores"] == str(spark.sparkContext.defaultParallelism)
    assert machine.about["spark"] == spark.version
    # How it is compiled matters, where classes are mapped from does not.
    assert "-XX:TieredStopAtLevel=1" in machine.about["options"]
    assert "Shared" not in machine.about["options"]
    assert "log4j" not in str(machine)
    other = spark.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "77")
    assert machine_of(other).key != machine.key


def test_a_warehouse_plans_by_what_was_measured(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(prices: CostModel) -> CostModel:
        return replace(prices, counted_bytes=sendable_bytes(spark), beside_tasks=BESIDE_TASKS)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, "on")
    assert SparkEngine(lambda: spark).prices == here(SPARK)
    measured = calibration(machine=machine_of(spark))
    assert measured.model == with_prices(measured.prices, "calibrated 2026-11-22 19:30 UTC")
    keep(measured)
    engine = SparkEngine(lambda: spark)
    assert engine.prices == here(measured.model)

    wh = tp.open(tmp_path / "wh", spark=spark)
    wh.add_table("t", schema="a BIGINT")
    wh.table("t").append(spark.range(10).toDF("a"))
    query = wh.add_query("q", "SELECT sum(a) AS s FROM t", schedule=tp.Schedule.view())
    assert "prices: calibrated 2026-11-22 19:30 UTC" in query.plan().explain()
    before = engine.steps_run
    query.run()
    assert engine.steps_run == before + 1, "of whatever warehouse: what is warm is the session"
    (step,) = query.steps()
    assert (step.prices, step.steps_run) == ("calibrated 2026-11-22 19:30 UTC", before)
    monkeypatch.setenv(VARIABLE, "off")
    assert BUILT_IN in tp.open(tmp_path / "wh", spark=spark).query("q").plan().explain()
