"""The command line: what is printed, in which form, and the exit codes. Warehouses are stand-ins; tests/spark has the real one."""

import errno
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import tempura as tp
from tempura.algebra.rel import Scan
from tempura.algebra.scalar import Column
from tempura.cli.demo import MARKER, verdict, workspace
from tempura.cli.main import main
from tempura.cli.options import method_names
from tempura.cli.queries import Rows, plain
from tempura.cli.shell import Shell, cell, percent, told
from tempura.errors import Reason, TempuraError, TempuraWarning
from tempura.physical.operators import StateKey
from tempura.plan.progressive import Alternative, ProgressivePlan, Save, Step
from tempura.warehouse.commits.files import Files
from tempura.warehouse.engine import Verification
from tempura.warehouse.garbage import Removed
from tempura.warehouse.runs.entries import HistoryEntry
from tempura.warehouse.runs.query_plan import QueryPlan
from tempura.warehouse.runs.replace import ReplaceReport
from tempura.warehouse.runs.report import RunReport
from tempura.warehouse.runs.savings import Recomputation, Savings
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.together import Outcome
from tempura.warehouse.warehouse import open_site
from tests.unit.bag_engine import BagEngine

REPORT = RunReport(
    "revenue", label="19:00", n=2, method="im1", weight=0.3, estimated_cost=2_500_000_000, cpu_seconds=1.5
)
ENTRY = HistoryEntry(
    n=2,
    label="19:00",
    logical_time="2026-01-01T19:00",
    versions={"sales": 2},
    method="im1",
    weight=0.3,
    estimated_cost=2_500_000_000,
    cpu_seconds=1.5,
    wall_seconds=2.0,
    states=3,
    skipped=("14:00",),
)
SCAN = Scan("sales", ("o_id",), (Column("c0", "o_id", "int"),))
PLAN = ProgressivePlan(
    steps=(
        Step(0, (Save(StateKey("f" * 16, "snapshot", 0), SCAN),), None, 4_000_000_000),
        Step(1, (), SCAN, 1_000_000_000),
    ),
    weights=(0.25, 1.0),
    cost=2_000_000_000,
    method="im1",
    alternatives=(Alternative("im1", 2_000_000_000, (), 1, chosen=True), Alternative("batch", 3_000_000_000, (), 0)),
    fallbacks=(Reason("WINDOW", "ranks are recomputed"),),
)


@dataclass
class FakeFrame:
    """As much of a DataFrame as the commands use."""

    columns: list[str]
    rows: list[tuple[Any, ...]]

    def take(self, n: int) -> list[tuple[Any, ...]]:
        return self.rows[:n]

    def collect(self) -> list[tuple[Any, ...]]:
        return self.rows


@dataclass
class FakeQuery:
    calls: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)

    def plan(self, methods: Any, schedule: Schedule | None = None, require: str | None = None) -> QueryPlan:
        self.calls.append({"methods": methods} | ({"schedule": schedule} if schedule else {}))
        return QueryPlan(PLAN, ("2026-01-01 14:00", "24:00"))

    def run(self, **given: Any) -> RunReport:
        self.calls.append(given)
        given["progress"]("reading")
        answer = self.answers.get("run", REPORT)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, RunReport)
        return answer

    def verify(self) -> Verification:
        answer = self.answers["verify"]
        assert isinstance(answer, Verification)
        return answer

    def result(self) -> FakeFrame:
        return FakeFrame(["a", "a"], [(1, None), (2, Decimal("1.50")), (3, date(2026, 1, 2))])

    def changes(self) -> FakeFrame:
        return FakeFrame(["a", "_change", "_count"], [(1, "insert", 2)])

    def history(self) -> tuple[HistoryEntry, ...]:
        return (ENTRY,)

    def steps(self) -> tuple[Any, ...]:
        return ()

    def output(self, path: str, mode: str, keys: tuple[str, ...]) -> Path:
        self.calls.append({"output": (path, mode, keys)})
        return Path(path)


