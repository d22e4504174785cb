"""The demo at a small scale: real data, real runs, verified results, honest figures."""

import json
import re
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tempura.cli.demo import EXAMPLES, MARKER, PRICES, moments
from tempura.cli.main import main


@pytest.mark.slow
def test_the_demo_tells_the_whole_story(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["demo", "--scale", "0.01", "--methods", "im1", "--folder", str(tmp_path / "demo")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    text = result.stdout
    for query in EXAMPLES:
        assert re.search(rf"^{query.name}: verified, equal: [1-9]\d* rows", text, re.MULTILINE)
        assert query.because in text
    assert len(re.findall(r"im1: .* states? kept", text)) >= len(EXAMPLES), "early runs keep states"
    for at in PRICES:
        assert len(re.findall(rf"^{at}  ", text, re.MULTILINE)) >= len(EXAMPLES), f"the figures of {at} for each query"
    assert text.count("plain Spark, 24:00  ") == text.count("CPU at the deadline: ") == len(EXAMPLES)
    assert text.count("Time at the deadline: ") == len(EXAMPLES)
    assert "… 19:00: running median\n" in result.stderr
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == [MARKER, "lake", "waiting", "warehouse"]
    for command in re.findall(r"^  tempura (.*)$", text, re.MULTILINE):
        assert CliRunner().invoke(main, command.split()).exit_code == 0, "what is named to go on with"
    check_warehouse(tmp_path / "demo" / "warehouse")


def check_warehouse(folder: Path) -> None:
    """The warehouse that stays is one to go on with, and its times are the story's."""
    history = json.loads(CliRunner().invoke(main, ["-C", str(folder), "history", "margin", "--json"]).stdout)
    times = [entry["logical_time"] for entry in history]
    day = datetime.fromisoformat(times[0]).date()
    assert date.today() - day <= timedelta(days=2)
    assert times == [moment.isoformat() for moment in moments(day + timedelta(days=1))]


@pytest.mark.slow
def test_methods_that_cannot_be_had_end_in_an_error(spark: SparkSession, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["demo", "--scale", "0.01", "--methods", "magic", "--folder", str(tmp_path / "demo")]
    )
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("[UNKNOWN_METHOD]")
