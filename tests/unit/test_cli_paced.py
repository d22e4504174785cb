"""Commands on queries at paces, over a warehouse without a JVM."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tempura as tp
from tempura.cli.main import main
from tests.unit.bag_engine import LARGE, SUMMARY
from tests.unit.test_paced import World, world

__all__ = ["world"]

Tempura = Callable[..., Result]
ADD = ("query", "add", "q", "--sql", LARGE, "--until", "18:00")


@pytest.fixture
def tempura(world: World, monkeypatch: pytest.MonkeyPatch) -> Tempura:
    """Run the command on the world's warehouse."""
    monkeypatch.setattr(tp, "open", lambda folder, spark=None: world.open())
    world.wh.add_table("sales", schema="o_id INT, cat STRING, price INT", expect=24)
    world.wh.add_table("returns", schema="o_id INT, cost INT", expect=12)
    folder = str(world.wh.path)
    return lambda *arguments: CliRunner().invoke(main, ["-C", folder, *arguments])


def test_from_declaration_to_the_last_flush(world: World, tempura: Tempura) -> None:
    added = tempura(*ADD, "--pace", "sales=4", "--pace", "returns=2", "--pace", "s0=2")
    assert added.exit_code == 0, added.output
    assert "strategy = {returns = 2,s0 = 2,sales = 4}" in (world.wh.path / "tempura.toml").read_text()
    assert tempura("run", "q").exit_code == 3
    world.hour(8)
    assert "path p0 from sales  [pace=4]" in tempura("plan", "q").stdout
    dry = tempura("run", "q", "--dry-run").stdout
    assert "released at" in dry
    assert "nothing was done" in dry
    assert "sales to s0" in tempura("run", "q").stdout
    world.hour(12, 8)
    assert json.loads(tempura("run", "q", "--json").stdout)["paths"] == ["sales to s0", "returns to s0", "s0 to result"]
    refused = tempura("verify", "q")
    assert "[NOT_RELEASED]" in refused.stderr
    assert "tempura run q --now" in refused.stderr
    world.now = datetime(2026, 3, 1, 18, tzinfo=UTC)
    assert "flush 3 (last)" in tempura("run", "q").stdout
    assert "equal" in tempura("verify", "q").stdout
    history = tempura("history", "q").stdout
    assert "flush 1 released at" in history
    assert "predicted" in history
    shown = tempura("query", "show", "q").stdout
    assert "planned at" in shown
    assert "path p2 from s0" in shown
    assert json.loads(tempura("query", "show", "q", "--json").stdout)["paces"]["paces"] == [4, 2, 2]
    listed = json.loads(tempura("query", "list", "--json").stdout)["q"]
    assert (listed["runs"], listed["due"]) == (3, False)
    assert list(json.loads(tempura("table", "list", "--json").stdout)) == ["sales", "returns"]


def test_paths_are_explained_with_what_a_step_more_is_worth(world: World, tempura: Tempura, tmp_path: Path) -> None:
    page = tmp_path / "paces.html"
    assert tempura(*ADD, "--final-work", "0.2").exit_code == 0
    paces_first = tempura("explain", "q").stdout
    assert "path p0 from sales" in paces_first, "rows are declared to come"
    world.hour(8)
    assert tempura("run", "q").exit_code in (0, 3)
    text = tempura("explain", "q").stdout
    assert "paces by inqp for final work 0.2" in text
    assert "final work" in text
    assert "incrementability=" in text
    found = json.loads(tempura("explain", "q", "--json").stdout)
    assert [path["from"] for path in found["paths"]] == ["sales", "returns", "s0"]
    assert found["curve"][0]["paces"] == [1, 1, 1]
    assert found["segments"][0]["segment"] == 0
    planned = tempura("plan", "q", "--html", str(page))
    assert planned.exit_code == 0, planned.output
    assert "planned at" in planned.stdout
    assert "<svg" in page.read_text()


def test_of_a_table_of_which_nothing_is_known_the_paths_are_shown(world: World, tempura: Tempura) -> None:
    for table in ("sales", "returns"):
        world.wh.remove_table(table)
    world.wh.add_table("sales", schema="o_id INT, cat STRING, price INT")
    world.wh.add_table("returns", schema="o_id INT, cost INT")
    assert tempura(*ADD, "--final-work", "0.2").exit_code == 0
    assert tempura("explain", "q", "--json").stdout.strip() == "null"
    text = tempura("explain", "q").stdout
    assert "paces are planned with the first" in text
    assert "path p2 from s0" in text