@dataclass
class FakeWarehouse:
    q: FakeQuery = field(default_factory=FakeQuery)
    outcomes: tuple[Outcome[RunReport], ...] = ()
    verified: tuple[Outcome[Verification], ...] = ()
    measured: tuple[Outcome[Recomputation], ...] = ()
    saved: tuple[Outcome[Savings], ...] = ()
    added: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def query(self, name: str) -> FakeQuery:
        if name != "revenue":
            raise TempuraError("UNKNOWN_QUERY", f"There is no query {name!r}.", "There are: revenue.")
        return self.q

    def run(
        self, names: tuple[str, ...], tell: Callable[[Outcome[RunReport]], None], **asked: Any
    ) -> tuple[RunReport, ...]:
        self.q.calls.append({"names": names} | asked)
        for outcome in self.outcomes:
            tell(outcome)
        if any(outcome.error for outcome in self.outcomes):
            raise TempuraError("RUNS_FAILED", "1 of 2 queries failed: costs.", "Mend it.")
        return tuple(outcome.found for outcome in self.outcomes if outcome.found)

    def verify(
        self, names: tuple[str, ...], tell: Callable[[Outcome[Verification]], None], progress: Callable[[str], None]
    ) -> tuple[Outcome[Verification], ...]:
        self.q.calls.append({"names": names})
        for verified in self.verified:
            progress(verified.query)
            tell(verified)
        return self.verified

    def measure(
        self, names: tuple[str, ...], tell: Callable[[Outcome[Recomputation]], None], progress: Callable[[str], None]
    ) -> tuple[Outcome[Recomputation], ...]:
        self.q.calls.append({"measured": names})
        for outcome in self.measured:
            tell(outcome)
        return self.measured

    def savings(self, names: tuple[str, ...]) -> tuple[Outcome[Savings], ...]:
        self.q.calls.append({"told": names})
        return self.saved

    def add_table(self, name: str, **given: Any) -> None:
        self.added.append((name, given))

    def add_query(self, name: str, **given: Any) -> None:
        self.added.append((name, given))

    def status(self) -> dict[str, Any]:
        table = {"rows": 12345, "version": 2, "files": 2, "bytes": 10, "last_arrival": None}
        return {
            "path": "/w",
            "tables": {"sales": table},
            "queries": {"revenue": {"runs": 1, "next": "24:00", "due": False}},
        }

    def undeclared(self) -> tuple[str, ...]:
        return ()

    def gc(self, keep: int, dry_run: bool, runs: int | None) -> Removed:
        ledger = {"ledger": runs} if runs else {}
        return Removed(("queries/revenue/attempts/x",) * keep, {"results": 1000 * keep, **ledger})

    def replace_query(
        self,
        name: str,
        sql: str | None = None,
        dry_run: bool = False,
        methods: Any = None,
        require: Any = None,
        state_budget: Any = None,
        storage_price: Any = None,
    ) -> ReplaceReport:
        if not dry_run:
            self.added.append((name, {"sql": sql}))
        return ReplaceReport(name, ("agg (2 rows)",), ("join",), (), dry_run)


@pytest.fixture
def warehouse(monkeypatch: pytest.MonkeyPatch) -> FakeWarehouse:
    fake = FakeWarehouse()
    monkeypatch.setattr(tp, "open", lambda folder, spark=None: fake)
    return fake


Tempura = Callable[..., Result]


