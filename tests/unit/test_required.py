"""``require="incremental"``: refreshes that do not recompute the whole query, or a refusal with the reasons."""

from dataclasses import replace

import pytest

from tempura.algebra.one import beside
from tempura.algebra.rel import Aggregate, Filter, Opaque, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Ref
from tempura.cost.stats import TableFacts
from tempura.errors import Reason, TempuraError
from tempura.execute.contract import StepOutcome
from tempura.explain.character import BUILT, IN_PART, MAINTAINED, PREPARED, READ_AS_A_WHOLE, RECOMPUTED
from tempura.physical.operators import Load
from tempura.rules.methods import TEMPURA
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.warehouse.commits.files import Files
from tempura.warehouse.engine import Work
from tempura.warehouse.runs.required import Demand, character_of, check_maintainable, incremental_plan, is_maintainable
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.steps import StepManifest
from tempura.warehouse.warehouse import open_site
from tests.unit import bag_engine
from tests.unit.bag_engine import COUNT, SUMMARY, columns_of, count_rel, summary_rel
from tests.unit.test_churn import VIEWS
from tests.unit.test_warehouse import DAILY, FIRST, SECOND, World, code, fails_once, world

__all__ = ["world"]


def opaque(inner: Rel) -> Rel:
    """Spark's own operator over a relation."""
    return Opaque(
        (inner,), inner.columns, "some operator", Reason("UNSUPPORTED_OPERATOR", "a recursion is Spark's own")
    )


def kinds(world: World, name: str = "summary") -> list[str]:
    return [entry.does.kind for entry in world.wh.query(name).history() if entry.does]