def test_flushes_are_followed_with_a_line_each(world: World, tempura: Tempura, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(seconds: float) -> None:
        assert seconds == 2.0
        world.hour()

    assert tempura(*ADD, "--pace", "sales=4", "--pace", "returns=2", "--pace", "s0=2").exit_code == 0
    monkeypatch.setattr("tempura.warehouse.following.sleep", wait)
    told = tempura("run", "q", "--follow", "--every", "2")
    assert told.exit_code == 0, told.output
    lines = told.stdout.splitlines()
    assert [line.split(" at ")[0] for line in lines] == ["flush 1", "flush 2", "flush 3", "flush 4 (last)"]
    assert lines[1].startswith("flush 2 at 50.0%: sales to s0, returns to s0, s0 to result, 2 rows; ")
    assert tempura("run", "q", "--follow").stdout == ""


def test_followed_flushes_are_json_lines(world: World, tempura: Tempura, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tempura(*ADD, "--pace", "sales=2").exit_code == 0
    monkeypatch.setattr("tempura.warehouse.following.sleep", lambda seconds: world.hour())
    told = [json.loads(line) for line in tempura("run", "q", "--follow", "--json").stdout.splitlines()]
    assert told[-1]["label"].endswith("(last)")
    assert told[0]["paths"] == ["sales to s0"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--view", "--until", "18:00"), "either --at"),
        ((), "either --at"),
        (("--until", "18:00", "--pace", "sales"), "is not NAME=PACE"),
        (("--until", "11:00", "--final-work", "0.1"), "[BAD_SCHEDULE]"),
        (("--until", "18:00", "--final-work", "0"), "[BAD_PACES]"),
        (("--until", "18:00"), "[BAD_PACES]"),
        (("--until", "18:00", "--pace", "t=2"), "[BAD_PACES]"),
        (("--until", "18:00", "--final-work", "0.1", "--timezone", "Foo/Bar"), "[BAD_TIMEZONE]"),
        (("--at", "14:00=0.25", "--timezone", "Foo/Bar"), "[BAD_TIMEZONE]"),
        (("--at", "14:00=0.25", "--timezone", ""), "[BAD_SCHEDULE]"),
        (("--view", "--until", ""), "either --at"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(tempura: Tempura, arguments: tuple[str, ...], what: str) -> None:
    refused = tempura("query", "add", "q", "--sql", LARGE, *arguments)
    assert refused.exit_code in (1, 2)
    assert what in refused.stderr


def test_several_are_followed_with_their_names(world: World, tempura: Tempura, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view beside a query with a deadline: both end by Ctrl-C, as a service does by SIGTERM."""
    assert tempura("query", "add", "v", "--sql", SUMMARY, "--view").exit_code == 0
    assert tempura(*ADD, "--pace", "sales=2").exit_code == 0
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        world.hour()

    monkeypatch.setattr("tempura.warehouse.following.sleep", wait)
    told = tempura("run", "--all", "--follow")
    assert told.exit_code == 130, told.output
    lines = told.stdout.splitlines()
    views = [line for line in lines if line.startswith("v: ")]
    assert [line.split(": ")[1] for line in views] == [f"refresh {n}" for n in range(1, 8)]
    assert re.match(r"v: refresh 2: [a-z ]+, 2 rows; \d+\.\d\d CPU s, \d+\.\d s$", views[1]), views[1]
    assert any(line.startswith("q: flush 1 at ") for line in lines)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "afterwards as before"


def test_what_follows_is_not_said_otherwise(tempura: Tempura) -> None:
    assert tempura("query", "add", "v", "--sql", SUMMARY, "--view").exit_code == 0
    for option in ("--now", "--force", "--dry-run", "--at=12:00"):
        assert tempura("run", "v", "--follow", option).exit_code == 2


_PIPED = """
import sys
from pathlib import Path
import tempura as tp
from tempura.cli.main import main
from tempura.warehouse import following
from tests.unit.test_paced import World

world = World(Path(sys.argv[1]))
tp.open = lambda folder, spark=None: world.open()
world.query()

def sleep(seconds):
    assert not sys.stdin.readline() == "", "whoever reads goes on"
    world.hour()

following.sleep = sleep
main(["-C", str(world.wh.path), "run", "q", "--follow"])
"""


def test_a_line_comes_through_a_pipe_before_the_next_flush(tmp_path: Path) -> None:
    """The process waits for its reader, who has seen each flush by then."""
    program = [sys.executable, "-c", _PIPED, str(tmp_path)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("on\non\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("flush 1 at ")
        process.stdin.write("on\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("flush 2 at ")
        process.stdin.write("on\n" * 6)
        process.stdin.close()
        assert "flush 4 (last)" in process.stdout.read()
    assert process.returncode == 0