@pytest.fixture
def tempura(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tempura:
    """Run the command in an empty folder with a tempura.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tempura.toml").touch()
    return lambda *arguments: CliRunner().invoke(main, arguments)


def commands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        found += commands(command, *path, name) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("path", commands(main), ids=" ".join)
def test_help_of_each_command_has_its_own_example(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    assert f"Example:\n    tempura {' '.join(path)}" in result.stdout


def test_the_commands_of_the_contract_are_there() -> None:
    names = {"init", "plan", "explain", "run", "verify", "status", "history", "gc", "demo"}
    assert names | {("table", "add"), ("query", "add")} <= {p if len(p) > 1 else p[0] for p in commands(main)}


def test_run_prints_estimated_against_actual(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    result = tempura("run", "revenue", "--at", "19:00", "--methods", "im1,batch", "--dry-run")
    assert result.exit_code == 0, result.output
    assert {k: v for k, v in warehouse.q.calls[0].items() if k != "progress"} == {
        "at": "19:00", "methods": ["im1", "batch"], "dry_run": True, "now": False, "force": False, "require": None,
    }  # fmt: skip
    assert "2.500" in result.stdout
    assert "1.50" in result.stdout


def test_run_as_json(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    assert json.loads(tempura("run", "revenue", "--json").stdout)["estimated_cost"] == 2_500_000_000


def test_nothing_to_do_is_exit_code_3(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    warehouse.q.answers["run"] = RunReport("revenue", nothing=True, why="nothing is due before 19:00")
    result = tempura("run", "revenue")
    assert result.exit_code == 3
    assert "nothing is due before 19:00" in result.stdout


IDLE = RunReport("costs", nothing=True, why="nothing is due before 19:00")


def test_all_queries_are_run_and_each_is_told(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    warehouse.outcomes = (Outcome("revenue", REPORT), Outcome("costs", IDLE))
    result = tempura("run", "--all", "--now")
    assert result.exit_code == 0, result.output
    called = {k: v for k, v in warehouse.q.calls[0].items() if k in ("names", "now", "at")}
    assert called == {"names": (), "now": True, "at": None}
    assert "2.500" in result.stdout
    assert "costs: nothing to do, nothing is due before 19:00" in result.stdout


def test_several_queries_of_which_none_has_anything_to_do(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    warehouse.outcomes = (Outcome("costs", IDLE), Outcome("costs", IDLE))
    assert tempura("run", "revenue", "costs").exit_code == 3
    assert warehouse.q.calls[0]["names"] == ("revenue", "costs")


def test_a_warehouse_without_queries_has_nothing_to_run(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    result = tempura("run", "--all")
    assert (result.exit_code, result.stdout) == (3, "no query is declared\n")


def test_of_several_queries_one_that_fails_is_named(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    error = TempuraError("WRONG_SCHEMA", "Other columns.", "Add a table.")
    warehouse.outcomes = (Outcome("costs", error=error), Outcome("revenue", REPORT))
    result = tempura("run", "--all")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "costs: [WRONG_SCHEMA] Other columns. Add a table.",
        "[RUNS_FAILED] 1 of 2 queries failed: costs. Mend it.",
    ]
    assert "2.500" in result.stdout
    lines = [json.loads(line) for line in tempura("run", "--all", "--json").stdout.splitlines()]
    assert lines[0] == {
        "query": "costs", "error": {"code": "WRONG_SCHEMA", "what": "Other columns.", "remedy": "Add a table."},
    }  # fmt: skip
    assert lines[1]["estimated_cost"] == 2_500_000_000
    assert "TempuraError: [WRONG_SCHEMA]" in tempura("--debug", "run", "--all").stderr, "and what led to it"


@pytest.mark.parametrize("arguments", [(), ("revenue", "--all"), ("--follow",), ("revenue", "--all", "--follow")])
def test_what_to_run_is_said_in_one_way(tempura: Tempura, warehouse: FakeWarehouse, arguments: tuple[str, ...]) -> None:
    result = tempura("run", *arguments)
    assert result.exit_code == 2
    assert warehouse.q.calls == []


def test_an_error_is_one_line_on_stderr(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    result = tempura("run", "income")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "[UNKNOWN_QUERY] There is no query 'income'. There are: revenue.\n"


def test_long_errors_and_markup_stay_in_one_line(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    warehouse.q.answers["run"] = TempuraError("LONG", "x" * 500 + " [red]not markup[/red]")
    assert tempura("run", "revenue").stderr == "[LONG] " + "x" * 500 + " [red]not markup[/red]\n"


def test_debug_shows_where(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    warehouse.q.answers["run"] = TempuraError("SOME", "thing")
    assert isinstance(tempura("--debug", "run", "revenue").exception, TempuraError)


def test_a_defect_is_told_as_one(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    warehouse.q.answers["run"] = ZeroDivisionError("division by zero\nsecond line")
    result = tempura("run", "revenue")
    assert result.exit_code == 1
    assert result.stderr.startswith("[INTERNAL] ZeroDivisionError: division by zero This is a defect")
    assert result.stderr.count("\n") == 1


def test_errors_of_files_name_the_file() -> None:
    code, what, _ = told(FileNotFoundError(2, "No such file", "/x/y"))
    assert (code, "/x/y: No such file" in what) == ("FILE_GONE", True)


@pytest.mark.parametrize("debug", [False, True])
def test_ctrl_c_ends_with_one_line_and_exit_code_130(
    tempura: Tempura, warehouse: FakeWarehouse, debug: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**given: Any) -> RunReport:
        raise KeyboardInterrupt

    warehouse.q.run = interrupted  # type: ignore[method-assign]
    result = tempura(*(["--debug"] if debug else []), "run", "revenue")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1].startswith("[INTERRUPTED] ")
    assert (result.stderr.count("\n") == 1) is not debug
    assert result.stdout == ""


def test_a_time_to_come_is_asked_for_on_a_terminal_only(
    tempura: Tempura, warehouse: FakeWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(force: bool, progress: object, **given: Any) -> RunReport:
        if not force:
            raise TempuraError("TIME_AHEAD", "24:00 has not come.", "force=True", "--force")
        return REPORT

    warehouse.q.run = run  # type: ignore[method-assign, assignment]
    refused = tempura("run", "revenue", "--at", "24:00")
    assert (refused.exit_code, refused.stderr) == (1, "[TIME_AHEAD] 24:00 has not come. --force\n")
    assert tempura("run", "revenue", "--at", "24:00", "--force").exit_code == 0
    asked: list[str] = []
    answers = [True, False]

    def is_asked(shell: Shell, question: str) -> bool:
        asked.append(question)
        return answers.pop(0)

    monkeypatch.setattr(Shell, "is_asked", is_asked)
    for code in (0, 1):
        assert tempura("run", "revenue", "--at", "24:00").exit_code == code
    assert asked == ["24:00 has not come. Run it all the same?"] * 2
    assert tempura("run", "revenue", "--at", "24:00", "--json").exit_code == 1
    assert len(asked) == 2, "a program is not asked"


def test_without_a_warehouse_the_error_says_how_to_make_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["-C", str(tmp_path), "status"])
    assert result.exit_code == 1
    assert result.stderr.startswith("[NO_WAREHOUSE]")
    assert "tempura init" in result.stderr


def test_init_refuses_to_do_it_twice(tempura: Tempura, warehouse: FakeWarehouse, tmp_path: Path) -> None:
    assert "[WAREHOUSE_EXISTS]" in tempura("init").stderr
    (tmp_path / "other").mkdir()
    made = tempura("init", "other")
    assert made.exit_code == 0
    assert "other/tempura.toml" in made.output.replace("\n", "")


def test_plan_says_which_method_and_why(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    text = tempura("plan", "revenue").stdout
    assert "method im1: weighted cost 2.00 s; alternatives: batch 3.00 s" in text
    assert "recomputed: WINDOW: ranks are recomputed" in text
    assert warehouse.q.calls == [{"methods": None}]


def test_plan_over_other_times(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    assert tempura("plan", "revenue", "--times", "12:00=0.2,24:00=1").exit_code == 0
    assert warehouse.q.calls == [{"methods": None, "schedule": Schedule.progressive({"12:00": 0.2, "24:00": 1.0})}]
    assert "'12:00' is not TIME=PRICE" in tempura("plan", "revenue", "--times", "12:00").stderr


def test_plan_as_a_page(tempura: Tempura, warehouse: FakeWarehouse, tmp_path: Path) -> None:
    assert tempura("plan", "revenue", "--html", str(tmp_path / "plan.html")).exit_code == 0
    page = (tmp_path / "plan.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "weighted cost 2 s" in page


def test_plan_as_json(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    data = json.loads(tempura("plan", "revenue", "--json").stdout)
    assert (data["method"], data["cost"], len(data["steps"])) == ("im1", 2_000_000_000, 2)


def test_explain_as_json(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    data = json.loads(tempura("explain", "revenue", "--json").stdout)
    assert (data["method"], len(data["steps"])) == ("im1", 2)
    wrong = tempura("explain", "revenue", "--show", "colour", "--json")
    assert (wrong.exit_code, wrong.stderr[:14]) == (1, "[UNKNOWN_SHOW]")


def test_explain_of_one_step(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    text = tempura("explain", "revenue", "--step", "24:00", "--show", "cost").stdout
    assert "step 24:00" in text
    assert "step 2026-01-01 14:00" not in text
    wrong = tempura("explain", "revenue", "--step", "25:00")
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith("[UNKNOWN_TIME]")


def test_explain_of_one_step_as_json(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    whole = json.loads(tempura("explain", "revenue", "--json").stdout)
    found = json.loads(tempura("explain", "revenue", "--step", "24:00", "--json").stdout)
    assert found == whole | {"steps": whole["steps"][1:]}
    wrong = tempura("explain", "revenue", "--step", "25:00", "--json")
    assert (wrong.exit_code, wrong.stderr[:14]) == (1, "[UNKNOWN_TIME]")


def test_result_as_a_table_and_as_json(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    text = tempura("result", "revenue", "--limit", "2").stdout
    assert "1.50" in text
    assert "2 rows; more with --limit" in text
    data = json.loads(tempura("result", "revenue", "--json", "--limit", "0").stdout)
    assert data == {"columns": ["a", "a"], "rows": [[1, None], [2, "1.50"], [3, "2026-01-02"]], "more": False}


def test_changes(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    assert json.loads(tempura("changes", "revenue", "--json").stdout)["rows"] == [[1, "insert", 2]]


@pytest.mark.parametrize(("equal", "code"), [(True, 0), (False, 1)])
def test_verify_tells_by_its_exit_code(tempura: Tempura, warehouse: FakeWarehouse, equal: bool, code: int) -> None:
    warehouse.q.answers["verify"] = Verification(equal, 3, () if equal else ("Row(a=1)",), (), "as bags")
    result = tempura("verify", "revenue")
    assert result.exit_code == code
    assert ("Row(a=1)" in result.stdout) != equal
    assert json.loads(tempura("verify", "revenue", "--json").stdout)["equal"] is equal


EQUAL = Outcome("revenue", Verification(True, 3, (), (), "as bags"))
UNEQUAL = Outcome("costs", Verification(False, 3, ("Row(a=1)",), (), "as bags"))
NEW: Outcome[Verification] = Outcome("new", error=TempuraError("NO_RESULT", "Query new has no result yet.", "Run it."))
TORN: Outcome[Verification] = Outcome("torn", error=TempuraError("CORRUPT", "A file is cut short.", "Restore it."))


def test_all_results_are_verified_and_each_is_told(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    warehouse.verified = (EQUAL, NEW)
    result = tempura("verify", "--all")
    told = ["revenue: equal: 3 rows (as bags)", "new: no result yet", "1 of 1 equal"]
    assert (result.exit_code, result.stdout.splitlines()) == (0, told), "what has no result yet is no failure"
    assert warehouse.q.calls[-1]["names"] == ()


def test_of_several_results_those_that_are_not_equal_are_named(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    warehouse.verified = (UNEQUAL, TORN, EQUAL)
    result = tempura("verify", "--all")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "costs: NOT equal (as bags)", "- Row(a=1)", "revenue: equal: 3 rows (as bags)", "1 of 3 equal; not: costs, torn",
    ]  # fmt: skip
    assert result.stderr == "torn: [CORRUPT] A file is cut short. Restore it.\n"
    lines = [json.loads(line) for line in tempura("verify", "--all", "--json").stdout.splitlines()]
    assert [line["query"] for line in lines] == ["costs", "torn", "revenue"]
    assert [line.get("equal") for line in lines] == [False, None, True]
    assert lines[1]["error"]["code"] == "CORRUPT"


def test_a_query_that_is_named_needs_a_result(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    warehouse.verified = (NEW, EQUAL)
    result = tempura("verify", "new", "revenue")
    assert (result.exit_code, result.stderr) == (1, "new: [NO_RESULT] Query new has no result yet. Run it.\n")


@pytest.mark.parametrize("verified", [(), (NEW,)])
def test_where_there_is_no_result_there_is_nothing_to_verify(
    tempura: Tempura, warehouse: FakeWarehouse, verified: tuple[Outcome[Verification], ...]
) -> None:
    warehouse.verified = verified
    assert tempura("verify", "--all").exit_code == 3


@pytest.mark.parametrize("arguments", [(), ("revenue", "--all")])
def test_what_to_verify_is_said_in_one_way(
    tempura: Tempura, warehouse: FakeWarehouse, arguments: tuple[str, ...]
) -> None:
    assert tempura("verify", *arguments).exit_code == 2


PLAIN = Recomputation(
    time="2026-03-02T01:00:00+00:00",
    label="2026-03-01 24:00",
    versions={"sales": 2},
    rows_read=1_500_000,
    fingerprint="f",
    engine="4.3.0",
    rows=3,
    cpu_seconds=7.0,
    driver_seconds=1.0,
    wall_seconds=4.0,
    runs=4,
)
SAVED = Savings("revenue", 3, 1, 0, "2026-03-01T14:00:00+00:00", 2.0, 1.0, 8.0, 4.0, (PLAIN,))
LOST = Savings("costs", 2, 2, 4, "2026-03-01T14:00:00+00:00", 3.0, 1.0, 2.0, 2.0, (PLAIN,))
UNMEASURED = Savings("revenue", 3, 1, 0, "2026-03-01T14:00:00+00:00", 2.0, 1.0, None, None, ())
UNRUN = Savings("new", 0, 0, 0, None, 0.0, 0.0, None, None, ())


def test_what_was_saved_is_told_and_what_was_lost(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    torn: Outcome[Savings] = Outcome("torn", error=TORN.error)
    warehouse.saved = (Outcome("revenue", SAVED), Outcome("costs", LOST), Outcome("new", UNRUN), torn)
    result = tempura("savings")
    assert result.exit_code == 1, "one of them is broken"
    head, first, second, third, *below = result.stdout.splitlines()
    assert head.split("  ")[0] == "query"
    assert first.split()[:4] == ["revenue", "2026-03-01T14:00", "3", "1"]
    assert " ".join(first.split()[4:]) == "2.00 8.00 75 % less 1.00 4.00 75 % less"
    assert second.split()[:4] == ["costs", "2026-03-01T14:00", "2", "2"]
    assert " ".join(second.split()[4:]) == "3.00 2.00 50 % more 1.00 2.00 50 % less"
    assert third.split() == ["new", "0", "0"]
    plain = "plain Spark took 8.00 CPU s, 4.00 s to recompute 2026-03-01 24:00 over 1,500,000 rows"
    fastest = "(the fastest of 4 runs), 2026-03-02T01:00:00"
    unknown = "a table was reset since, or is not declared any more"
    assert below == [
        f"revenue: {plain} {fastest}",
        f"costs: {plain} {fastest}",
        f"costs: left out are 4 of its runs, over rows of which nothing is known: {unknown}",
        "new: has not run",
    ]
    assert result.stderr == "torn: [CORRUPT] A file is cut short. Restore it.\n"
    assert warehouse.q.calls == [{"told": ()}]
    lines = [json.loads(line) for line in tempura("savings", "--json").stdout.splitlines()]
    assert [line.get("cpu_saved") for line in lines] == [0.75, -0.5, None, None]
    assert lines[0]["measured"][0]["wall_seconds"] == 4.0
    assert lines[3]["error"]["code"] == "CORRUPT"


def test_who_has_heard_enough_may_go(
    tempura: Tempura, warehouse: FakeWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``tempura savings --json | head``: the pipe is closed, which says nothing of Spark."""

    def gone(text: str) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    warehouse.saved = (Outcome("revenue", SAVED),)
    monkeypatch.setattr(click, "echo", gone)
    monkeypatch.setattr(Console, "on_broken_pipe", lambda self: sys.exit(1))
    for arguments in (("savings", "--json"), ("status", "--json"), ("history", "revenue", "--json")):
        result = tempura(*arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", "")


def test_what_was_not_measured_is_not_told_but_how_to(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    warehouse.saved = (Outcome("revenue", UNMEASURED),)
    result = tempura("savings", "revenue")
    assert result.exit_code == 0
    assert "revenue: not measured yet. Measure it: tempura savings revenue --measure" in result.stdout
    assert "%" not in result.stdout


def test_measuring_tells_what_plain_spark_took_and_then_what_was_saved(
    tempura: Tempura, warehouse: FakeWarehouse
) -> None:
    warehouse.measured, warehouse.saved = (Outcome("revenue", PLAIN),), (Outcome("revenue", SAVED),)
    result = tempura("savings", "revenue", "--measure")
    assert (result.exit_code, result.stdout.count("plain Spark took 8.00 CPU s")) == (0, 2)
    assert warehouse.q.calls == [{"measured": ("revenue",)}, {"told": ("revenue",)}]


def test_measuring_all_is_done_when_one_cannot_be(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    new: Outcome[Recomputation] = Outcome("new", error=NEW.error)
    torn: Outcome[Recomputation] = Outcome("torn", error=TORN.error)
    warehouse.measured = (new, Outcome("revenue", PLAIN))
    assert tempura("savings", "--measure", "--all").exit_code == 0, "what has no result yet is no failure"
    assert tempura("savings", "--measure", "new", "revenue").exit_code == 1, "but it is where it was named"
    warehouse.measured = (torn, Outcome("revenue", PLAIN))
    result = tempura("savings", "--measure", "--all")
    assert (result.exit_code, "torn: [CORRUPT]" in result.stderr) == (1, True)
    warehouse.measured = (new,)
    assert tempura("savings", "--measure", "--all").exit_code == 3


@pytest.mark.parametrize("arguments", [("--measure",), ("revenue", "--measure", "--all"), ("--all",)])
def test_what_to_measure_is_said_in_one_way(
    tempura: Tempura, warehouse: FakeWarehouse, arguments: tuple[str, ...]
) -> None:
    assert tempura("savings", *arguments).exit_code == 2
    assert warehouse.q.calls == []


def test_history_status_and_gc(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    assert "im1" in tempura("history", "revenue").stdout
    assert json.loads(tempura("history", "revenue", "--json").stdout)[0]["skipped"] == ["14:00"]
    assert "12,345" in tempura("status").stdout
    assert json.loads(tempura("status", "--json").stdout)["tables"]["sales"]["rows"] == 12345
    assert json.loads(tempura("gc", "--keep", "1", "--json").stdout) == ["queries/revenue/attempts/x"]
    assert json.loads(tempura("gc", "--json", "--bytes").stdout) == {"results": 2000}
    assert "results: 2,000 bytes removed\n2 removed" in tempura("gc").stdout
    assert "3 to be removed" in tempura("gc", "--dry-run", "--keep", "3").stdout
    assert "ledger: 2,000 bytes removed" in tempura("gc", "--runs", "2000").stdout


def test_query_replace_asks(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    command = ("query", "replace", "revenue", "--sql", "SELECT 2")
    assert "to be built: join" in tempura(*command, "--dry-run").stdout
    assert "Replace it?" in tempura(*command).stdout
    assert warehouse.added == []
    assert "kept: agg (2 rows)" in tempura(*command, "--yes").stdout
    assert json.loads(tempura(*command, "--json").stdout)["rebuilt"] == ["join"]
    assert warehouse.added == [("revenue", {"sql": "SELECT 2"})] * 2


def test_table_add_resolves_its_path(tempura: Tempura, warehouse: FakeWarehouse, tmp_path: Path) -> None:
    assert tempura("table", "add", "sales", "--path", "lake", "--key", "a", "--key", "b", "--static").exit_code == 0
    name, given = warehouse.added[0]
    assert (name, given["path"], given["keys"], given["static"]) == ("sales", str(tmp_path / "lake"), ["a", "b"], True)


def test_table_add_takes_options_and_queries(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    given = ("--path", "lake", "--format", "csv", "--option", "sep=;", "--option", "nullValue=a=b")
    assert tempura("table", "add", "sales", *given).exit_code == 0
    assert tempura("table", "add", "sums", "--from-query", "revenue").exit_code == 0
    assert tempura("table", "add", "t", "--option", "sep").exit_code == 2
    (_, first), (_, second) = warehouse.added
    assert (first["format"], first["options"]) == ("csv", {"sep": ";", "nullValue": "a=b"})
    assert (second["query"], second["path"]) == ("revenue", None)


def test_table_add_says_what_becomes_of_links_and_new_columns(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    assert tempura("table", "add", "a", "--path", "lake").exit_code == 0
    assert tempura("table", "add", "b", "--path", "lake", "--follow-links", "--new-columns", "add").exit_code == 0
    assert tempura("table", "add", "c", "--path", "lake", "--new-columns", "rename").exit_code == 2
    found = [(given["follow_links"], given["new_columns"]) for _, given in warehouse.added]
    assert found == [(False, ""), (True, "add")]


def test_warnings_are_one_line_on_standard_error(
    tempura: Tempura, warehouse: FakeWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warning(keep: int, dry_run: bool, runs: int | None) -> Removed:
        warnings.warn("look", TempuraWarning, stacklevel=1)
        return Removed((), {})

    monkeypatch.setattr(warehouse, "gc", warning)
    for _ in range(2):
        assert tempura("gc").stderr == "look\n"


def test_query_output(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    assert "/marts/r" in tempura("query", "output", "revenue", "--path", "/marts/r").stdout
    found = tempura("query", "output", "revenue", "--path", "/r", "--mode", "upsert", "--key", "a", "--json")
    assert json.loads(found.stdout) == {"query": "revenue", "path": "/r", "mode": "upsert", "keys": ["a"]}
    assert warehouse.q.calls == [{"output": ("/marts/r", "replace", ())}, {"output": ("/r", "upsert", ("a",))}]
    assert tempura("query", "output", "revenue", "--path", "/r", "--mode", "append").exit_code == 2


def test_remedies_name_commands(tempura: Tempura, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = open_site(tmp_path, BagEngine(), Files())
    monkeypatch.setattr(tp, "open", lambda folder, spark=None: empty)
    assert "Make it with: tempura query add NAME" in tempura("run", "revenue").stderr
    assert 'Add --schema "id INT' in tempura("table", "add", "t").stderr


def test_a_run_notes_the_classes_that_later_commands_load(
    tempura: Tempura, warehouse: FakeWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[bool] = []
    monkeypatch.setattr("tempura.cli.shell.start_session", lambda name, config, noting: noted.append(noting))

    def opened(folder: Path, spark: Callable[[], object]) -> FakeWarehouse:
        spark()
        return warehouse

    monkeypatch.setattr(tp, "open", opened)
    tempura("status")
    tempura("run", "revenue")
    assert noted == [False, True]


def test_query_add_makes_the_schedule(tempura: Tempura, warehouse: FakeWarehouse, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1")
    add = ("query", "add", "q", "--file", "q.sql")
    assert tempura(*add, "--at", "24:00=1", "--at", "14:00=0.25").exit_code == 0
    assert tempura(*add, "--view", "--refreshes", "5").exit_code == 0
    first, second = (given for _, given in warehouse.added)
    daily = tp.Schedule.progressive({"14:00": 0.25, "24:00": 1.0})
    assert first == {
        "sql": "SELECT 1",
        "schedule": daily,
        "methods": None,
        "require": None,
        "state_budget": None,
        "storage_price": None,
    }
    assert second["schedule"] == tp.Schedule.view(5)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--sql", "SELECT 1"),
        ("--sql", "SELECT 1", "--view", "--at", "24:00=1"),
        ("--view",),
        ("--sql", "SELECT 1", "--at", "24:00"),
    ],
)
def test_query_add_refuses_what_does_not_fit(
    tempura: Tempura, warehouse: FakeWarehouse, arguments: tuple[str, ...]
) -> None:
    assert tempura("query", "add", "q", *arguments).exit_code == 2
    assert warehouse.added == []


@pytest.mark.parametrize(
    ("arguments", "useless"),
    [
        (("query", "add", "q", "--at", "24:00=1", "--refreshes", "30"), "--refreshes goes with --view only"),
        (("query", "add", "q", "--view", "--timezone", "UTC"), "--timezone goes with --at or --until only"),
        (("query", "add", "q", "--view", "--since", "12:00"), "--since goes with --until only"),
        (("query", "add", "q", "--at", "24:00=1", "--final-work", "0.1"), "--final-work goes with --until only"),
        (("query", "add", "q", "--at", "24:00=1", "--total-work", "2"), "--total-work goes with --until only"),
        (("query", "add", "q", "--view", "--max-pace", "100"), "--max-pace goes with --until only"),
        (("query", "add", "q", "--view", "--strategy", "inqp"), "--strategy goes with --until only"),
        (("query", "add", "q", "--view", "--pace", "sales=2"), "--pace goes with --until only"),
        (
            ("query", "add", "q", "--until", "18:00", "--pace", "sales=2", "--strategy", "inqp"),
            "--strategy says nothing beside --pace",
        ),
        (("query", "add", "q", "--until", "18:00", "--pace", "a=2", "--pace", "a=3"), "a is given twice"),
        (("table", "add", "t", "--value-format", "json"), "--value-format goes with --topic only"),
        (("table", "add", "t", "--option", "sep=;", "--option", "sep=,"), "sep is given twice"),
        (("table", "add", "t", "--references", "a=t.b", "--references", "a=u.b"), "a is given twice"),
        (("run", "q", "--every", "5"), "--every goes with --follow only"),
        (("gc", "--bytes"), "--bytes goes with --json only"),
    ],
)
def test_what_would_say_nothing_is_refused(
    tempura: Tempura, warehouse: FakeWarehouse, arguments: tuple[str, ...], useless: str
) -> None:
    """Also what has its usual value: who gives it expects something of it."""
    query = ("--sql", "SELECT 1") if arguments[0] == "query" else ()
    refused = tempura(*arguments, *query)
    assert refused.exit_code == 2
    assert useless in refused.stderr
    assert warehouse.added == []


def test_the_help_says_beside_which_options_one_counts(tempura: Tempura) -> None:
    told = " ".join(tempura("query", "add", "--help").stdout.split())
    assert "With --view: refreshes that pay for the first build." in told
    assert "With --at or --until: time zone of the times; the session's unless given." in told


def test_a_time_that_is_given_twice_is_refused(tempura: Tempura, warehouse: FakeWarehouse) -> None:
    twice = ("--at", "14:00=0.1", "--at", "24:00=1", "--at", "14:00=0.9")
    refused = tempura("query", "add", "q", "--sql", "SELECT 1", *twice)
    assert refused.exit_code == 1
    assert "[BAD_SCHEDULE]" in refused.stderr
    assert "14:00" in refused.stderr
    assert tempura("plan", "q", "--times", "14:00=0.1,14:00=0.9").exit_code == 1
    assert warehouse.added == []


def test_methods_are_all_or_a_list() -> None:
    assert method_names("all") == "all"
    assert method_names("im1, batch") == ["im1", "batch"]


def test_values_for_json_lose_nothing() -> None:
    assert plain([b"\x01", float("nan"), True, {"a": (Decimal("1.0"),)}]) == ["01", "nan", True, {"a": ["1.0"]}]


def test_cells() -> None:
    assert [cell(v) for v in (None, 1234, 0.5, True, "x")] == ["", "1,234", "0.50", "True", "x"]


def test_rows_keep_duplicate_names(capsys: pytest.CaptureFixture[str]) -> None:
    Rows(["a", "a"], [(1, 2)], more=False).print(Shell(Path()), as_json=True)
    assert json.loads(capsys.readouterr().out)["rows"] == [[1, 2]]


def test_the_verdict_is_honest() -> None:
    assert verdict([4.0, 1.0, 0.5], [0.25, 0.3, 1.0], 2.0) == [
        "CPU at the deadline: 0.5 s, 75 % less than plain Spark (2.0).",
        "CPU in all, weighted by price: 1.8 s, 10 % less.",
    ]
    assert verdict([0.0, 0.0, 3.0], [0.25, 0.3, 1.0], 2.0) == [
        "CPU at the deadline: 3.0 s, 50 % more than plain Spark (2.0).",
        "CPU in all, weighted by price: 3.0 s, 50 % more.",
    ]
    assert percent(1.0, 0.0) == "not comparable with nothing"


def test_stages_are_lines_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with Shell(Path()).stages() as stage:
        stage("planning")
        stage("running")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "… planning\n… running\n")


def test_the_demo_does_not_write_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    result = CliRunner().invoke(main, ["demo", "--folder", str(tmp_path)])
    assert result.exit_code == 1
    assert "[FOLDER_NOT_EMPTY]" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_demo_replaces_what_an_earlier_one_left(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "demo"
    workspace(folder)
    (folder / "old").touch()
    workspace(folder)
    assert [path.name for path in folder.iterdir()] == [MARKER]
