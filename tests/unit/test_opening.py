"""Opening a warehouse: Spark is started when it is needed, not before."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.errors import TempuraError
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
