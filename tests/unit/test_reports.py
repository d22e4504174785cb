"""What plans, runs, history and status say: what a step does to a result, read off the step, and nothing that contradicts itself."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

import tempura as tp
from tempura.algebra.one import beside
from tempura.algebra.rel import Aggregate, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref
from tempura.cli.main import main
from tempura.errors import Reason, TempuraError
from tempura.execute.contract import Clocks
from tempura.explain.character import (
    BUILT,
    BY_OPERATORS,
    IN_PART,
    MAINTAINED,
    NOTHING,
    PREPARED,
    RECOMPUTED,
    Character,
    RecomputedPart,
    character,
)
from tempura.physical.operators import Load
from tempura.plan.progressive import ProgressivePlan
from tempura.rules.methods import TEMPURA
from tempura.search.planner import make_plan
from tempura.search.problem import MARGIN, Point, Problem, TableFacts
from tempura.warehouse.runs.entries import history_of
from tempura.warehouse.runs.report import listed
from tempura.warehouse.times import phases
from tempura.warehouse.times.phases import COMPUTING, LOOKING, PLANNING, STORING, Stopwatch
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.steps import StepManifest
from tests.unit import bag_engine
from tests.unit.bag_engine import COUNT, LARGE, SUMMARY, columns_of
from tests.unit.test_churn import PRICES, VIEWS
from tests.unit.test_warehouse import DAILY, FIRST, SECOND, World, code, world

__all__ = ["world"]


def facts(*inserted: int, deleted: tuple[int, ...] = ()) -> TableFacts:
    return TableFacts(inserted, deleted or (0,) * len(inserted), 2)


def maximum() -> Rel:
    """The greatest price of all sales: when a row may have gone, it is looked for anew."""
    price = columns_of("s", ("price", "int"))
    greatest = AggregateOutput(Column("m", "m", "int"), AggregateCall("Max", (Ref(price[0]),), "int"))
    return Aggregate(Scan("sales", ("price",), price), (), (greatest,))


def sales_beside_maximum() -> Rel:
    """Beside the number of sales per category, which is maintained, the greatest price of all, which is not."""
    sales = columns_of("c", ("cat", "string"))
    count = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint"))
    key = Output(Column("k", "cat", "string"), Ref(sales[0]))
    return beside(Aggregate(Scan("sales", ("cat",), sales), (key,), (count,)), maximum())


TWO = {"sales": facts(1_000_000, 1_001_000, 1_002_000), "returns": facts(100_000, 100_100, 100_200)}
POINTS = (Point(0.0, False, done=True), Point(1.0, True), Point(1.0, True))


def planned(query: Rel, methods: tuple[str, ...], tables: dict[str, TableFacts]) -> ProgressivePlan:
    """The plan of a refresh for which the one before, with the same methods, left its states."""
    before = {n: TableFacts(t.inserted[:2], t.deleted[:2], 1) for n, t in tables.items()}
    build = make_plan(Problem(query, (Point(1.0, True), Point(1.0, True)), before), methods)
    states = frozenset(save.key for save in build.steps[0].saves)
    return make_plan(Problem(query, POINTS, tables, states), methods)


class TestCharacter:
    def test_a_refresh_that_rebuilds_everything_is_told_so(self) -> None:
        """And: today im1 is printed for refreshes that rebuilt everything."""
        step = make_plan(Problem(VIEWS["inner"](), POINTS, TWO), ("im1",)).steps[0]
        assert not any(isinstance(rel, Load) for rel in step.operators)
        assert character(step, set(TWO)) == Character(RECOMPUTED)
        assert character(step, set(TWO), first=True) == Character(BUILT)

    def test_from_states(self) -> None:
        step = planned(VIEWS["inner"](), ("im1",), TWO).steps[0]
        assert character(step, set(TWO)) == Character(MAINTAINED, 1)
        assert str(character(step, set(TWO))) == "maintained from 1 state"
        assert character(step, set(TWO)).covered == 1
        assert character(step, set()).covered is None, "nothing has arrived that would be followed"

    def test_batch_is_recomputed(self) -> None:
        found = character(planned(VIEWS["inner"](), ("batch",), TWO).steps[0], set(TWO))
        assert (found.kind, found.covered) == (RECOMPUTED, 0)

    def test_a_part_is_named_with_its_reason_and_cost(self) -> None:
        losing = {"sales": TableFacts((100_000_000, 100_100_000, 100_200_000), (0, 50_000, 100_000), 2)}
        query = sales_beside_maximum()
        step = planned(query, ("im1",), losing).steps[0]
        found = character(step, set(losing))
        assert found.kind == IN_PART, found
        assert all(part.cost > 0 for part in found.parts)
        assert any(part.why.startswith("EXTREME_DELETED") for part in found.parts), found.parts
        assert found.covered is not None
        assert 0 < found.covered < 1

    def test_a_table_in_which_nothing_arrived_may_be_joined_whole(self) -> None:
        still = {"sales": TWO["sales"], "returns": facts(100_000, 100_000, 100_000)}
        step = planned(VIEWS["inner"](), ("im1",), still).steps[0]
        assert character(step, {"sales"}).kind == MAINTAINED

    def test_work_ahead_is_prepared(self) -> None:
        points = (Point(0.01, False), Point(1.0, True))
        tables = {n: TableFacts(t.inserted[:2], t.deleted[:2], 1) for n, t in TWO.items()}
        ahead, due = make_plan(Problem(VIEWS["inner"](), points, tables), ("im1",)).steps
        assert character(ahead, set(TWO), first=True) == Character(PREPARED)
        assert character(due, set(TWO), first=True).kind == MAINTAINED

    def test_it_survives_json(self) -> None:
        some = Character(IN_PART, 2, (RecomputedPart("top 3", "TOP_K: …", 7),), ("why",), 0.25, BY_OPERATORS)
        again = Character.from_json(json.loads(json.dumps(some.to_json())))
        assert (again, again.covered, again.way) == (some, 0.25, BY_OPERATORS)


@pytest.fixture
def dear(world: World) -> None:
    """Prices by which states pay for few rows too."""
    world.engine.prices = PRICES


class TestRunsTell:
    def test_built_then_maintained_and_history_says_so(self, world: World) -> None:
        world.engine.prices = PRICES
        query = world.query(Schedule.view())
        world.put("a", FIRST * 20)
        assert query.run(methods="im1").does == Character(BUILT)
        world.put("b", SECOND)
        report = query.run(methods="im1")
        assert report.does == Character(MAINTAINED, 1)
        assert "maintained from 1 state" in str(report)
        world.put("c", SECOND)
        rebuilt = query.run(methods="batch")
        assert rebuilt.does is not None
        assert rebuilt.does.kind == RECOMPUTED
        kinds = [entry.does.kind for entry in world.wh.query("summary").history() if entry.does]
        assert kinds == [BUILT, MAINTAINED, RECOMPUTED]
        assert query.history()[1].to_json()["does"]["states"] == 1
        assert report.to_json()["does"]["kind"] == MAINTAINED
        assert world.wh.status()["queries"]["summary"]["does"] == RECOMPUTED
        assert "maintained from 1 state" in query.steps()[1].plan

    def test_recomputed_says_what_maintaining_would_cost(self, world: World) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        query.run()
        world.put("b", SECOND)
        report = query.run()
        assert report.does is not None
        assert report.does.why[-1].startswith("to maintain it is estimated to cost more: ")
        assert f"recomputed: {report.does.why[-1]}" in str(report)

    def test_recomputed_says_that_maintaining_promises_too_little(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.engine.prices = PRICES
        query = world.query(Schedule.view())
        world.put("a", [(n, "a", n) for n in range(400)])
        query.run(methods="batch")
        world.put("b", SECOND)
        monkeypatch.setattr("tempura.warehouse.runs.situation.MARGIN_OF_VIEWS", 0.99)
        states, batch = query.plan(methods=["im1"]), query.plan(methods="batch")
        assert states.cost < batch.cost
        assert states.steps[0].cost > batch.steps[0].cost, "a bet on the refresh after this one"
        found = query.plan()
        assert found.method == "batch"
        assert (
            found.does[0]
            .why[-1]
            .startswith("to maintain it is estimated to cost less, but by under 99%, which estimates may be wrong by: ")
        )

    def test_what_tasks_and_driver_took_is_told(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        report = query.run()
        assert (report.cpu_seconds, report.driver_seconds, report.all_cpu_seconds) == (0.5, 0.125, 0.625)
        head, line = str(report).splitlines()[:2]
        at = head.index("tasks s")
        assert head[at:].split()[:6] == ["tasks", "s", "driver", "s", "wall", "s"]
        assert line[at:].split()[:3] == ["0.50", "0.12", "0.25"]
        (entry,) = query.history()
        assert (entry.driver_seconds, entry.actual_cost) == (0.125, 625_000_000)
        monkeypatch.setattr(tp, "open", lambda folder, spark=None: world.open())
        told = CliRunner().invoke(main, ["-C", str(world.wh.path), "history", "summary"]).stdout
        assert "tasks s  driver s  wall s  beside s" in told
        assert re.search(r"0\.50 +0\.12 +0\.25 +3\.00", told)

    def test_what_each_phase_took_is_told(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        report = query.run()
        assert list(report.phases) == [LOOKING, PLANNING, COMPUTING, STORING]
        once = Clocks(1.0, 0.5, 0.25)
        assert set(report.phases.values()) == {once}
        told = (
            "looking 1.00 s (0.75 CPU s), planning 1.00 s (0.75 CPU s), computing 1.00 s, storing 1.00 s (0.75 CPU s)"
        )
        assert str(report).splitlines()[2] == told
        (entry,) = query.history()
        assert (entry.phases, entry.beside_seconds) == (report.phases, 3.0)
        assert entry.to_json()["phases"][PLANNING] == {"wall_seconds": 1.0, "jvm_seconds": 0.5, "python_seconds": 0.25}
        assert query.run().phases == {}, "nothing was done"

    def test_many_times_that_were_skipped_are_counted(self) -> None:
        assert listed(["14:00", "19:00"]) == "14:00, 19:00"
        assert listed([f"{n:02}:00" for n in range(24)]) == "24 times, 00:00 to 23:00"

    def test_a_phase_goes_on_and_counts_when_it_fails(self) -> None:
        times = iter([Clocks(1.0), Clocks(3.0), Clocks(10.0), Clocks(14.0, 2.0)])
        watch = Stopwatch(lambda: next(times))
        with pytest.raises(ValueError, match="no"), watch.phase(COMPUTING):
            raise ValueError("no")
        with watch.phase(COMPUTING):
            pass
        assert watch.phases == {COMPUTING: Clocks(6.0, 2.0)}
        with pytest.raises(ValueError, match="first"), Stopwatch(iter([Clocks()]).__next__).phase(PLANNING):
            raise ValueError("first: the clocks cannot be asked any more")
        assert phases.from_json(json.loads(json.dumps(phases.to_json(watch.phases)))) == watch.phases

    def test_a_manifest_of_before_that_was_told_is_read(self, world: World) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        query.run()
        data = query.steps()[0].to_json()
        assert StepManifest.from_json(data) == query.steps()[0]
        del data["does"], data["driver_seconds"], data["phases"], data["estimated_fixed"], data["choice"]
        old = StepManifest.from_json(data)
        assert old.choice is None
        assert (old.does, old.driver_seconds, old.cpu_seconds, old.phases) == (None, 0.0, 0.5, {})
        assert old.estimated_fixed == 0
        assert history_of(old).beside_seconds is None

    def test_work_ahead_is_prepared_and_the_rest_nothing(self, world: World, dear: None) -> None:
        query = world.query(DAILY)
        world.put("a", FIRST)
        kinds = [report.does.kind for t in DAILY.times if (report := query.run(at=t, methods="im1", force=True)).does]
        assert kinds == [NOTHING, PREPARED, MAINTAINED]


QUERIES = {"summary": SUMMARY, "count": COUNT, "large": LARGE} | {n: n for n in ("inner", "outer", "window")}


class TestConsistency:
    """And: explain and status never contradict themselves."""

    @pytest.mark.parametrize("prices", ["spark", "loops"])
    @pytest.mark.parametrize("name", QUERIES)
    def test_plan_run_and_status_agree(
        self, world: World, monkeypatch: pytest.MonkeyPatch, name: str, prices: str
    ) -> None:
        if prices == "loops":
            world.engine.prices = PRICES
        monkeypatch.setattr(bag_engine, "QUERIES", bag_engine.QUERIES | VIEWS)
        random = Random(f"{name} {prices}")
        world.query(Schedule.view())
        query = world.wh.add_query(name, QUERIES[name], schedule=Schedule.view())
        for turn, methods in enumerate([None, "all", "im1", ["im1", "batch"], "im2", None]):
            world.put(
                f"f{turn}", [(10 * turn + i, f"c{i % 3}", random.randrange(300)) for i in range(random.choice((3, 40)))]
            )
            world.push([(random.randrange(10 * turn + 10), 5) for _ in range(random.randrange(4))])
            assert query.status()["due"], "something has arrived"
            found = query.plan(methods)
            self.check_plan(found.plan, found.explain(), found.followed)
            report = query.run(methods=methods)
            assert report.method == found.method
            assert report.estimated_cost == found.steps[0].cost
            assert report.does == found.does[found.steps[0].time]
            assert report.states == len(found.steps[0].saves)
            assert query.history()[-1].does == report.does
            assert query.history()[-1].method == report.method
            assert query.run(methods=methods).nothing
            assert not query.status()["due"], "nothing has arrived"
            assert query.verify()

    def check_plan(self, plan: ProgressivePlan, text: str, followed: int | None) -> None:
        arrows = [line.split() for line in text.splitlines() if line.endswith("<- chosen")]
        assert len(arrows) == 1
        assert arrows[0][0] == plan.method
        assert text.startswith(f"method {plan.method}, weighted cost {' '.join(arrows[0][1:3])}")
        chosen = next(a for a in plan.alternatives if a.chosen)
        assert (chosen.method, chosen.cost) == (plan.method, plan.cost)
        cheapest = min(a.cost for a in plan.alternatives)
        may_differ = followed or chosen.method == "batch"
        assert chosen.cost == cheapest or (may_differ and cheapest > (1 - MARGIN) * chosen.cost)
        saved = {save.key for step in plan.steps for save in step.saves}
        loaded = {rel.key for step in plan.steps for rel in step.operators if isinstance(rel, Load)}
        assert chosen.states == len(saved | loaded)
        rules = {note.rule for step in plan.steps for note in step.notes.values()}
        known = {rule.name for method in TEMPURA.methods.values() for rule in method}
        own = {rule.name for method in plan.method.split("+") for rule in TEMPURA.methods[method]}
        assert rules & known <= own, "the method named is the one whose rules are used"

    def test_states_that_a_plan_only_loads_are_counted(self, world: World) -> None:
        query = world.query(Schedule("ab", (1.0, 1.0), (True, True)))
        world.put("a", FIRST * 20)
        query.run(methods="im1")
        world.put("b", SECOND)
        plan = query.plan(methods="im1").plan
        assert not plan.steps[0].saves
        assert [a.states for a in plan.alternatives] == [1]

    def test_the_states_of_a_status_are_those_that_the_next_run_can_load(self, world: World) -> None:
        query = world.query(Schedule("abc", (0.1, 1.0, 1.0), (True, True, True)))
        world.put("a", FIRST * 20)
        query.run(methods="im1")
        before = query.status()["states"], query.status()["state_bytes"]
        world.put("b", SECOND)
        query.run(methods="batch")
        assert not query.steps()[-1].states
        assert (query.status()["states"], query.status()["state_bytes"]) == before
        assert before[0] == 1

    def test_a_view_over_files_is_due_when_one_comes_and_status_registers_nothing(self, world: World) -> None:
        query = world.query(Schedule.view())
        assert query.status()["due"]
        world.put("a", FIRST)
        query.run()
        assert not query.status()["due"]
        world.put("b", SECOND)
        assert query.status()["due"]
        assert world.wh.status()["tables"]["sales"]["version"] == 1
        (world.lake / "a.parquet").unlink()
        assert query.status()["due"], "a run would tell what is wrong"


class TestMethods:
    def test_they_belong_to_the_declaration(self, world: World) -> None:
        """And: methods belongs to a query's declaration too."""
        world.engine.prices = PRICES
        world.query(Schedule.view())
        query = world.wh.add_query("summary", SUMMARY, methods=["im1"])
        assert 'methods = ["im1"]' in (world.wh.path / "tempura.toml").read_text()
        world.put("a", FIRST * 20)
        assert query.run().method == "im1"
        world.put("b", SECOND)
        again = world.open().query("summary")
        assert again.plan().method == "im1"
        assert again.plan(methods="batch").method == "batch"
        assert again.run().does == Character(MAINTAINED, 1)
        assert world.wh.add_query("summary", SUMMARY).status()["methods"] == ["im1"], "declared again without"
        assert world.wh.add_query("summary", SUMMARY, methods="all").status()["methods"] == ["all"]

    def test_a_replacement_is_planned_with_them(self, world: World) -> None:
        world.query(Schedule.view())
        world.wh.add_query("summary", SUMMARY, methods=["im1"])
        world.put("a", FIRST)
        world.wh.query("summary").run()
        report = world.wh.replace_query("summary", LARGE)
        assert world.wh.query("summary").status()["methods"] == ["im1"]
        assert report.kept
        world.wh.replace_query("summary", SUMMARY, methods="batch")
        assert world.wh.query("summary").plan().method == "batch"

    def test_an_unknown_one_is_refused_at_once_and_when_nothing_is_due(self, world: World) -> None:
        """And: an unknown method is refused also when nothing is due."""
        query = world.query()
        with pytest.raises(TempuraError) as error:
            world.wh.add_query("other", SUMMARY, methods=["im7"])
        assert code(error) == "UNKNOWN_METHOD"
        assert "other" not in world.wh.status()["queries"]
        assert query.run().nothing
        for call in (query.run, query.plan):
            with pytest.raises(TempuraError) as error:
                call(methods="im7")
            assert code(error) == "UNKNOWN_METHOD"

    def test_methods_in_the_file_are_names(self, world: World) -> None:
        world.query(Schedule.view())
        path = world.wh.path / "tempura.toml"
        path.write_text(path.read_text().replace("[queries.summary]", '[queries.summary]\nmethods = "im1"'))
        with pytest.raises(TempuraError) as error:
            world.wh.status()
        assert code(error) == "BAD_TOML"