class TestAtAddQuery:
    @pytest.mark.parametrize("name", ["inner", "outer", "window"])
    def test_what_can_be_maintained_is_taken(self, name: str) -> None:
        check_maintainable(name, VIEWS[name](), ("all",))

    def test_a_query_that_is_sparks_own_is_refused_with_the_reason(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sales = summary_rel().inputs[0].inputs[0]
        monkeypatch.setitem(bag_engine.QUERIES, "recursion", lambda: opaque(sales))
        world.query()
        with pytest.raises(TempuraError) as error:
            world.wh.add_query("q", "recursion", require="incremental")
        assert code(error) == "NOT_INCREMENTAL"
        assert "UNSUPPORTED_OPERATOR: a recursion is Spark's own" in error.value.what
        assert "q" not in world.wh.status()["queries"]

    def test_what_is_maintained_below_an_operator_of_sparks_is_something(self) -> None:
        assert is_maintainable(opaque(summary_rel()))
        assert not is_maintainable(opaque(summary_rel().inputs[0].inputs[0]))

    def test_batch_alone_maintains_nothing(self, world: World) -> None:
        world.query()
        with pytest.raises(TempuraError) as error:
            world.wh.add_query("summary", SUMMARY, methods="batch", require="incremental")
        assert code(error) == "NOT_INCREMENTAL"
        assert "METHODS: only batch may be used" in error.value.what

    def test_a_query_that_is_row_by_row_is_maintained_by_its_result(self) -> None:
        sales = summary_rel().inputs[0].inputs[0]
        dear = Filter(sales, Call("GreaterThan", (Ref(sales.columns[2]), Literal(5, "int")), "boolean"))
        check_maintainable("q", dear, ("all",))

    def test_nonsense_is_refused(self, world: World) -> None:
        query = world.query()
        for call in (lambda: world.wh.add_query("summary", SUMMARY, require="fast"), lambda: query.run(require="fast")):
            with pytest.raises(TempuraError) as error:
                call()
            assert code(error) == "BAD_REQUIRE"
        path = world.wh.path / "tempura.toml"
        path.write_text(path.read_text().replace("[queries.summary]", '[queries.summary]\nrequire = "fast"'))
        with pytest.raises(TempuraError) as error:
            world.wh.status()
        assert code(error) == "BAD_REQUIRE"


def count_beside_maximum(counted: str, searched: str) -> Rel:
    """The number of rows of one table, which a state tells, beside the greatest value of another, which is looked for anew when a row has
    gone."""
    row, value = columns_of("c", ("o_id", "int")), columns_of("m", ("o_id", "int"))
    number = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint"))
    greatest = AggregateOutput(Column("x", "x", "int"), AggregateCall("Max", (Ref(value[0]),), "int"))
    count = Aggregate(Scan(counted, ("o_id",), row), (), (number,))
    return beside(count, Aggregate(Scan(searched, ("o_id",), value), (), (greatest,)))


class TestTheWholeQuery:
    """A refresh that loads a little and recomputes the rest recomputes the whole query; one that recomputes the lesser part does not."""

    LARGE = TableFacts((1_000_000, 1_010_000), (0, 1_000), 2)
    STILL = TableFacts((1_000, 1_000), (0, 0), 2)
    POINTS = (Point(0.0, False, done=True), Point(1.0, True))

    def problem(self, query: Rel, tables: dict[str, TableFacts]) -> Problem:
        """A refresh for which each count is stored, and nothing else."""
        before = {n: TableFacts(t.inserted[:1], t.deleted[:1], 1) for n, t in tables.items()}
        later = {n: TableFacts((*t.inserted[:1], 2 * t.inserted[0]), (0, 0), 1) for n, t in before.items()}
        build = make_plan(Problem(query, (Point(1.0, True), Point(1.0, True)), later), ("im1",), strict=True)
        return Problem(query, self.POINTS, tables, frozenset(save.key for save in build.steps[0].saves))

    def test_what_is_loaded_is_the_lesser_part(self) -> None:
        query = count_beside_maximum("returns", "sales")
        problem = self.problem(query, {"sales": self.LARGE, "returns": self.STILL})
        step = make_plan(problem, ("im1",), strict=True).steps[0]
        assert any(isinstance(rel, Load) for rel in step.operators)
        found = character_of(step, problem)
        assert found.kind == RECOMPUTED, found
        assert found.why == (READ_AS_A_WHOLE,)
        with pytest.raises(TempuraError) as error:
            incremental_plan("q", problem, ("all",), begun=True)
        assert code(error) == "NOT_INCREMENTAL"
        assert "READ_AS_A_WHOLE" in error.value.what
        assert "EXTREME_DELETED" in error.value.what

    def test_what_is_recomputed_is_the_lesser_part(self) -> None:
        still, losing = (
            replace(self.LARGE, inserted=(1_000_000,) * 2, deleted=(0, 0)),
            replace(self.STILL, deleted=(0, 9)),
        )
        problem = self.problem(count_beside_maximum("sales", "returns"), {"sales": still, "returns": losing})
        step = incremental_plan("q", problem, ("all",), begun=True).steps[0]
        found = character_of(step, problem)
        assert found.kind == IN_PART, found
        assert any(part.why.startswith("EXTREME_DELETED") for part in found.parts)

    def test_a_table_that_is_followed_by_what_arrived_is_maintained(self) -> None:
        problem = self.problem(count_beside_maximum("sales", "sales"), {"sales": self.LARGE})
        found = character_of(incremental_plan("q", problem, ("all",), begun=True).steps[0], problem)
        assert found.kind == IN_PART, found


class TestAtARun:
    def test_what_fails_for_a_row_is_not_silently_recomputed(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.query(Schedule.view())
        query = world.wh.add_query("summary", SUMMARY, require="incremental")
        world.put("a", FIRST)
        query.run()
        world.put("b", SECOND)
        execute = world.engine.execute

        def fails_for_a_row(work: Work) -> StepOutcome:
            if any(isinstance(rel, Load) for rel in work.step.operators):
                raise TempuraError("DIVIDE_BY_ZERO", "Division by zero.", "Correct the rows.")
            return execute(work)

        monkeypatch.setattr(world.engine, "execute", fails_for_a_row)
        with pytest.raises(TempuraError) as error:
            query.run()
        assert code(error) == "DIVIDE_BY_ZERO"
        assert 'run(require="none")' in error.value.remedy
        assert "tempura run summary --require none" in error.value.command
        assert len(query.history()) == 1
        assert query.run(require="none").rows == 3
        assert query.verify()

    def test_a_view_is_maintained_although_to_recompute_is_cheaper(self, world: World) -> None:
        """Tables so small that by cost alone nothing is ever kept."""
        world.query(Schedule.view())
        query = world.wh.add_query("summary", SUMMARY, require="incremental")
        world.put("a", FIRST)
        query.run()
        for i in range(4):
            world.push([(i + 1, 5)], [(i, 5)] if i else [])
            query.run()
            assert query.verify()
        assert kinds(world) == [BUILT] + [MAINTAINED] * 4
        world.wh.add_query("free", SUMMARY, schedule=Schedule.view())
        world.wh.query("free").run()
        world.push([(1, 9)])
        world.wh.query("free").run()
        assert kinds(world, "free") == [BUILT, RECOMPUTED], "so it is without the demand"

    def test_without_states_it_is_refused_before_anything_is_done(self, world: World) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        query.run(methods="batch")
        world.put("b", SECOND)
        executed = world.engine.executed
        query = world.wh.add_query("summary", SUMMARY, require="incremental")
        for call in (query.run, query.plan):
            with pytest.raises(TempuraError) as error:
                call()
            assert code(error) == "NOT_INCREMENTAL"
            assert "NO_STATES" in error.value.what
        assert (world.engine.executed, len(query.history())) == (executed, 1)

    def test_the_way_on_is_to_compute_it_anew_once(self, world: World) -> None:
        self.test_without_states_it_is_refused_before_anything_is_done(world)
        query = world.wh.query("summary")
        assert query.run(require="none").rows == 3
        world.push([(1, 5)], [])
        assert query.run().rows == 3
        assert kinds(world) == [BUILT, RECOMPUTED, MAINTAINED]
        assert query.verify()

    def test_a_damaged_state_is_a_reason(self, world: World) -> None:
        world.query(Schedule.view())
        query = world.wh.add_query("summary", SUMMARY, require="incremental")
        world.put("a", FIRST)
        query.run()
        for file in world.wh.path.glob("queries/summary/attempts/*/states/*/rows.json"):
            file.write_text("[]")
        world.put("b", SECOND)
        with pytest.raises(TempuraError) as error:
            query.run()
        assert code(error) == "NOT_INCREMENTAL"
        assert "STATE_DAMAGED" in error.value.what
        assert query.run(require="none").rows == 3
        assert query.verify()

    def test_a_daily_query_has_the_work_ahead_that_it_needs(self, world: World) -> None:
        world.query(DAILY)
        query = world.wh.add_query("summary", SUMMARY, require="incremental")
        for day in range(3):
            for label in DAILY.times:
                world.put(f"{day} {label[:2]}", [(100 * day + int(label[:2]), "c1", 7)])
                query.run(at=label, force=True)
        results = [kind for kind in kinds(world) if kind not in (PREPARED, "nothing done")]
        assert results[1:] == [MAINTAINED] * 2, kinds(world)
        assert query.verify()

    def test_a_demand_for_one_run_and_its_end(self, world: World) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        query.run(require="incremental")
        world.put("b", SECOND)
        assert query.plan(require="incremental").does[1].kind == MAINTAINED
        query.run(require="incremental")
        assert kinds(world) == [BUILT, MAINTAINED]
        assert world.wh.add_query("count", COUNT, require="incremental").status()["require"] == "incremental"
        assert world.wh.add_query("count", COUNT).status()["require"] == "incremental"
        assert world.wh.add_query("count", COUNT, require="none").status()["require"] is None

    def test_the_demand_is_that_of_a_replacement_too(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        sales = count_rel().inputs[0]
        monkeypatch.setitem(bag_engine.QUERIES, "recursion", lambda: opaque(sales))
        world.query(Schedule.view())
        world.wh.add_query("summary", SUMMARY, require="incremental")
        with pytest.raises(TempuraError) as error:
            world.wh.replace_query("summary", "recursion")
        assert code(error) == "NOT_INCREMENTAL"
        assert world.wh.query("summary").sql == SUMMARY


ANEW = replace(
    TEMPURA,
    methods={"anew" if name == "batch" else name: rules for name, rules in TEMPURA.methods.items()},
    recomputing=frozenset({"anew"}),
)
"""A registry in which what recomputes has another name."""


class TestWhatRecomputesIsKnownByTheRegistry:
    def test_it_maintains_nothing(self) -> None:
        with pytest.raises(TempuraError, match="METHODS: only anew may be used"):
            check_maintainable("q", summary_rel(), ("anew",), ANEW)
        check_maintainable("q", summary_rel(), ("all",), ANEW)

    @pytest.mark.parametrize(
        ("methods", "is_by_cost"), [("all", True), ("anew", True), ("im1,anew", True), ("im1", False)]
    )
    def test_what_may_recompute_is_planned_by_cost(self, methods: str, is_by_cost: bool) -> None:
        asked = tuple(methods.split(","))
        assert Demand(asked, incremental=False, anew=False).is_by_cost(ANEW) is is_by_cost
        assert not Demand(asked, incremental=True, anew=False).is_by_cost(ANEW)
        assert not Demand(asked, incremental=False, anew=True).is_by_cost(ANEW)

    def test_a_result_that_fails_by_deltas_is_computed_by_it(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.wh = open_site(world.folder / "wh", world.engine, Files(), lambda: world.now, rules=ANEW)
        query = world.query(Schedule.view(30))
        world.put("a", FIRST)
        query.run(methods="im1")
        world.put("b", SECOND)
        fails_once(world, monkeypatch)
        assert query.run(methods="im1").method == "anew"
        assert query.verify()
        maintained, recomputed = query.steps()
        assert (maintained.recomputes, recomputed.recomputes) == (False, True)
        assert (replace(maintained, weight=0.1).has_begun, replace(recomputed, weight=0.1).has_begun) == (True, False)

        noted = recomputed.to_json()
        assert noted["recomputing"] == ["anew"]
        assert StepManifest.from_json(noted) == recomputed

    def test_of_tempuras_own_and_of_earlier_versions_nothing_is_noted(self, world: World) -> None:
        query = world.query()
        world.put("a", FIRST)
        query.run(force=True, at="24:00", methods="batch")
        (step,) = query.steps()
        assert step.recomputes
        assert not replace(step, method="batch+im1").recomputes
        assert "recomputing" not in step.to_json()
        assert StepManifest.from_json(step.to_json()) == step
