"""``tempura bench streams`` on very few rows: every experiment writes its file."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tempura.bench.stream_experiments import EXPERIMENTS, Scale
from tempura.cli.main import main


@pytest.mark.parametrize("name", ["hit", "selectivity", "updates"])
def test_an_experiment_writes_its_file_and_figure(name: str, tmp_path: Path) -> None:
    out, figure = tmp_path / "x.json", tmp_path / "x.svg"
    options = ["--experiment", name, "--rows", "400", "--rounds", "2", "--out", str(out), "--figure", str(figure)]
    result = CliRunner().invoke(main, ["bench", "streams", *options])
    assert result.exit_code == 0, result.output
    found = json.loads(out.read_text())
    assert found["meta"]["experiment"] == name
    assert all(row["M"] > 0 and row["C"] > 0 for row in found["rows"])
    assert set(found["summary"]) == {str(next(iter(row.values()))) for row in found["rows"]}
    assert figure.read_text().startswith("<svg")


def test_sample_points_have_all_four_plans() -> None:
    rows = EXPERIMENTS["d1-d8"](Scale(rows=300, rounds=2, window=40, interval=500))
    first = next(iter(rows))
    assert first["point"] == "d1"
    assert all(first[kind] > 0 for kind in ("M", "X", "P", "G", "static"))
    assert first["tree"].count("⋈") == 3


def test_a_burst_has_two_phases() -> None:
    rows = list(EXPERIMENTS["burst"](Scale(rows=200, rounds=1, window=20)))
    assert [row["phase"] for row in rows] == ["calm"] * 20 + ["burst"] * 60
    assert rows == sorted(rows, key=lambda row: row["s_rows"])


def test_memory_is_never_more_than_the_budget() -> None:
    for row in EXPERIMENTS["memory"](Scale(rows=300, rounds=1, window=30, interval=4000)):
        assert row["used_bytes"] <= row["budget"]
