"""OJV: the parts by table against a join-disjunctive normal form that is made of its definition; whole plans of trees of outer joins."""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from random import Random

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan
from tempura.algebra.scalar import (
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Literal,
    Output,
    Ref,
    conjunction,
    equal,
)
from tempura.cost.model import CostModel
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.laws.definition import Definition
from tempura.memo.memo import Memo
from tempura.memo.references import NO_KEYS, Keys
from tempura.physical.operators import Read
from tempura.rules.keys import look_up_distinct_keys
from tempura.rules.methods import TEMPURA
from tempura.rules.ojv import SPLITS
from tempura.rules.ojv_deltas import (
    DELTAS,
    delta_full_join_of_stored,
    delta_full_join_of_stored_on_left,
    delta_join_all_at_once,
    delta_left_join_of_stored,
)
from tempura.search.best import explore
from tempura.search.facts import PlanFacts
from tempura.search.graph import Graph
from tempura.search.links import ClassLinks
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.space import Space
from tempura.search.standing import Standing
from tempura.tvr.links import Linked
from tempura.tvr.staircase import TOGETHER
from tempura.tvr.views import Delta
from tests.plans.random_queries import ANY_STYLE, QueryGenerator, Table, random_table
from tests.plans.references import UNIQUE, ReferringQueries
from tests.plans.references import random_tables as keyed_tables
from tests.plans.simulate import States, run_replanned, run_step, truth
from tests.plans.test_master_law import random_prices

CASES = int(os.environ.get("TEMPURA_PLAN_CASES", "25"))
TIMES = 3
VIEW = (Point(1.0, output=True),) * TIMES
KINDS: tuple[JoinKind, ...] = ("inner", "left", "left", "full")
EXISTENCE: tuple[JoinKind, ...] = ("semi", "anti", "exists")


# --- the normal form ----------------------------------------------------------------------------------------------------

Term = tuple[frozenset[str], tuple[Call, ...]]
"""The tables that meet in a term of the normal form, and the conditions under which they do."""


@dataclass
class Trees:
    """Random trees of joins, each table once, of which each condition equates a column of a table on either side."""

    random: Random
    names: tuple[str, ...]

    def tree(self, names: tuple[str, ...] | None = None) -> Rel:
        names = self.names if names is None else names
        if len(names) == 1:
            columns = tuple(Column(f"{names[0]}.{c}", c, "int") for c in "xyz")
            return Scan(names[0], ("x", "y", "z"), columns)
        cut = self.random.randrange(1, len(names))
        left, right = self.tree(names[:cut]), self.tree(names[cut:])
        on = equal(Ref(self.random.choice(left.columns)), Ref(self.random.choice(right.columns)))
        return Join(left, right, self.random.choice(KINDS), on)


def terms(tree: Rel) -> list[Term]:
    """The terms of a tree's join-disjunctive normal form (Larson and Zhou, section 2)."""
    if isinstance(tree, Scan):
        return [(frozenset([tree.table]), ())]
    assert isinstance(tree, Join)
    assert isinstance(tree.on, Call)
    left, right = terms(tree.left), terms(tree.right)
    needed = {column.id.split(".")[0] for column in tree.on.columns}
    both = [(a | b, (*p, *q, tree.on)) for (a, p), (b, q) in product(left, right) if needed <= a | b]
    return both + (left if tree.kind in ("left", "full") else []) + (right if tree.kind == "full" else [])


Met = tuple[tuple[str, tuple[object, ...]], ...]
"""Rows that meet, one of each of some tables."""


def net(term: Term, every: list[Term], tables: Mapping[str, SignedBag]) -> Counter[Met]:
    """The net contribution of a term: what is not part of a row of a longer term."""
    longer = [met for other in every if other[0] > term[0] for met in meeting(other, tables)]
    parts = {tuple(pair for pair in met if pair[0] in term[0]) for met in longer}
    return Counter({met: n for met, n in meeting(term, tables).items() if met not in parts})


def meeting(term: Term, tables: Mapping[str, SignedBag]) -> Counter[Met]:
    """The rows of a term's tables that meet its conditions."""
    names = sorted(term[0])
    found: Counter[Met] = Counter()
    for rows in product(*(tables[name].items() for name in names)):
        met = dict(zip(names, (row for row, _ in rows), strict=True))
        if all(_value(met, a) is not None and _value(met, a) == _value(met, b) for a, b in map(_sides, term[1])):
            weight = 1
            for _, w in rows:
                weight *= w
            found[tuple(met.items())] += weight
    return found


