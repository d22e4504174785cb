"""``tempura bench`` on a few queries: the command, its file, and results that are right."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import compute
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from tempura.bench import effectiveness, exactness
from tempura.bench.exactness import session_settings
from tempura.bench.lake import Lake, laid_out
from tempura.bench.operators import JOBS, measure
from tempura.bench.suites import SUITES
from tempura.bench.trial import is_nontrivial
from tempura.cli.main import main
from tempura.warehouse.engine import Verification

QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"


@pytest.fixture
def quoting(spark: SparkSession) -> Iterator[SparkSession]:
    """The session that the command finds, reading the suites' SQL."""
    spark.conf.set(QUOTES, session_settings()[QUOTES])
    yield spark
    spark.conf.unset(QUOTES)


def sweep(out: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["bench", "exactness", "--scale", "0.01", "--out", str(out), *options])
    return result.exit_code, result.output


QUICK = ("q16",)
"""An anti join below COUNT(DISTINCT): rows that leave change its result as rows that come do."""

REPRESENTATIVE = {
    # Outer join below two aggregations; maximum of a CTE; anti join and COUNT(DISTINCT); semi join with HAVING and top-k; EXISTS
    # and NOT EXISTS over self joins.
    "tpch": ("q13", "q15", "q16", "q18", "q21"),
    # Correlated scalar sub-query; EXISTS under OR; ROLLUP; windows over a full outer join of CTEs; RANK over ROLLUP; full outer join
    # of DISTINCT rows.
    "tpcds": ("q6", "q10", "q22", "q51", "q70", "q97"),
}

BY_METHOD = {
    "ojv": ("q13", "q21"),  # outer join below two aggregations; EXISTS and NOT EXISTS over self joins
    "hov": ("q17", "q18"),  # a sub-query's average per part; semi join with HAVING and top-k
}
"""Queries of TPC-H in which a method does what others do not."""


@pytest.mark.slow
def test_a_query_is_exact(quoting: SparkSession, tmp_path: Path) -> None:
    check_exact(tmp_path / "out.json", "tpch", QUICK, ("retract-both",))


@pytest.mark.full
@pytest.mark.parametrize("suite", sorted(REPRESENTATIVE))
def test_representative_queries_are_exact(quoting: SparkSession, tmp_path: Path, suite: str) -> None:
    check_exact(tmp_path / "out.json", suite, REPRESENTATIVE[suite], ("append-big", "retract-both"))


@pytest.mark.full
@pytest.mark.parametrize("method", sorted(BY_METHOD))
def test_queries_are_exact_by_methods_of_joins(quoting: SparkSession, tmp_path: Path, method: str) -> None:
    check_exact(tmp_path / "out.json", "tpch", BY_METHOD[method], ("retract-both",), method)


def check_exact(out: Path, suite: str, names: tuple[str, ...], patterns: tuple[str, ...], method: str = "im1") -> None:
    """Sweep over some queries, and again where all is done."""
    given = [option for pattern in patterns for option in ("--pattern", pattern)]
    options = ("--suite", suite, "--queries", ",".join(names), "--methods", method, *given)
    code, output = sweep(out, *options)
    assert code == 0, output
    content = json.loads(out.read_text())
    assert content["meta"]["options"]["suite"] == suite
    runs = [(row["pattern"], row["query"], row["time"]) for row in content["runs"]]
    assert runs == [(pattern, name, time) for pattern in patterns for name in names for time in ("t1", "t2")]
    assert all(row["equal"] is True and row["error"] is None for row in content["runs"])
    assert content["summary"]["nontrivial"] >= len(names) - 2
    assert content["summary"]["duckdb"] == {"queries": len(names), "equal": len(names), "different": {}}
    code, output = sweep(out, *options, "--resume")
    assert code == 0, output
    assert json.loads(out.read_text()) == content | {"meta": json.loads(out.read_text())["meta"]}


