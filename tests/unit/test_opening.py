"""Opening a warehouse: Spark is started when it is needed, not before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import tempura as tp
from tempura.errors import TempuraError
from tempura.frontend.start import OwnSession
from tempura.warehouse import opening

DECLARED = """
[tables.t]
schema = "k INT"

[queries.q]
sql = "SELECT k FROM t"
schedule = {kind = "view", n = 30}

[queries.daily]
sql = "SELECT k FROM t"
schedule = {kind = "progressive", times = {"14:00" = 0.25, "24:00" = 1.0}, timezone = "Europe/Berlin"}
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was started."""
    calls: list[str] = []

    def start() -> SparkSession:
        calls.append("Spark")
        raise TempuraError("NO_JAVA", "There is none.")

    monkeypatch.setattr(opening, "start_session", start)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    return calls


def test_looking_at_a_warehouse_starts_no_spark(tmp_path: Path, started: list[str]) -> None:
    (tmp_path / "tempura.toml").write_text(DECLARED)
    warehouse = tp.open(tmp_path)
    status = warehouse.status()
    assert status["tables"]["t"]["rows"] == 0
    assert status["queries"]["daily"]["next"]
    assert warehouse.query("q").history() == ()
    assert warehouse.gc() == ()
    assert started == []


def test_spark_is_started_when_rows_are_computed(tmp_path: Path, started: list[str]) -> None:
    (tmp_path / "tempura.toml").write_text(DECLARED)
    with pytest.raises(TempuraError) as error:
        tp.open(tmp_path).query("q").run()
    assert error.value.code == "NO_JAVA"
    assert started == ["Spark"]


def test_what_spark_says_is_noted_of_tempuras_own_session_only(
    tmp_path: Path, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tempura.toml").write_text(DECLARED)

    def notes(spark: Callable[[], SparkSession] | None) -> bool:
        return cast(Any, tp.open(tmp_path, spark=spark))._site.engine._recalled is not None

    def start() -> SparkSession:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    assert notes(OwnSession(start))
    assert not notes(start)
    assert not notes(None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    assert not notes(OwnSession(start)), "somebody may have set what he likes in the one that runs"
    assert started == []
