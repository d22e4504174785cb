"""Inner joins of many relations: which they are, that every order gives the same bag, and which order is chosen."""

from collections.abc import Mapping
from itertools import permutations
from random import Random
from types import MappingProxyType

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.equalities import compared_together, grouped_together, implied
from tempura.algebra.evaluate import evaluate
from tempura.algebra.multi_join import MultiJoin, in_order
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, keep
from tempura.algebra.scalar import TRUE, Call, Column, Expr, Literal, Output, Ref, conjunction, conjuncts, equal
from tempura.cost.estimate import Estimator
from tempura.cost.model import CostModel
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.memo.memo import Memo
from tempura.search import joins
from tempura.search.joins import Clusters, JoinOrders, Order
from tempura.tvr.views import Delta, Snapshot, View
from tests.plans.random_queries import random_row


def table(name: str, prefix: str = "") -> Scan:
    return Scan(name, ("x", "y", "z"), tuple(Column(f"{prefix or name}{c}", c, "int") for c in "xyz"))


R, S, T, U = (table(name) for name in "rstu")


def on(left: Rel, right: Rel, i: int = 0, j: int = 0) -> Expr:
    return equal(Ref(left.columns[i]), Ref(right.columns[j]))


def inner(left: Rel, right: Rel, condition: Expr) -> Join:
    return Join(left, right, "inner", condition)


CHAIN = conjunction(on(R, S), on(S, T, 1), on(T, U, 2))


def clusters_of(query: Rel) -> Rel | None:
    memo = Memo()
    return Clusters(memo).of(memo.add(query))


def bags(seed: int) -> dict[Rel, SignedBag]:
    """Signed: a join of many is linear in each term."""
    random = Random(seed)
    return {
        rel: SignedBag((random_row(random), random.choice((1, 1, 2, -1))) for _ in range(4)) for rel in (R, S, T, U)
    }


@pytest.mark.parametrize("seed", range(6))
def test_every_order_gives_the_same_bag(seed: int) -> None:
    rows = bags(seed)
    extra = Call("LessThan", (Ref(R.columns[1]), Ref(U.columns[1])), "boolean")
    whole = MultiJoin((R, S, T, U), conjunction(CHAIN, extra, Call("IsNotNull", (Ref(R.columns[2]),), "boolean")))
    expected = evaluate(whole, rows.__getitem__)
    for terms in permutations(whole.terms):
        ordered = keep(in_order(MultiJoin(terms, whole.on)), whole.columns)
        assert evaluate(ordered, rows.__getitem__) == expected


def test_a_tree_of_inner_joins_is_one_join() -> None:
    middle = inner(R, S, on(R, S))
    pruned = Project(middle, tuple(Output(c, Ref(c)) for c in (R.columns[1], S.columns[1])))
    small = Filter(pruned, Call("LessThan", (Ref(R.columns[1]), Literal(3, "int")), "boolean"))
    query = inner(small, T, on(S, T, 1))
    joined = clusters_of(query)
    assert isinstance(joined, Project)
    assert isinstance(joined.input, MultiJoin)
    assert [term.label for term in joined.input.terms] == ["r", "s", "t"]
    assert joined.columns == query.columns
    for seed in range(5):
        rows = bags(seed)
        memo = Memo()
        tree = memo.tree(Clusters(memo).of(memo.add(query)) or query)
        assert evaluate(tree, rows.__getitem__) == evaluate(query, rows.__getitem__)


def test_a_join_of_two_and_an_outer_join_are_no_cluster() -> None:
    assert clusters_of(inner(R, S, on(R, S))) is None
    left = Join(inner(R, S, on(R, S)), T, "left", on(S, T, 1))
    assert clusters_of(left) is None
    assert clusters_of(inner(left, U, on(T, U))) is None


