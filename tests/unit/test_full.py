"""No test is lost: what ``script/test`` leaves out belongs to a part of ``script/test-full``."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = (ROOT / "script/test-full").read_text(encoding="utf-8")
FULL, SWEEP = "pytest.mark.full", "pytest.mark.sweep"
PARTS = dict(re.findall(r"^(\w+)\(\) \{\n(.*?)^\}", SCRIPT, re.MULTILINE | re.DOTALL))
UNDER_SPARK = SCRIPT.partition('under_spark="')[2].partition('"')[0]


def files_of(*parts: str) -> set[Path]:
    """The test files that some parts run."""
    text = " ".join(PARTS[part] for part in parts).replace("$under_spark", UNDER_SPARK)
    found = [path for pattern in re.findall(r"tests/[\w/*.]+", text) for path in ROOT.glob(pattern)]
    return {file for path in found for file in (path.rglob("test_*.py") if path.is_dir() else [path])}


def marked(mark: str) -> dict[Path, str]:
    """The test files in which some tests have a mark, with their texts."""
    texts = {file: file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")}
    return {file: text for file, text in texts.items() if mark in text and file != Path(__file__)}


def test_each_part_is_documented_and_run_by_default() -> None:
    assert list(PARTS) == re.findall(r"^#   (\w+) {2,}", SCRIPT, re.MULTILINE)
    (default,) = re.findall(r"\$\{@:-(.*)\}", SCRIPT)
    assert default.split() == list(PARTS)
    assert f"    {' | '.join(PARTS)})" in SCRIPT


def test_every_test_that_is_left_out_belongs_to_a_part() -> None:
    left_out = {file for file, text in marked(FULL).items() if text.count(FULL) > text.count(SWEEP)}
    assert left_out <= files_of("newest", "plans", "bench")
    assert set(marked(SWEEP)) <= files_of("sweeps", "suites")
    assert len(left_out) > 3
    assert len(marked(SWEEP)) > 3


def test_a_sweep_is_left_out_too() -> None:
    for file, text in marked(SWEEP).items():
        assert text.count(SWEEP) == text.count(f"{FULL}\n@{SWEEP}"), file
