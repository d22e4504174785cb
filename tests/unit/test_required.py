"""``require="incremental"``: refreshes that do not recompute the whole query, or a refusal with the reasons."""

import pytest

from tempura.algebra.rel import Filter, Opaque, Rel
from tempura.algebra.scalar import Call, Literal, Ref
from tempura.errors import Reason, TempuraError
from tempura.explain.character import BUILT, MAINTAINED, PREPARED, RECOMPUTED
from tempura.warehouse.required import check_maintainable, is_maintainable
from tempura.warehouse.schedule import Schedule
from tests.unit import bag_engine
from tests.unit.bag_engine import COUNT, SUMMARY, count_rel, summary_rel
from tests.unit.test_churn import VIEWS
from tests.unit.test_warehouse import DAILY, FIRST, SECOND, World, code, world

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


class TestAtARun:
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