def test_two_uses_of_one_join_have_columns_of_their_own() -> None:
    def use(prefix: str) -> Join:
        a, b = table("r", prefix + "r"), table("s", prefix + "s")
        return inner(a, b, on(a, b))

    memo = Memo()
    memo.add(use("p"))
    query = inner(use("p"), use("q"), equal(Ref(use("p").columns[0]), Ref(use("q").columns[0])))
    joined = Clusters(memo).of(memo.add(query))
    assert joined is not None
    (multi,) = (rel for rel in joined.walk() if isinstance(rel, MultiJoin))
    assert len(multi.terms) == 4
    assert len(set(multi.columns)) == 12
    random = Random(3)
    rows = {name: SignedBag.of(random_row(random) for _ in range(5)) for name in "rs"}

    def leaf(rel: Rel) -> SignedBag:
        assert isinstance(rel, Scan)
        return rows[rel.table]

    assert evaluate(memo.tree(joined), leaf) == evaluate(query, leaf)


def test_a_join_that_is_used_inside_a_cluster_only_has_none_of_its_own() -> None:
    memo = Memo()
    three = inner(inner(R, S, on(R, S)), T, on(S, T, 1))
    whole = memo.add(inner(three, U, on(T, U, 2)))
    assert Clusters(memo).of(memo.add(three)) is None, "whatever is asked first"
    assert Clusters(memo).of(whole) is not None
    memo.add(Aggregate(three, (Output(R.columns[0], Ref(R.columns[0])),), ()))
    assert Clusters(memo).of(memo.add(three)) is not None, "it is used by others"


def ordering() -> JoinOrders:
    sizes = {"r": 1_000_000, "s": 1_000, "t": 500_000, "u": 100_000}
    tables = {
        name: TableFacts((rows, rows + 10), (0, 0), 2, columns=dict.fromkeys("xyz", ColumnStats(rows)))
        for name, rows in sizes.items()
    }
    return JoinOrders(CostModel(broadcast_bytes=0), Estimator(tables))


def leaves(rel: Rel) -> list[str]:
    return [leaf.label for leaf in rel.walk() if not leaf.inputs]


def test_a_join_starts_from_what_changes() -> None:
    new, old = (tuple(View(rel, Snapshot(t)) for rel in (R, S, T, U)) for t in (1, 0))
    of_t = MultiJoin((*new[:2], View(T, Delta(0, 1)), old[3]), CHAIN)
    assert leaves(ordering().ordered(of_t))[0] == "t[0:1]"
    of_r = MultiJoin((View(R, Delta(0, 1)), *old[1:]), CHAIN)
    assert leaves(ordering().ordered(of_r))[:2] == ["r[0:1]", "s[:0]"]