def _sides(condition: Call) -> tuple[Column, Column]:
    left, right = condition.operands
    assert isinstance(left, Ref)
    assert isinstance(right, Ref)
    return left.column, right.column


def _value(met: Mapping[str, tuple[object, ...]], column: Column) -> object:
    table, name = column.id.split(".")
    return met[table]["xyz".index(name)]


def kind_of(term: Term, every: list[Term], table: str) -> str:
    """How an update of a table affects a term: by itself, by a parent in the subsumption graph, or not at all."""
    if table in term[0]:
        return "D"
    above = [other[0] for other in every if other[0] > term[0]]
    parents = [tables for tables in above if not any(tables > between for between in above)]
    return "I" if any(table in tables for tables in parents) else "U"


def normal_form(tree: Rel, table: str, tables: Mapping[str, SignedBag]) -> dict[str, SignedBag]:
    """The directly, the indirectly and the not affected rows of a tree, by the definition of the authors."""
    found: dict[str, list[tuple[tuple[object, ...], int]]] = {"D": [], "I": [], "U": []}
    every = terms(tree)
    for term in every:
        for met, weight in net(term, every, tables).items():
            row = tuple(_value(dict(met), c) if c.id.split(".")[0] in term[0] else None for c in tree.columns)
            found[kind_of(term, every, table)].append((row, weight))
    return {kind: SignedBag(rows) for kind, rows in found.items()}


def split_by_rules(tree: Rel, table: str, facts: Mapping[str, Table]) -> Mapping[str, Rel]:
    """The parts of a tree by the rules."""
    memo = Memo()
    known = PlanFacts({name: t.facts(TIMES) for name, t in facts.items()}, memo, 0, TOGETHER)
    links = ClassLinks(SPLITS, known, memo)
    edge = memo.add(tree)
    parts = {kind: links.resolve(Linked(edge, kind, table)) for kind in "DIU"}
    return {kind: memo.tree(part) for kind, part in parts.items() if part is not None}


def histories(tables: Mapping[str, Table]) -> dict[str, list[SignedBag]]:
    return {name: [table.snapshot(t) for t in range(TIMES)] for name, table in tables.items()}


def test_parts_are_those_of_the_normal_form() -> None:
    """What is directly affected is the same. A row that the rules hold for indirectly affected and the normal form does not is one whose
    key is padded: nothing ever matches it. So what comes and goes is the same, too."""
    unaffected = exact = checked = 0
    for seed in range(8 * CASES):
        random = Random(seed)
        names = ("r", "s", "t", "w")[: random.choice((2, 3, 4, 4))]
        tables = {name: random_table(random, name, TIMES) for name in names}
        tree, moving = Trees(random, names).tree(), random.choice(names)
        parts = split_by_rules(tree, moving, tables)
        definition = Definition(histories(tables))
        for t in range(TIMES):
            expected = normal_form(tree, moving, {name: table.snapshot(t) for name, table in tables.items()})
            found = {kind: definition.snapshot(part, t) for kind, part in parts.items()}
            told = f"seed {seed}, {moving} at {t}: {tree}"
            assert sum(expected.values(), SignedBag()) == truth(tree, tables, t), told
            assert found["D"] == expected["D"], told
            assert (found["I"] - expected["I"]).is_positive, told
            assert (expected["U"] - found["U"]).is_positive, told
            checked += 1
            exact += found == expected
            unaffected += bool(len(found["U"]))
    assert exact > 0.8 * checked
    assert unaffected > CASES / 3, "there must be unaffected rows, else this test shows little"