@pytest.mark.slow
def test_tpcds_by_date_with_the_result_at_the_end(quoting: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "tpcds.json"
    code, output = sweep(out, "--queries", "q93", "--split", "date", "--scenario", "pdw", "--times", "3")
    assert code == 0, output
    rows = json.loads(out.read_text())["runs"]
    assert [(row["time"], row["equal"]) for row in rows] == [("t1", None), ("t2", None), ("t3", True)]


@pytest.mark.slow
def test_what_fails_or_is_wrong_is_reported_and_the_sweep_goes_on(
    quoting: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"q1": "SELECT no_such FROM nation", "q2": "SELECT count(*) AS n FROM lineitem"}
    monkeypatch.setattr(exactness, "SUITES", {"tpch": replace(SUITES["tpch"], own=texts)})
    wrong = Verification(False, 1, ("(1)",), ("(2)",), "identical bags")
    monkeypatch.setattr("tempura.warehouse.query.Query.verify", lambda query, rows: wrong)
    out = tmp_path / "out.json"
    code, output = sweep(out, "--suite", "tpch")
    assert code == 1
    assert "append-big: wrong: q2" in output
    summary = json.loads(out.read_text())["summary"]
    assert summary["wrong"] == ["q2"]
    assert list(summary["failed"]) == ["q1"]
    assert summary["equal"] == 0


@pytest.mark.slow
def test_a_query_is_measured_against_plain_spark(quoting: SparkSession, tmp_path: Path) -> None:
    out, drawing = tmp_path / "out.json", tmp_path / "out.svg"
    given = ["bench", "effectiveness", "--suite", "tpch", "--scale", "0.01", "--queries", "q6", "--methods", "im1"]
    given += [
        "--pattern",
        "retract",
        "--deleted",
        "0.02",
        "--warm-ups",
        "0",
        "--out",
        str(out),
        "--figure",
        str(drawing),
    ]
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 0, result.output
    content = json.loads(out.read_text())
    runs, batch = content["runs"], content["batch"]
    assert [(r["time"], r["price"], r["equal"]) for r in runs] == [
        ("14:00", 0.25, None),
        ("19:00", 0.3, None),
        ("24:00", 1.0, True),
    ]
    assert [(row["when"], row["rows"]) for row in batch] == [("before", 1), ("after", 1)]
    for row in (runs[-1], *batch):
        assert 0 < row["cpu_s"] < row["jvm_s"]
        assert 0 < row["python_s"] < row["wall_s"]
        assert row["jobs"] > 0
        assert row["written_bytes"] > 0
    assert sum(runs[-1]["phases"].values()) == pytest.approx(runs[-1]["wall_s"], abs=0.05)
    assert runs[-1]["phases"]["jobs"] > 0
    assert runs[-1]["estimated_s"] > 0
    (ratios,) = content["summary"]["ratios"]
    assert content["summary"]["methods"]["im1"]["n"] == 1
    assert ratios["measured_s"] == pytest.approx(sum(r["price"] * r["cpu_s"] for r in runs), abs=0.01)
    assert "q6: " in drawing.read_text()


@pytest.mark.slow
def test_a_day_of_nine_times_is_measured_over_rows_that_come_by_date(
    quoting: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = list[tuple[date, date]]()

    @contextmanager
    def looked_at(*given: Any) -> Iterator[Lake]:
        with laid_out(*given) as lake:
            found = (pq.read_table(file)["l_shipdate"] for file in lake.waiting["lineitem"].arrivals)
            days.extend((compute.min(day).as_py(), compute.max(day).as_py()) for day in found)
            yield lake

    monkeypatch.setattr(effectiveness, "laid_out", looked_at)
    out = tmp_path / "out.json"
    given = ["bench", "effectiveness", "--suite", "tpch", "--scale", "0.01", "--queries", "q6", "--methods", "im1"]
    given += ["--scenario", "pdw9", "--split", "date", "--warm-ups", "0", "--out", str(out)]
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 0, result.output
    content = json.loads(out.read_text())
    assert (content["meta"]["options"]["scenario"], content["meta"]["options"]["split"]) == ("pdw9", "date")
    assert len(days) == 9
    assert all(last < first for (_, last), (first, _) in pairwise(days)), "each day's rows come with one arrival"
    runs = content["runs"]
    assert [(r["price"], r["deadline"], r["equal"]) for r in runs] == [(0.3, False, None)] * 8 + [(1.0, True, True)]
    assert [r["time"] for r in runs][::4] == ["02:40", "13:20", "24:00"]
    assert [r["series"] for r in runs] == [0] * 9, "one day"
    assert content["summary"]["methods"]["im1"]["n"] == 1


@pytest.mark.slow
def test_nontrivial_results_have_a_value(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(0, None), (None, None)], "n INT, name STRING")
    assert not is_nontrivial(rows)
    assert not is_nontrivial(rows.limit(0))
    assert is_nontrivial(rows.union(spark.createDataFrame([(0, "x")], "n INT, name STRING")))
    assert is_nontrivial(rows.select(fn.lit(1).alias("one"), fn.lit(2).alias("one")))


@pytest.mark.slow
def test_operators_are_measured(spark: SparkSession) -> None:
    found = measure(spark, 0.01, repeats=1)
    rows = {row["operator"]: row for row in found["operators"]}
    assert list(rows) == [job.name for job in JOBS]
    assert all(row["cpu_s"] > 0 and row["driver_s"] > 0 for row in rows.values())
    assert rows["shuffle"]["shuffle_mb"] > 0
    assert rows["read, 3 columns"]["shuffle_mb"] == 0
    assert rows["read, 3 columns"]["rows"] == found["meta"]["rows"]["sales"] > 10_000


@pytest.mark.slow
def test_views_are_refreshed_by_commands_and_verified(quoting: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    given = ["bench", "processes", "--suite", "tpch", "--scale", "0.01", "--queries", "q1,q6", "--share", "0.05"]
    asked = [*given, "--repeat", "1", "--warm-ups", "0", "--followed", "2", "--out", str(out)]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    assert result.output.count(": equal: ") == 2
    content = json.loads(out.read_text())
    assert [(row["who"], row["arrival"], row["measured"]) for row in content["runs"]] == [
        ("together", 0, None), ("together", 1, 0), ("together, nothing new", 1, 0), ("plain", 1, 0),
        ("apart", 2, 0), ("plain, same session", 2, 0), ("followed", 3, None), ("followed", 4, 0),
    ]  # fmt: skip
    assert all(row["does"].keys() == {"q1", "q6"} for row in content["runs"] if "does" in row)
    assert {who for who, row in content["summary"].items() if row["wall_s"]} == {
        "together", "apart", "plain", "plain, same session", "together, nothing new", "followed",
    }  # fmt: skip