@pytest.mark.parametrize("exact", [0, 99])
def test_an_order_that_is_known_is_kept_at_other_sizes(exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it would be found among all or step by step: what Spark has compiled is run again."""
    monkeypatch.setattr(joins, "_EXACT", exact)
    whole = MultiJoin(tuple(View(rel, Snapshot(1)) for rel in (R, S, T, U)), CHAIN)

    def orders(sizes: tuple[int, ...], known: Mapping[str, Order] = MappingProxyType({})) -> JoinOrders:
        tables = {
            name: TableFacts((rows, rows + 10), (0, 0), 2, columns=dict.fromkeys("xyz", ColumnStats(rows)))
            for name, rows in zip("rstu", sizes, strict=True)
        }
        return JoinOrders(CostModel(broadcast_bytes=0), Estimator(tables), known=known)

    rising, falling = (10, 1_000, 100_000, 1_000_000), (1_000_000, 100_000, 1_000, 10)
    before, anew = orders(rising), orders(falling)
    joined = before.ordered(whole)
    assert str(anew.ordered(whole)) != str(joined)
    again = orders(falling, dict(before.found))
    assert str(again.ordered(whole)) == str(joined)
    assert again.found == before.found
    # What is no order of these terms is not one that is known.
    wrong = orders(falling, {name: (0, *order[1:-1], 0) for name, order in before.found})
    assert str(wrong.ordered(whole)) == str(anew.ordered(whole))


def equalities_of(rel: Rel) -> list[Expr]:
    return [part for join in rel.walk() if isinstance(join, Join) for part in conjuncts(join.on)]


def test_terms_are_joined_by_what_is_equal_in_the_end() -> None:
    """r.x = s.x and r.x = t.x: the few rows of s and t are joined first, by s.x = t.x, and one of the others is left."""
    few = {"r": 10_000_000, "s": 100, "t": 100}
    tables = {
        name: TableFacts((rows,), (0,), 1, columns={"x": ColumnStats(rows), "y": ColumnStats(10)})
        for name, rows in few.items()
    }
    orders = JoinOrders(CostModel(broadcast_bytes=0), Estimator(tables))
    terms = tuple(View(rel, Snapshot(0)) for rel in (R, S, T))
    also = Call("LessThan", (Ref(S.columns[1]), Ref(T.columns[1])), "boolean")
    ordered = orders.ordered(MultiJoin(terms, conjunction(on(R, S), on(R, T), also)))
    assert sorted(leaves(ordered)[:2]) == ["s[:0]", "t[:0]"]
    found = equalities_of(ordered)
    assert on(S, T) in found
    assert also in found
    assert len(found) == 3


def test_an_equality_of_other_types_implies_nothing() -> None:
    other = Scan("o", ("x",), (Column("ox", "x", "bigint"),))
    each = [frozenset(rel.columns) for rel in (R, S, T, other)]
    assert not list(implied((on(R, S), on(S, other)), each))
    assert list(implied((on(R, S), on(S, T)), each)) == [on(R, T)]
    apart = [frozenset(R.columns + T.columns), frozenset(S.columns)]
    assert not list(implied((on(R, S), on(S, T)), apart)), "columns of one relation are not compared with each other"


@pytest.mark.parametrize("seed", range(60))
def test_equal_columns_in_any_order_give_the_same_bag(seed: int) -> None:
    """Chains, stars, cycles and columns of one relation that are equal only because others are; NULL is equal to nothing."""
    random, rows = Random(seed), bags(seed)
    terms = (R, S, T, U)
    pairs = [random.sample(range(4), 2) for _ in range(random.randint(3, 6))]
    parts = [on(terms[i], terms[j], random.randrange(2), random.randrange(2)) for i, j in pairs]
    whole = MultiJoin(terms, conjunction(*parts))
    sizes = {name: 10 ** random.randint(1, 6) for name in "rstu"}
    tables = {
        name: TableFacts((n,), (0,), 1, columns=dict.fromkeys("xyz", ColumnStats(n))) for name, n in sizes.items()
    }
    ordered = JoinOrders(CostModel(broadcast_bytes=0), Estimator(tables)).ordered(whole)
    assert evaluate(ordered, rows.__getitem__) == evaluate(whole, rows.__getitem__)
    assert len(equalities_of(ordered)) <= len(parts), "no more is asked than was"


def test_a_product_is_formed_only_where_nothing_connects() -> None:
    terms = tuple(View(rel, Snapshot(1)) for rel in (R, S, T, U))
    ordered = ordering().ordered(MultiJoin(terms, CHAIN))
    assert all(join.on != TRUE for join in ordered.walk() if isinstance(join, Join))
    alone = ordering().ordered(MultiJoin(terms, conjunction(on(R, S), on(S, T, 1))))
    assert [join.on for join in alone.walk() if isinstance(join, Join)].count(TRUE) == 1


@pytest.mark.parametrize("number", [8, 12])
def test_many_terms_have_an_order_with_every_condition_once(number: int) -> None:
    tables = [table("r", f"r{i}") for i in range(number)]
    condition = conjunction(*(on(tables[0], other) for other in tables[1:]))
    multi = MultiJoin(tuple(View(rel, Snapshot(1)) for rel in tables), condition)
    joins = [rel for rel in ordering().ordered(multi).walk() if isinstance(rel, Join)]
    assert len(joins) == number - 1
    assert sum(join.on != TRUE for join in joins) == number - 1


def test_a_query_joins_by_several_columns_of_a_table_with_those_of_one_other() -> None:
    other = table("r", "r2")
    by_two = inner(inner(R, S, conjunction(on(R, S), on(S, R, 2, 1))), other, on(S, other, 1, 1))
    assert compared_together(by_two) == {("r", frozenset("xy")), ("s", frozenset("xz"))}
    written = Filter(inner(R, other, on(R, other)), on(other, R, 2, 1))
    assert compared_together(written) == {("r", frozenset("xy")), ("r", frozenset("xz"))}
    with_itself = Filter(R, conjunction(on(R, R, 0, 1), on(R, R, 1, 2)))
    assert compared_together(with_itself) == set()


def grouped(rel: Rel, *columns: Column) -> Aggregate:
    return Aggregate(rel, tuple(Output(Column(f"g{c.id}", c.name, c.type), Ref(c)) for c in columns), ())


def test_a_query_groups_by_several_columns_of_one_table() -> None:
    x, y, _ = R.columns
    assert grouped_together(grouped(R, x, y)) == {("r", frozenset("xy"))}
    named = Project(R, tuple(Output(Column(f"n{c.id}", c.name, c.type), Ref(c)) for c in R.columns))
    assert grouped_together(grouped(inner(named, S, TRUE), *named.columns[1:])) == {("r", frozenset("yz"))}
    kept = Project(named, tuple(Output(c, Ref(c)) for c in named.columns))
    assert grouped_together(grouped(kept, *kept.columns[:2])) == {("r", frozenset("xy"))}
    finer = grouped(named, *named.columns)
    assert grouped_together(grouped(finer, *finer.columns[:2])) == {("r", frozenset("xyz")), ("r", frozenset("xy"))}
    assert grouped_together(grouped(R, x)) == set(), "of one column there is a sketch anyway"
    assert grouped_together(grouped(inner(R, S, on(R, S)), x, S.columns[0])) == set(), "of two rows"
    is_same = Output(Column("p", "p", "boolean"), equal(Ref(x), Ref(y)))
    computed = Project(R, (is_same, Output(Column("q", "q", "int"), Ref(x))))
    assert grouped_together(grouped(computed, *computed.columns)) == set()


def snowflake(random: Random) -> tuple[MultiJoin, Estimator]:
    """Facts with three to five dimensions, some of which have one of their own; a condition leaves a part of some."""
    dimensions = random.randrange(3, 6)
    facts = Scan(
        "f", tuple(f"k{i}" for i in range(dimensions)), tuple(Column(f"fk{i}", "k", "int") for i in range(dimensions))
    )
    sizes = [random.choice((10, 300, 5_000, 80_000)) for _ in range(dimensions)]
    columns = {f"k{i}": ColumnStats(size) for i, size in enumerate(sizes)}
    tables = {"f": TableFacts((2_000_000,), (0,), 1, columns=columns)}
    terms, conditions = [View(facts, Snapshot(0))], list[Expr]()
    for i, size in enumerate(sizes):
        of = facts.columns[i]
        for name in (f"d{i}", f"e{i}")[: random.choice((1, 1, 2))]:
            own = table(name)
            left = max(1, round(size * random.choice((1, 0.3, 0.01))))
            tables[name] = TableFacts(
                (left,), (0,), 1, columns={"x": ColumnStats(left), "y": ColumnStats(max(1, left // 20))}
            )
            terms.append(View(own, Snapshot(0)))
            conditions.append(equal(Ref(of), Ref(own.columns[0])))
            of, size = own.columns[1], max(1, left // 20)
    return MultiJoin(tuple(terms), conjunction(*conditions)), Estimator(tables)


def test_orders_of_many_terms_are_nearly_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the best is looked for, too: begun from the smallest dimension alone, facts would meet it first, whatever it leaves of them."""
    random, model, ratios = Random(1), CostModel(), list[float]()
    for _ in range(60):
        query, estimate = snowflake(random)

        def price(most: int, query: MultiJoin = query, estimate: Estimator = estimate) -> int:
            monkeypatch.setattr(joins, "_EXACT", most)
            ordered = JoinOrders(model, estimate).ordered(query)
            return sum(model.operator(rel, estimate) for rel in ordered.walk() if isinstance(rel, Join))

        ratios.append(price(0) / price(99))
    assert min(ratios) == 1
    assert max(ratios) < 1.12
    assert sum(ratios) / len(ratios) < 1.01
