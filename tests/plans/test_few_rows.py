"""Joins that are not inner come after those that leave few rows, and look at the rows that match only."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tempura.algebra.rel import Filter, Join, JoinKind, Project, Rel, Scan, Union, scans
from tempura.algebra.scalar import Call, Column, Literal, Output, Ref, conjunction, equal
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.laws.definition import Definition
from tempura.memo.events import ClassRewritten, Event
from tempura.physical.operators import Read
from tempura.plan.progressive import Step
from tempura.rules import few_rows
from tempura.rules.delta_linear import delta_filter
from tempura.rules.dsl import LOGICAL, TVR_GENERATING, rule
from tempura.rules.methods import TEMPURA
from tempura.search.best import explore
from tempura.search.graph import Graph
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.saturate import Groups
from tempura.search.space import Space
from tests.plans.random_queries import JOINS, QueryGenerator, random_table
from tests.plans.test_every_alternative import CASES, POINTS, TIMES, Meaning

LINES = 60_000_000
AT_ONCE = (Point(1.0, output=True),)


def lines(use: str) -> Scan:
    """The lines of orders: the order, the supplier, whether it was late."""
    columns = (Column(f"{use}.{name}", name, "int") for name in ("order", "supplier", "late"))
    return Scan("lines", ("order", "supplier", "late"), tuple(columns))


def column(rel: Rel, name: str) -> Ref:
    return Ref(next(c for c in rel.columns if c.name == name))


SUPPLIERS = Scan("suppliers", ("id", "nation"), (Column("s.id", "id", "int"), Column("s.nation", "nation", "int")))


def who_kept_others_waiting(nations: int = 250) -> tuple[Rel, dict[str, TableFacts]]:
    """Suppliers of a nation, and orders of several suppliers for which only they were late: TPC-H q21. Catalyst asks what is asked of lines
    before it joins them."""
    late, others, other_late = lines("l"), lines("o"), lines("p")

    def by_another(kept: Rel, other: Rel) -> Call:
        apart = Call("Not", (equal(column(kept, "supplier"), column(other, "supplier")),), "boolean")
        same = equal(column(kept, "order"), column(other, "order"))
        return conjunction(same, apart)  # type: ignore[return-value]

    was_late = Filter(other_late, equal(column(other_late, "late"), Literal(1, "int")))
    asked = Join(late, others, "semi", by_another(late, others))
    alone = Join(asked, was_late, "anti", by_another(asked, was_late))
    of_nation = Filter(SUPPLIERS, equal(column(SUPPLIERS, "nation"), Literal(1, "int")))
    joined = Join(alone, of_nation, "inner", equal(column(alone, "supplier"), column(of_nation, "id")))
    query = Project(joined, tuple(Output(c, Ref(c)) for c in (late.columns[0], late.columns[1])))
    facts = {
        "lines": facts_of(LINES, order=LINES / 4, supplier=100_000, late=2),
        "suppliers": facts_of(100_000, id=100_000, nation=nations),
    }
    return query, facts


def facts_of(rows: int, **distinct: float) -> TableFacts:
    return TableFacts((rows,), (0,), 1, columns={name: ColumnStats(n) for name, n in distinct.items()})


def recomputed(query: Rel, facts: dict[str, TableFacts], *without: str) -> Step:
    return make_plan(Problem(query, AT_ONCE, facts), ("batch",), without=without).steps[0]


def joins(step: Step, *kinds: str) -> list[Join]:
    return [rel for rel in step.operators if isinstance(rel, Join) and rel.kind in kinds]


def test_exists_is_asked_of_few_rows() -> None:
    """Each line is read once for each use, and none is shuffled: of 60 million lines some 240,000 are of the nation's suppliers, and that
    many are sent to where the others are read."""
    step = recomputed(*who_kept_others_waiting())
    (anti,) = joins(step, "anti")
    (inner,) = joins(step, "inner")
    assert inner in anti.inputs[0].walk(), "the lines of the nation's suppliers come first"
    reducing = [join for join in joins(step, "semi") if isinstance(_below(join.inputs[0]), Read)]
    assert len(reducing) == 2, "the other lines are reduced to those of the same orders before they are joined"
    without = recomputed(*who_kept_others_waiting(), "postpone_join", "recompute_snapshot_reduced")
    assert step.cost < without.cost / 2


def _below(rel: Rel) -> Rel:
    while isinstance(rel, Filter | Project):
        rel = rel.input
    return rel


def test_what_is_read_no_more_is_left_out_in_between() -> None:
    """A left join, of which the columns that it is joined by are left out before the next join, as Catalyst does."""
    sold, back = lines("l"), lines("r")
    returned = Join(sold, back, "left", equal(column(sold, "order"), column(back, "order")))
    narrow = Project(returned, tuple(Output(c, Ref(c)) for c in (sold.columns[1], back.columns[2])))
    of_nation = Filter(SUPPLIERS, equal(column(SUPPLIERS, "nation"), Literal(1, "int")))
    query = Join(narrow, of_nation, "inner", equal(column(narrow, "supplier"), column(of_nation, "id")))
    _, facts = who_kept_others_waiting()
    step = recomputed(query, facts)
    (left,), (inner,) = joins(step, "left"), joins(step, "inner")
    assert inner in left.inputs[0].walk()
    assert step.cost < recomputed(query, facts, "postpone_projected_join").cost / 2


def test_also_where_a_part_of_the_joins_is_used_elsewhere() -> None:
    """Lines of open orders by kind have a user of their own then; the whole is what is looked at all the same, with suppliers."""
    query, facts = who_kept_others_waiting()
    assert isinstance(query, Project)
    assert isinstance(query.input, Join)
    alone, of_nation = query.input.inputs
    orders = Scan("orders", ("id", "status"), (Column("t.id", "id", "int"), Column("t.status", "status", "int")))
    open_orders = Filter(orders, equal(column(orders, "status"), Literal(1, "int")))
    inner = Join(alone, open_orders, "inner", equal(column(alone, "order"), column(open_orders, "id")))
    kinds = Scan("kinds", ("id",), (Column("k.id", "id", "int"),))
    middle = Project(inner, tuple(Output(c, Ref(c)) for c in alone.columns))
    of_kind = Join(middle, kinds, "inner", equal(column(middle, "late"), column(kinds, "id")))
    narrow = Project(of_kind, tuple(Output(c, Ref(c)) for c in alone.columns[:2]))
    outer = Join(narrow, of_nation, "inner", equal(column(narrow, "supplier"), column(of_nation, "id")))
    outputs = tuple(Output(replace(c, id=f"u.{c.name}"), Ref(c)) for c in narrow.columns)
    both = Union(tuple(Project(rel, outputs) for rel in (outer, narrow)))
    facts |= {"orders": facts_of(LINES // 4, id=LINES / 4, status=10), "kinds": facts_of(2, id=2)}
    memo = Space(Problem(both, AT_ONCE, facts)).memo
    members = (member.rel for edge in memo.classes for member in memo.members(edge))
    before = [memo.tree(rel.left) for rel in members if isinstance(rel, Join) and rel.kind == "anti"]
    read = [{scan.table for scan in scans(rel)} for rel in before]
    assert {"lines", "orders", "kinds", "suppliers"} in read


def test_not_where_many_rows_are_left() -> None:
    """All suppliers are of one nation: so to join them leaves all lines."""
    query, facts = who_kept_others_waiting(nations=1)
    assert recomputed(query, facts).cost == recomputed(query, facts, "postpone_join").cost


def test_not_for_a_small_right_side() -> None:
    """To ask for rows in a small table is a way to leave few rows: it need not wait."""
    sold, kinds = lines("l"), Scan("kinds", ("id",), (Column("k.id", "id", "int"),))
    asked = Join(sold, kinds, "semi", equal(column(sold, "late"), column(kinds, "id")))
    of_nation = Filter(SUPPLIERS, equal(column(SUPPLIERS, "nation"), Literal(1, "int")))
    query = Join(asked, of_nation, "inner", equal(column(asked, "supplier"), column(of_nation, "id")))
    _, facts = who_kept_others_waiting()
    assert "postpone_join" not in laws_that_fire(query, {**facts, "kinds": facts_of(1_000, id=1_000)})


def never_returned(asked_above: bool = False) -> Rel:
    """Lines that nobody returned, as a left join whose other side is missing; asked where they are joined, or above what leaves out the
    rest."""
    sold, back = lines("l"), Scan("returns", ("order",), (Column("b.order", "order", "int"),))
    joined = Join(sold, back, "left", equal(column(sold, "order"), column(back, "order")))
    missing = Call("IsNull", (column(back, "order"),), "boolean")
    kept = tuple(Output(c, Ref(c)) for c in joined.columns[1:])
    return Filter(Project(joined, kept), missing) if asked_above else Project(Filter(joined, missing), kept)


RETURNED = {"lines": (LINES, 10_000, 10_000), "returns": (LINES // 10, 1_000, 1_000)}


def returned(**apart: object) -> dict[str, TableFacts]:
    """Facts of lines and returns, that come at three times."""
    columns = {"order": ColumnStats(LINES / 4), "supplier": ColumnStats(100_000), "late": ColumnStats(2)}
    return {name: TableFacts(rows, (0, 0, 0), 1, columns=columns) for name, rows in RETURNED.items()}


def test_what_is_an_anti_join_is_no_left_join_any_more() -> None:
    memo = Space(Problem(never_returned(), POINTS, returned())).memo
    members = [m.rel for edge in memo.classes for m in memo.members(edge)]
    assert any(isinstance(rel, Join) and rel.kind == "anti" for rel in members)
    assert not any(isinstance(rel, Filter) for rel in members)


def test_only_a_law_about_an_operator_at_all_times_replaces_one() -> None:
    many = few_rows.postpone_join.function
    for family, function in ((LOGICAL, many), (TVR_GENERATING, delta_filter.function)):
        with pytest.raises(TypeError, match="replaces no operator"):
            rule(family, replaces=True)(function)


@pytest.mark.parametrize("asked_above", [False, True])
@pytest.mark.parametrize("methods", ["all", *TEMPURA.methods])
def test_what_matched_nothing_is_an_anti_join(methods: str, asked_above: bool) -> None:
    """And nobody joins what matched, to leave it out again: neither to recompute it, nor in what is held back for later."""
    plan = make_plan(Problem(never_returned(asked_above), POINTS, returned()), (methods,))
    operators = [rel for step in plan.steps for rel in step.operators]
    assert any(isinstance(rel, Join) and rel.kind == "anti" for rel in operators)
    assert not any(isinstance(rel, Join) and rel.kind in ("left", "inner") for rel in operators)
    assert not any(isinstance(rel, Filter) and "IsNull" in str(rel.predicate) for rel in operators)


def laws_that_fire(query: Rel, facts: dict[str, TableFacts]) -> Counter[str]:
    fired = Counter[str]()

    def listen(event: Event) -> None:
        if isinstance(event, ClassRewritten):
            fired[event.rule] += 1

    Space(Problem(query, POINTS[: len(next(iter(facts.values())).inserted)], facts), listen)
    return fired


class Clusters(QueryGenerator):
    """Inner joins of two or three relations, one of which, or two, is a join that is not inner, or one over another."""

    def clustered(self) -> Rel:
        kinds = [kind for kind in JOINS if kind not in ("inner", "full")]
        first = self._by_row(self.query(0), kinds)
        made = self._by_row(first, kinds) if self.random.random() < 0.5 else first
        if self.random.random() < 0.5:
            read = [c for c in made.columns if c.type == "int" and self.random.random() < 0.7] or made.columns[:1]
            made = Project(made, tuple(Output(c, Ref(c)) for c in read))
        for _ in range(self.random.choice((1, 2))):
            other = self.query(0)
            made = Join(made, other, "inner", self._on(made, other))
        return made

    def _by_row(self, left: Rel, kinds: list[JoinKind]) -> Rel:
        right, kind = self.query(0), self.random.choice(kinds)
        marker = self.column("boolean") if kind == "exists" else None
        join = Join(left, right, kind, self._on(left, right), marker)
        return self._unmatched(join) if kind == "left" and self.random.random() < 0.75 else join

    def _unmatched(self, join: Join) -> Rel:
        """What matched nothing of a left join: asked there, or above a projection."""
        assert isinstance(join.on, Call)
        key = join.on.operands[1]
        outputs = tuple(Output(c, Ref(c)) for c in reversed(join.columns))
        made = Project(join, outputs) if self.random.random() < 0.5 else join
        return Filter(made, Call("IsNull", (key,), "boolean"))

    def _on(self, left: Rel, right: Rel) -> Call:
        numbers = [Ref(c) for c in left.columns if c.type == "int"]
        return Call("EqualTo", (self.random.choice(numbers), self.ref(right)), "boolean")


@pytest.mark.parametrize("methods", ["im1", "all"])
def test_every_alternative_gives_its_view(methods: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody would expect it to pay."""
    monkeypatch.setattr(Groups, "is_far_smaller", lambda *_: True)
    monkeypatch.setattr(Groups, "reduces", lambda *_: True)
    fired, used = Counter[str](), Counter[str]()
    for seed in range(2 * CASES):
        random = Random(seed)
        tables = {name: random_table(random, name, TIMES) for name in ("r", "s", "t")}
        query = Clusters(random, tuple(tables)).clustered()
        facts = {name: table.facts(TIMES) for name, table in tables.items()}
        fired += laws_that_fire(query, facts)
        space = Space(Problem(query, POINTS, facts))
        graph = Graph(space, TEMPURA.rules_of((methods,)), begins=seed % TIMES)
        rows = {name: [table.snapshot(t) for t in range(TIMES)] for name, table in tables.items()}
        meaning = Meaning(graph, Definition(rows, staircase=space.staircase))
        for goal, ways in explore(graph, graph.outputs).items():
            for way in ways:
                if way.rule is not None:
                    used[way.rule.name] += 1
                    wrong = meaning.check(goal, way)
                    assert not wrong, f"seed {seed}: {way.rule.name} for {goal}: {wrong}\nquery {query}"
    assert fired["postpone_join"] > CASES / 2
    assert fired["postpone_projected_join"] > CASES / 2
    assert fired["keep_unmatched"] > CASES / 4
    assert used["first_snapshot_reduced"] > CASES
