"""Steps over few rows: tasks, and files of what is written, are no more than run at once; states lie as those of large steps do."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.execute import tuning
from tempura.execute.contract import StepOutcome, StoredState
from tempura.execute.spark import SparkExecutor
from tempura.execute.tuning import PARTITIONS, for_few_rows
from tempura.frontend.session import clone
from tempura.warehouse.commits.files import Files
from tempura.warehouse.engine import Work
from tempura.warehouse.spark import spark_engine
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.warehouse import open_site
from tests.unit.test_steady import as_if_large

ADAPTIVE = "spark.sql.adaptive.enabled"
CORES = 2
"""Of the session that all tests share."""

BUCKETS = 7
GROUPS = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"
TOTAL = "SELECT COUNT(*) AS n, SUM(v) AS s FROM t"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A user's, who has large steps in mind."""
    assert spark.sparkContext.defaultParallelism == CORES
    found = clone(spark)
    found.conf.set(PARTITIONS, str(BUCKETS))
    return found


class Looking(SparkEngine):
    """Looks at the files that steps write, before anybody else does. By its prices states are worth keeping though rows are few."""

    def __init__(self, session: SparkSession) -> None:
        super().__init__(lambda: session, prices=as_if_large(50_000))
        self.outcomes: list[StepOutcome] = []
        self.results: list[list[int]] = []
        """Of each step how many files each part of its result has."""

    def execute(self, work: Work) -> StepOutcome:
        outcome = super().execute(work)
        assert outcome.output is not None
        self.outcomes.append(outcome)
        self.results.append(counted(outcome.output.state))
        return outcome


def counted(stored: StoredState) -> list[int]:
    return [len(list(Path(part.path).glob("*.parquet"))) for part in stored.parts]


def refreshed(session: SparkSession, folder: Path, sql: str, *arrivals: int) -> Looking:
    """The engine of a warehouse in which a query was maintained when so many rows had come each time."""
    engine = Looking(session)
    wh = open_site(folder, engine, Files())
    t = wh.add_table("t", schema="k INT, v INT")
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view())
    for n in arrivals:
        t.append(session.range(n).selectExpr("CAST(id % 300 AS INT) AS k", "CAST(id % 5 AS INT) AS v"))
        query.run(methods="im1")
    assert query.verify()
    return engine


@pytest.mark.slow
def test_a_small_refresh_writes_a_result_of_no_more_files_than_tasks_run_at_once(
    session: SparkSession, tmp_path: Path
) -> None:
    """Though it is computed of a state that is in more buckets, and is not shuffled any more."""
    engine = refreshed(session, tmp_path, GROUPS, 5_000, 2_000, 50)
    for outcome in engine.outcomes:
        (state,) = outcome.states.values()
        assert (state.bucket, state.buckets) == ((0,), BUCKETS)
        assert counted(state)[-1] <= BUCKETS
    assert all(0 < n <= CORES for parts in engine.results for n in parts), engine.results


@pytest.mark.slow
def test_a_refresh_of_one_row_writes_one_file(session: SparkSession, tmp_path: Path) -> None:
    engine = refreshed(session, tmp_path, TOTAL, 5_000, 50)
    assert engine.results == [[1], [1]]


@pytest.mark.slow
def test_into_how_many_parts_rows_are_shuffled_is_how_much_a_step_reads(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small step is not looked at between its shuffles, and those are into no more parts than run at once. A state of it has as many
    buckets as that of a large step, all the same: it may grow."""
    found: list[tuple[object, ...]] = []

    class Watched(SparkExecutor):
        def run(self, *given: Any) -> StepOutcome:
            conf = self._session.conf
            found.append((conf.get(ADAPTIVE), conf.get(PARTITIONS)))
            return super().run(*given)

    monkeypatch.setattr(spark_engine, "SparkExecutor", Watched)
    small = refreshed(session, tmp_path / "small", GROUPS, 100).outcomes
    monkeypatch.setattr(tuning, "SMALL_BYTES", -1)
    large = refreshed(session, tmp_path / "large", GROUPS, 100).outcomes
    assert found == [("false", str(CORES)), ("true", str(BUCKETS))]
    states = [state for outcome in (*small, *large) for state in outcome.states.values()]
    assert [(state.bucket, state.buckets) for state in states] == [((0,), BUCKETS)] * 2


def test_a_session_of_fewer_parts_than_cores_keeps_them(session: SparkSession) -> None:
    for asked, given in ((1, 1), (CORES, CORES), (BUCKETS, CORES)):
        session.conf.set(PARTITIONS, str(asked))
        assert for_few_rows(session) == {ADAPTIVE: "false", PARTITIONS: str(given)}
