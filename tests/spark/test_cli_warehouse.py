"""The commands on a real warehouse, from init to gc."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from tempura.cli.main import main

Tempura = Callable[..., Result]

SQL = "SELECT category, SUM(price) AS total FROM sales WHERE price > 0 GROUP BY category ORDER BY category"


def arrive(lake: Path, name: str, **columns: list[object]) -> None:
    lake.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), lake / name)


@pytest.fixture
def tempura(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tempura:
    """Run a command in a folder with a warehouse of one table and one query."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["-C", "warehouse", *arguments])
        assert result.exit_code == code, result.output
        return result

    arrive(tmp_path / "lake", "1.parquet", category=["a", "b", "a"], price=[1, 2, 4])
    invoke("init")
    invoke("table", "add", "sales", "--path", "lake")
    invoke("query", "add", "totals", "--sql", SQL, "--at", "14:00=0.25", "--at", "24:00=1")
    return invoke


def test_from_plan_to_verified_result(tempura: Tempura, tmp_path: Path) -> None:
    assert "method" in tempura("plan", "totals").stdout
    assert "aggregate" in tempura("explain", "totals").stdout
    tempura("run", "totals", "--at", "14:00", "--force", "--dry-run")
    assert json.loads(tempura("history", "totals", "--json").stdout) == []
    tempura("run", "totals", "--at", "14:00", "--force")
    tempura("result", "totals", code=1)
    arrive(tmp_path / "lake", "2.parquet", category=["b", "c"], price=[5, 6])
    report = json.loads(tempura("run", "totals", "--at", "24:00", "--force", "--json").stdout)
    assert report["rows"] == 3
    tempura("run", "totals", "--at", "24:00", code=3)
    rows = json.loads(tempura("result", "totals", "--json").stdout)
    assert rows == {"columns": ["category", "total"], "rows": [["a", 5], ["b", 7], ["c", 6]], "more": False}
    assert "equal: 3 rows" in tempura("verify", "totals").stdout
    assert json.loads(tempura("changes", "totals", "--json").stdout)["rows"][0][-2] == "insert"
    assert [run["n"] for run in json.loads(tempura("history", "totals", "--json").stdout)] == [1, 2]
    assert json.loads(tempura("status", "--json").stdout)["tables"]["sales"]["rows"] == 5
    assert "24:00" in tempura("explain", "totals", "--step", "24:00").stdout
    tempura("gc")


def test_errors_of_the_query_are_one_line(tempura: Tempura) -> None:
    error = tempura("query", "add", "wrong", "--sql", "SELECT prize FROM sales", "--view", code=1).stderr
    assert error.startswith("[")
    assert "prize" in error
    assert error.count("\n") == 1


def test_incremental_maintenance_is_demanded_and_told(tempura: Tempura, tmp_path: Path) -> None:
    own = ("query", "add", "own", "--sql", "SELECT * FROM sales ORDER BY price OFFSET 1", "--view")
    error = tempura(*own, "--require", "incremental", code=1).stderr
    assert error.startswith("[NOT_INCREMENTAL]")
    assert "OFFSET: " in error
    tempura("query", "add", "kept", "--sql", SQL, "--view", "--require", "incremental")
    assert json.loads(tempura("run", "kept", "--json").stdout)["does"]["kind"] == "built"
    arrive(tmp_path / "lake", "2.parquet", category=["b", "c"], price=[5, 6])
    assert "maintained from 1 state" in tempura("run", "kept").stdout
    assert "equal: 3 rows" in tempura("verify", "kept").stdout


def test_all_queries_are_run_by_one_command_the_upper_ones_last(tempura: Tempura, tmp_path: Path) -> None:
    tempura("query", "add", "sums", "--sql", SQL, "--view")
    tempura("run", "sums")
    tempura("table", "add", "by_category", "--from-query", "sums")
    tempura("query", "add", "a_few", "--sql", "SELECT COUNT(*) AS n, SUM(total) AS s FROM by_category", "--view")
    tempura("query", "add", "fails", "--sql", "SELECT CAST(category AS INT) AS n FROM sales", "--view")
    arrive(tmp_path / "lake", "2.parquet", category=["b", "c"], price=[5, 6])
    result = tempura("run", "sums", "a_few", "fails", "--json", code=1)
    told = {line.get("query"): line for line in map(json.loads, result.stdout.splitlines())}
    assert list(told) == ["sums", "a_few", "fails"]
    assert told["fails"]["error"]["code"] == "CAST_INVALID_INPUT"
    assert result.stderr.startswith("[RUNS_FAILED] 1 of 3 queries failed: fails.")
    assert json.loads(tempura("result", "a_few", "--json").stdout)["rows"] == [[3, 18]]
    assert "nothing to do" in tempura("run", "a_few", "sums", code=3).stdout
    lines = tempura("verify", "--all").stdout.splitlines()
    assert [line.split(" (")[0] for line in lines] == [
        "totals: no result yet", "sums: equal: 3 rows", "a_few: equal: 1 rows", "fails: no result yet", "2 of 2 equal",
    ]  # fmt: skip


def test_what_was_saved_is_told_by_what_plain_spark_takes(tempura: Tempura, tmp_path: Path) -> None:
    tempura("query", "add", "kept", "--sql", SQL, "--view")
    tempura("savings", "kept", "--measure", code=1)
    tempura("run", "kept")
    assert "not measured yet" in tempura("savings", "kept").stdout
    result = tempura("savings", "kept", "--measure")
    assert "kept: plain Spark took " in result.stdout
    assert "to recompute refresh 1 over 3 rows" in result.stdout
    arrive(tmp_path / "lake", "2.parquet", category=["b", "c"], price=[5, 6])
    tempura("run", "kept")
    (told,) = (json.loads(line) for line in tempura("savings", "kept", "--json").stdout.splitlines())
    (measured,) = told["measured"]
    assert (told["runs"], told["results"], measured["rows"], measured["rows_read"]) == (2, 2, 2, 3)
    assert measured["wall_seconds"] > 0
    # Of the second result, over five rows, no more is said than what was measured over three.
    assert told["recomputed_wall_seconds"] == pytest.approx(2 * measured["wall_seconds"])
    assert told["cpu_saved"] == pytest.approx(1 - told["cpu_seconds"] / told["recomputed_cpu_seconds"])
    assert not list((tmp_path / "warehouse").glob("queries/kept/attempts/*/0"))
    assert "equal: 3 rows" in tempura("verify", "kept").stdout


def test_a_table_that_is_not_declared_any_more_is_named(tempura: Tempura, tmp_path: Path) -> None:
    arrive(tmp_path / "names", "1.parquet", category=["a", "b"], long=["A", "B"])
    tempura("table", "add", "names", "--path", "names")
    tempura("query", "add", "named", "--sql", "SELECT long, price FROM sales JOIN names USING (category)", "--view")
    tempura("run", "named")
    toml = tmp_path / "warehouse" / "tempura.toml"
    before, _, after = toml.read_text().partition("[tables.names]")
    toml.write_text(before + after[after.index("\n[") + 1 :])
    for command in (("verify", "named"), ("savings", "named", "--measure")):
        assert "[UNKNOWN_TABLE]" in tempura(*command, code=1).stderr
    assert "named: left out are 1 of its runs" in tempura("savings", "named").stdout