class TestCommandLine:
    @pytest.fixture
    def run(self, world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
        world.query(Schedule.view())
        monkeypatch.setattr(tp, "open", lambda folder, spark=None: world.open())
        monkeypatch.chdir(world.wh.path)
        return lambda *arguments: CliRunner().invoke(main, arguments)

    def test_methods_and_require_and_expect_are_options(self, world: World, run: Callable[..., Result]) -> None:
        assert run("table", "add", "more", "--schema", "a INT", "--expect", "3%").exit_code == 0
        words = ("query", "add", "more", "--sql", SUMMARY, "--view", "--methods", "im1,im2", "--require", "incremental")
        assert run(*words).exit_code == 0
        text = (world.wh.path / "tempura.toml").read_text()
        assert 'expect = "3%"' in text
        assert 'methods = ["im1", "im2"]\nrequire = "incremental"' in text

    def test_run_history_and_plan_say_what_was_done(self, world: World, run: Callable[..., Result]) -> None:
        world.put("a", FIRST)
        assert "built" in run("run", "summary").stdout
        world.put("b", SECOND)
        assert "assumed to arrive, a forecast and not a fact:\n  returns: nothing by" in run("plan", "summary").stdout
        assert "recomputed: to maintain" in run("run", "summary").stdout
        assert "run 2 recomputed: to maintain it is estimated to cost more" in run("history", "summary").stdout
        told = json.loads(run("history", "summary", "--json").stdout)
        assert [entry["does"]["kind"] for entry in told] == [BUILT, RECOMPUTED]

    def test_a_remedy_names_the_call_of_the_interface_that_was_used(
        self, world: World, run: Callable[..., Result]
    ) -> None:
        """And: remedies name the call of the interface that was used."""
        world.put("a", FIRST)
        query = world.wh.query("summary")
        query.run(methods="batch")
        world.put("b", SECOND)
        with pytest.raises(TempuraError) as error:
            query.run(require="incremental")
        assert code(error) == "NOT_INCREMENTAL"
        assert 'run(require="none")' in error.value.remedy
        told = run("run", "summary", "--require", "incremental")
        assert told.exit_code == 1
        assert "tempura run summary --require none" in told.stderr
        assert "run(" not in told.stderr


COMMAND_LINE = re.compile(r"\btempura [a-z]|(?<!\w)--[a-z]")
PROGRAM = re.compile(r"\b(add_table|add_query|replace_query)\b|\w\(\w+=|\b[a-z]+=(?=[\w\"'])")


def remedies() -> Iterator[tuple[str, str, str]]:
    """Of the errors of a warehouse, which both interfaces can meet: where they are made, the remedy in a program and on the command
    line."""
    source = Path(__file__).parents[2] / "src/tempura/warehouse"
    functions = (
        (path.name, node)
        for path in sorted(source.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    )
    for name, function in functions:
        texts = assigned(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "TempuraError" and len(node.args) > 2:
                given = [arg for arg in node.args[2:] if not isinstance(arg, ast.Starred)]
                spelt = [texts.get(arg.id, "") if isinstance(arg, ast.Name) else ast.unparse(arg) for arg in given]
                yield f"{name} {ast.unparse(node.args[0])}", *((spelt[0], spelt[-1]) if spelt else ("", ""))


def assigned(function: ast.FunctionDef) -> dict[str, str]:
    """The names that a function gives to values, and how those are spelt."""
    found: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = found.get(node.targets[0].id, "") + ast.unparse(node.value)
    return found


def test_no_remedy_in_a_program_is_a_command_and_no_command_is_a_call() -> None:
    wrong = [(where, api) for where, api, _ in remedies() if COMMAND_LINE.search(api)]
    # Rows are pushed by programs only.
    told = [(where, command) for where, _, command in remedies() if "DELETE_OF_MISSING" not in where]
    wrong += [(where, command) for where, command in told if PROGRAM.search(command)]
    assert wrong == []


def test_a_reason_is_told_of_a_part() -> None:
    part = RecomputedPart("top 3", str(Reason("TOP_K", "the sort is repeated")), 2_000_000)
    assert Character(IN_PART, 1, (part,)).lines() == [
        "recomputed: top 3 (0.002 s estimated): TOP_K: the sort is repeated"
    ]
