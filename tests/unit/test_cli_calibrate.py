"""``tempura calibrate`` on a machine that is a stand-in: what is measured, kept, shown and forgotten, and the exit codes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tempura.cli import calibrate
from tempura.cli.main import main
from tempura.cli.shell import DONE, FAILED, NOTHING_TO_DO, Shell
from tempura.cost.calibration import VARIABLE, Calibration, calibration_of, file_of
from tests.unit.test_calibration import HERE, calibration

Run = Callable[..., Result]


@pytest.fixture
def found() -> list[Calibration]:
    """What the next measurements find."""
    return [calibration()]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: list[Calibration]) -> Run:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "on")
    monkeypatch.setattr(Shell, "start_session", lambda self: None)
    monkeypatch.setattr(calibrate, "machine_of", lambda spark: HERE)

    def measured(spark: Any, seconds: float, progress: Callable[[str], None]) -> Calibration:
        progress(f"for {seconds:g} s")
        return found.pop()

    monkeypatch.setattr(calibrate, "calibrate", measured)
    return lambda *arguments: CliRunner().invoke(main, ["calibrate", *arguments])


def test_prices_are_measured_and_kept(run: Run) -> None:
    done = run()
    assert done.exit_code == DONE
    assert "for 120 s" in done.stderr
    for text in ("sort_row", "600.00", "812.40", "1.35", "cpu one, cores 2", "5 rounds", f"kept in {file_of(HERE)}"):
        assert text in done.stdout
    assert calibration_of(HERE) == calibration()


def test_what_a_busy_machine_says_is_not_kept(run: Run, found: list[Calibration]) -> None:
    busy = replace(calibration(), noise=0.5)
    found[:] = [busy, busy]
    done = run()
    assert done.exit_code == FAILED
    assert "Not to be trusted: the CPU time of one job differs by 50%" in done.stdout
    assert "Not kept" in done.stdout
    assert calibration_of(HERE) is None
    assert run("--force").exit_code == DONE
    assert calibration_of(HERE) == busy
    assert "Not to be trusted" in run("--show").stdout


def test_it_is_shown_and_forgotten(run: Run) -> None:
    for option in ("--show", "--forget"):
        nothing = run(option)
        assert nothing.exit_code == NOTHING_TO_DO
        assert "Nothing was measured on this machine: cpu one, cores 2" in nothing.stdout
    assert json.loads(run("--show", "--json").stdout) is None
    run()
    shown = json.loads(run("--show", "--json").stdout)
    assert shown["prices"]["sort_row"]["value"] == 812.4
    assert shown["doubt"] == ""
    assert Calibration.from_json(shown) == calibration()
    assert run("--forget").exit_code == DONE
    assert calibration_of(HERE) is None


def test_a_damaged_file_is_told_in_a_line(run: Run) -> None:
    run()
    file = file_of(HERE)
    assert file
    file.write_text("{")
    shown = run("--show")
    assert shown.exit_code == NOTHING_TO_DO
    assert [line for line in shown.stderr.splitlines() if "are not used" in line]


def test_options_that_exclude_each_other(run: Run) -> None:
    assert run("--show", "--forget").exit_code == 2
    assert run("--seconds", "1").exit_code == 2