def test_what_is_seen_without_a_table_is_so() -> None:
    """What operators say of their form is so by definition."""
    said = 0
    for seed in range(4 * CASES):
        random = Random(9000 + seed)
        tables = {name: random_table(random, name, TIMES) for name in ("r", "s", "t", "w")}
        tree = Trees(random, tuple(tables)).tree()
        query = tree if seed % 2 else OuterJoins(random, tuple(tables)).outer(2)
        memo = Memo()
        known = PlanFacts({name: t.facts(TIMES) for name, t in tables.items()}, memo, 0, TOGETHER)
        standing, definition = Standing(memo, known.tables_of), Definition(histories(tables))
        memo.add(query)
        for edge, table in product(memo.classes, tables):
            columns = tuple(random.sample(edge.columns, min(2, len(edge.columns))))
            if table in known.tables_of(edge) and standing.is_seen_without(table, edge, frozenset(columns)):
                said += 1
                meant = memo.tree(edge)
                places = [edge.columns.index(c) for c in columns]
                kept = tuple(Output(meant.columns[i], Ref(meant.columns[i])) for i in places)
                seen = Aggregate(meant, kept, ())
                for world, t in product(definition.versions(table), range(TIMES)):
                    assert world.snapshot(seen, t) == definition.snapshot(seen, t), f"seed {seed}: {table} in {meant}"
    assert said > CASES


# --- whole plans --------------------------------------------------------------------------------------------------------


class OuterJoins(QueryGenerator):
    """Trees of joins that are mostly outer, with projections and filters between them, and sometimes an aggregate on top."""

    def outer(self, depth: int) -> Rel:
        if depth == 0:
            return self.query(0)
        left = self.outer(depth - 1)
        right = self.outer(self.random.randrange(depth))
        kind = self.random.choice((*KINDS, *EXISTENCE))
        on: Call = equal(self.ref(left), self.ref(right))
        if self.random.random() < 0.2:
            on = Call("LessThan", (self.ref(left), self.ref(right)), "boolean")
        residual = (self.predicate(right),) if self.random.random() < 0.2 else ()
        marker = self.column("boolean") if kind == "exists" else None
        joined = Join(left, right, kind, conjunction(on, *residual), marker)
        return self._above(joined)

    def _above(self, rel: Rel) -> Rel:
        match self.random.randrange(6):
            case 0:
                return Filter(rel, self.predicate(rel))
            case 1:
                refs = [self.ref(rel) for _ in range(3)]
                return Project(rel, tuple(Output(self.column(ref.type), ref) for ref in refs))
        return rel

    def summed(self, depth: int) -> Rel:
        rel = self.outer(depth)
        key = self.ref(rel)
        count = AggregateOutput(self.column("bigint"), AggregateCall("Count", (self.ref(rel),), "bigint"))
        return Aggregate(rel, (Output(self.column(key.type), key),), (count,))


def cases(count: int, first: int) -> Iterator[tuple[int, Random, dict[str, Table], Rel]]:
    for seed in range(count):
        random = Random(first + seed)
        tables = {name: random_table(random, name, TIMES, ANY_STYLE) for name in ("r", "s", "t", "w")}
        generator = OuterJoins(random, tuple(tables))
        yield seed, random, tables, (generator.summed if seed % 3 == 0 else generator.outer)(1 + seed % 2)


def test_every_output_equals_a_recompute_whatever_things_cost() -> None:
    used = Counter[str]()
    for seed, random, tables, query in cases(3 * CASES, 0):
        model = random_prices(random)
        facts = {name: table.facts(TIMES) for name, table in tables.items()}
        plan = make_plan(Problem(query, VIEW, facts, prices=model), ("ojv",))
        states: States = {}
        outputs = [run_step(step, tables, states) for step in plan.steps]
        assert outputs == [truth(query, tables, t) for t in range(TIMES)], f"seed {seed}, query {query}, {model}"
        used.update({note.rule for step in plan.steps for note in step.notes.values()})
    own = {rule.name for rule in DELTAS} & used.keys()
    assert CASES < 25 or len(own) > 3, (
        f"most rules of the method must be of use somewhere, else this test shows little: {own}"
    )


