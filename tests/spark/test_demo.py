"""The demo at a small scale: real data, real runs, verified results, honest figures."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tempura.cli.demo import EXAMPLES, PRICES
from tempura.cli.main import main


@pytest.mark.slow
def test_the_demo_tells_the_whole_story(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = CliRunner().invoke(main, ["demo", "--scale", "0.01", "--keep", str(tmp_path / "demo")])
    assert result.exit_code == 0, result.output
    text = result.stdout
    for query in EXAMPLES:
        assert re.search(rf"^{query.name}: verified, equal: [1-9]\d* rows", text, re.MULTILINE)
    assert text.count("Left to choose, the planner would take ") == len(EXAMPLES)
    assert len(re.findall(r"im1: .* states? saved", text)) >= len(EXAMPLES), "early runs keep states"
    for at in PRICES:
        assert len(re.findall(rf"^{at}  ", text, re.MULTILINE)) >= len(EXAMPLES), f"the figures of {at} for each query"
    verdicts = text.count("At the deadline: ") + text.count("Nothing was done early: ")
    assert verdicts == len(EXAMPLES)
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["lake", "recomputing", "waiting", "warehouse"]
    check_warehouse(tmp_path / "demo" / "warehouse")


def check_warehouse(folder: Path) -> None:
    """The warehouse that is kept is one to go on with."""
    again = CliRunner().invoke(main, ["-C", str(folder), "run", "revenue", "--at", "24:00"])
    assert again.exit_code == 3, again.output
    history = CliRunner().invoke(main, ["-C", str(folder), "history", "revenue"])
    assert len(history.stdout.splitlines()) == 1 + len(PRICES)


@pytest.mark.slow
def test_methods_that_cannot_be_had_end_in_an_error(spark: SparkSession, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", "--scale", "0.01", "--methods", "magic"])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("[UNKNOWN_METHOD]")
