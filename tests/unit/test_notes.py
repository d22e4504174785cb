"""Notes of what Spark said: for the installation that they are of, and none where they cannot be read."""

import json
import os
import time
from pathlib import Path

import pytest

from tempura.warehouse.spark.notes import Notes, installation

ASKED = {"about": "columns", "ddl": "k INT"}


def test_an_answer_is_found_by_its_question(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "noted", "one")
    assert notes.answer(ASKED) is None
    notes.note(ASKED, {"type": "struct"})
    assert Notes(tmp_path / "noted", "one").answer(ASKED) == {"type": "struct"}
    assert notes.answer({**ASKED, "ddl": "k BIGINT"}) is None
    assert Notes(tmp_path / "noted", "other").answer(ASKED) is None
    notes.note(ASKED, ["newer"])
    assert notes.answer(ASKED) == ["newer"]
    assert len(list((tmp_path / "noted").iterdir())) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', '{"format": 2, "of": "one", "answer": 1}'])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    notes = Notes(tmp_path, "one")
    notes.note(ASKED, 1)
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert notes.answer(ASKED) is None
    notes.note(ASKED, 2)
    assert notes.answer(ASKED) == 2


def test_what_a_start_of_spark_sets_makes_no_other_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Notes(tmp_path)
    with monkeypatch.context() as started:
        started.setenv("SPARK_BUFFER_SIZE", "65536")
        notes.note(ASKED, 1)
    assert Notes(tmp_path).answer(ASKED) == 1


def test_a_note_of_another_question_under_the_same_name_is_none(tmp_path: Path) -> None:
    notes = Notes(tmp_path, "one")
    notes.note(ASKED, 1)
    (file,) = tmp_path.iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "question": {**ASKED, "ddl": "k BIGINT"}}))
    assert notes.answer(ASKED) is None


def test_where_nothing_can_be_written_nothing_is_noted(tmp_path: Path) -> None:
    (tmp_path / "noted").write_text("a file")
    notes = Notes(tmp_path / "noted", "one")
    notes.note(ASKED, 1)
    assert notes.answer(ASKED) is None


def test_notes_that_nobody_asks_for_go(tmp_path: Path) -> None:
    notes, other = Notes(tmp_path, "one"), {**ASKED, "ddl": "other"}
    notes.note(ASKED, 1)
    notes.note(other, 2)
    long_ago = time.time() - 40 * 86_400
    for file in tmp_path.iterdir():
        os.utime(file, (long_ago, long_ago))
    assert notes.answer(other) == 2, "and is not old any more"
    notes.note({**ASKED, "ddl": "third"}, 3)
    assert (notes.answer(ASKED), notes.answer(other)) == (None, 2)


def test_another_setting_is_another_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = installation()
    assert installation() == before
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with_folder = installation()
    assert with_folder != before
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.ansi.enabled false")
    assert installation() not in (before, with_folder)