@pytest.mark.parametrize("with_others", [False, True], ids=["alone", "random-sets"])
def test_every_output_equals_a_recompute_when_plans_are_made_again(with_others: bool) -> None:
    for seed, random, tables, query in cases(CASES // 2, 500):
        others = [name for name in ("im1", "im2", "batch") if with_others and random.random() < 0.5]
        outputs = run_replanned(query, tables, VIEW, ("ojv", *others))
        assert outputs == [truth(query, tables, t) for t in range(TIMES)], f"seed {seed}, {others}, query {query}"


def test_what_depends_on_the_order_of_rows_moves_all_at_once() -> None:
    r, s = (Scan(name, ("x", "y", "z"), tuple(Column(f"{name}.{c}", c, "int") for c in "xyz")) for name in "rs")
    number = Call("Cast", (Ref(s.columns[1]),), "double", "legacy")
    total = AggregateOutput(
        Column("total", "total", "double"), AggregateCall("Sum", (number,), "double", detail="legacy")
    )
    sums = Aggregate(s, (Output(Column("k", "k", "int"), Ref(s.columns[0])),), (total,))
    query = Join(r, sums, "left", equal(Ref(r.columns[0]), Ref(sums.columns[0])))
    changes = SignedBag.of([(1, 5, 0)]) - SignedBag.of([(1, 2, 0)])
    tables = {
        "r": Table("r", (SignedBag.of([(1, 1, 1), (2, 2, 2)]), SignedBag()), static=True),
        "s": Table("s", (SignedBag.of([(1, 2, 0), (1, 1, 0)]), changes)),
    }
    outputs = run_replanned(query, tables, VIEW[:2], ("ojv",))
    assert outputs == [truth(query, tables, t) for t in range(2)]
    graph = Graph(Space(asked_of(query, tables)), TEMPURA.methods["ojv"])
    ways = [way for ways in explore(graph, graph.outputs).values() for way in ways]
    (reason,) = {
        way.rule.why(query, graph.facts) for way in ways if way.rule is delta_join_all_at_once and way.rule.why
    }
    assert reason is not None
    assert reason.code == "OJV_AT_ONCE"


def test_what_a_condition_does_not_see_is_not_looked_at() -> None:
    """Groups of r ⟕ s by a column of r are there whatever s has: so which rows of t match one does not change when s does."""
    r, s, t = (Scan(name, ("x", "y", "z"), tuple(Column(f"{name}.{c}", c, "int") for c in "xyz")) for name in "rst")
    rows = Join(r, s, "left", equal(Ref(r.columns[0]), Ref(s.columns[0])))
    count = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (Ref(s.columns[1]),), "bigint"))
    groups = Aggregate(rows, (Output(Column("k", "k", "int"), Ref(r.columns[1])),), (count,))
    on = equal(Ref(t.columns[0]), Ref(groups.columns[0]))
    styles = {"r": "static", "s": "mixed", "t": "static"}
    tables = {name: random_table(Random(5 + i), name, 2, (style,)) for i, (name, style) in enumerate(styles.items())}
    looks = [rule.name for rule in TEMPURA.rules if rule.name.startswith(("delta_semi_join", "delta_anti_join"))]
    for kind in EXISTENCE[:2]:
        query = Join(t, groups, kind, on)
        plan = make_plan(asked_of(query, tables), ("ojv",), without=looks)
        states: States = {}
        outputs = [run_step(step, tables, states) for step in plan.steps]
        assert outputs == [truth(query, tables, at) for at in range(2)]
    space = Space(asked_of(Join(t, groups, "left", on), tables))
    graph = Graph(space, TEMPURA.methods["ojv"])
    seen = {goal.view.label for goal in explore(graph, graph.outputs)}
    assert any(label.startswith("(t ⋈ ") for label in seen)
    assert not any(label.startswith("(t ▷ ") for label in seen)


def asked_of(query: Rel, tables: Mapping[str, Table]) -> Problem:
    return Problem(query, VIEW[:2], {name: table.facts(2) for name, table in tables.items()})


def test_a_table_on_both_sides_is_told() -> None:
    left, right = (Scan("r", ("x", "y"), tuple(Column(f"{side}.{c}", c, "int") for c in "xy")) for side in ("a", "b"))
    query = Join(left, right, "left", equal(Ref(left.columns[0]), Ref(right.columns[1])))
    tables = {"r": random_table(Random(1), "r", 2, ("mixed",))}
    facts = {"r": tables["r"].facts(2)}
    plan = make_plan(Problem(query, VIEW[:2], facts, prices=CostModel()), ("ojv",))
    assert [str(reason) for reason in plan.fallbacks] == [
        "OJV_BOTH_SIDES: both sides of (r ⟕ r) read r: joined again for the rows that match a change"
    ]


def test_rows_with_a_key_are_padded_again_by_what_is_stored() -> None:
    """Whatever things cost, and when plans are made again: left joins of what has a key, with what comes and goes. Other ways
    that make no use of the key are not to be had."""
    used = Counter[str]()
    others = ("delta_of_affected_parts", "delta_left_join_of_gains", "difference_of_snapshots")
    for seed in range(CASES):
        random = Random(600 + seed)
        tables = keyed_tables(random, TIMES)
        generator = KeyedLeft(random, tuple(tables))
        left, right = generator.with_key(), generator.query(seed % 2)
        on = equal(generator.ref(left), generator.ref(right))
        residual = (generator.predicate(right),) if seed % 5 == 0 else ()
        query = generator.above(Join(left, right, "left", conjunction(on, *residual)))
        used.update(rules_of_an_exact_plan(query, tables, random_prices(random), others, f"seed {seed}"))
    assert used[delta_left_join_of_stored.name] > CASES / 8, used


def rules_of_an_exact_plan(
    query: Rel, tables: Mapping[str, Table], model: CostModel, without: Collection[str], told: str
) -> set[str]:
    """The rules of a plan by ``ojv``, whose results are what they should be at each time, and when plans are made again."""
    facts = {name: table.facts(TIMES) for name, table in tables.items()}
    plan = make_plan(Problem(query, VIEW, facts, prices=model), ("ojv",), without=without)
    states: States = {}
    expected = [truth(query, tables, t) for t in range(TIMES)]
    told = f"{told}, query {query}, {model}"
    assert [run_step(step, tables, states) for step in plan.steps] == expected, told
    assert run_replanned(query, tables, VIEW, ("ojv",)) == expected, told
    return {note.rule for step in plan.steps for note in step.notes.values()}


class KeyedLeft(ReferringQueries):
    """Tables that are filtered, or not; and what stands above a join."""

    def with_key(self) -> Rel:
        rel = self.query(0)
        while not (isinstance(rel, Scan) and UNIQUE[rel.table]):
            rel = self.query(0)
        return Filter(rel, self.predicate(rel)) if self.random.random() < 0.3 else rel

    def above(self, join: Rel) -> Rel:
        match self.random.randrange(3):
            case 0:
                return Project(join, tuple(Output(self.column(c.type), Ref(c)) for c in join.columns[:-1]))
            case 1:
                key, count = self.ref(join), AggregateCall("Count", (self.ref(join),), "bigint")
                kept = (Output(self.column(key.type), key),)
                return Aggregate(join, kept, (AggregateOutput(self.column("bigint"), count),))
        return join


# --- where it pays ------------------------------------------------------------------------------------------------------

LARGE = {
    "r": TableFacts((2_000_000,) * 3, (0,) * 3, 1, static=True, columns={"x": ColumnStats(2_000_000)}),
    "s": TableFacts(
        (1_000_000_000, 1_001_000_000, 1_002_000_000),
        (0, 100_000, 200_000),
        1,
        columns={"x": ColumnStats(50_000), "y": ColumnStats(2_000)},
    ),
}
"""Customers, and what some of them bought: of each many rows, which come and go."""


@pytest.mark.parametrize("kind", EXISTENCE)
def test_who_has_a_match_is_maintained_by_keys(kind: JoinKind) -> None:
    """Who has bought anything changes little, and the purchases are not read again for it."""
    r, s = (Scan(name, ("x", "y"), tuple(Column(f"{name}.{c}", c, "int") for c in "xy")) for name in "rs")
    marker = Column("found", "found", "boolean") if kind == "exists" else None
    query = Join(r, s, kind, equal(Ref(r.columns[0]), Ref(s.columns[0])), marker)
    law = look_up_distinct_keys.name
    costs = {
        name: make_plan(Problem(query, VIEW, LARGE), (name,), without=(law,)).cost for name in ("im1", "im2", "batch")
    }
    plan = make_plan(Problem(query, VIEW, LARGE), without=(law,))
    later = [
        rel for step in plan.steps[1:] for rel in step.operators if isinstance(rel, Read) and rel.scan.table == "s"
    ]
    assert later
    assert all(isinstance(read.at, Delta) for read in later)
    assert plan.cost < 0.6 * min(costs.values())
    assert make_plan(Problem(query, VIEW, LARGE)).cost <= plan.cost


def bought(customers: int, purchases: int, key: bool = True) -> Problem:
    """What each customer bought, if anything. Few purchases are taken back, and fewer come."""
    r, s = (Scan(name, ("x", "y"), tuple(Column(f"{name}.{c}", c, "int") for c in "xy")) for name in "rs")
    keys = Keys(unique=("x",)) if key else NO_KEYS
    stays, few = (customers,) * 3, {"x": ColumnStats(purchases // 4), "y": ColumnStats(2_000)}
    facts = {
        "r": TableFacts(stays, (0,) * 3, 1, static=True, columns={"x": ColumnStats(customers)}, keys=keys),
        "s": TableFacts((purchases, purchases + 500, purchases + 1_000), (0, 1_000, 2_000), 1, columns=few),
    }
    return Problem(Join(r, s, "left", equal(Ref(r.columns[0]), Ref(s.columns[0]))), VIEW, facts)


def test_a_lost_match_is_told_by_the_stored_join_where_rows_have_a_key() -> None:
    """Of many purchases few are of these customers: what these bought is stored, and the purchases are not read again."""
    law = delta_left_join_of_stored.name
    problem = bought(200_000, 100_000_000)
    plan, without = make_plan(problem), make_plan(problem, without=(law,))
    for step, other in zip(plan.steps[1:], without.steps[1:], strict=True):
        assert law in {note.rule for note in step.notes.values()}
        assert all(isinstance(rel.at, Delta) for rel in step.operators if isinstance(rel, Read))
        assert step.cost < 0.15 * other.cost
    assert make_plan(bought(200_000, 100_000_000, key=False)).cost == without.cost


@pytest.mark.parametrize("moves", ["r", "s"])
def test_a_full_join_tells_it_of_either_side(moves: str) -> None:
    """Few rows of large tables, padded if the other has none: the side that stays has a key, and neither table is read again."""
    law = {"s": delta_full_join_of_stored.name, "r": delta_full_join_of_stored_on_left.name}[moves]
    few = {"x": ColumnStats(20_000_000), "y": ColumnStats(5)}
    stays = TableFacts((20_000_000,) * 3, (0,) * 3, 1, static=True, columns=few, keys=Keys(unique=("x",)))
    comes = TableFacts((20_000_000, 20_005_000, 20_010_000), (0, 10_000, 20_000), 1, columns=few)
    r, s = (Scan(name, ("x", "y"), tuple(Column(f"{name}.{c}", c, "int") for c in "xy")) for name in "rs")
    left, right = (Filter(scan, equal(Ref(scan.columns[1]), Literal(7, "int"))) for scan in (r, s))
    query = Join(left, right, "full", equal(Ref(r.columns[0]), Ref(s.columns[0])))
    facts = {name: comes if name == moves else stays for name in "rs"}
    plan, without = (make_plan(Problem(query, VIEW, facts), without=left_out) for left_out in ((), (law,)))
    for step, other in zip(plan.steps[1:], without.steps[1:], strict=True):
        assert law in {note.rule for note in step.notes.values()}
        assert all(isinstance(rel.at, Delta) for rel in step.operators if isinstance(rel, Read))
        assert step.cost < 0.8 * other.cost
    assert plan.cost < 0.9 * without.cost


def test_full_joins_with_a_key_are_padded_again_by_what_is_stored() -> None:
    """As above, of full joins, with the key on either side."""
    used = Counter[str]()
    laws = (delta_full_join_of_stored.name, delta_full_join_of_stored_on_left.name)
    others = ("delta_full_join", "delta_of_affected_parts", "difference_of_snapshots")
    for seed in range(CASES):
        random = Random(900 + seed)
        tables = keyed_tables(random, TIMES)
        generator = KeyedLeft(random, tuple(tables))
        keyed, other = generator.with_key(), generator.query(seed % 2)
        left, right = (keyed, other) if seed % 2 else (other, keyed)
        query = generator.above(Join(left, right, "full", equal(generator.ref(left), generator.ref(right))))
        used.update(rules_of_an_exact_plan(query, tables, random_prices(random), others, f"seed {seed}"))
    assert all(used[law] > CASES / 20 for law in laws), used


def test_a_stored_join_that_is_larger_than_what_it_is_made_of_is_not_asked() -> None:
    problem = bought(100_000_000, 1_000_000)
    plan = make_plan(problem)
    assert delta_left_join_of_stored.name not in {note.rule for step in plan.steps for note in step.notes.values()}
    assert plan.cost == make_plan(problem, without=(delta_left_join_of_stored.name,)).cost
