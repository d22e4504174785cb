"""What is a continuous join, and what is refused."""

from functools import reduce

import pytest

from tempura.algebra.scalar import TRUE, Call, Column, Expr
from tempura.bench.stream_inputs import TABLE_2, batches_of, on_one_attribute, three_way, values_of
from tempura.errors import TempuraError
from tempura.streams.candidates import candidate, is_possible, prefix_candidates, update_point
from tempura.streams.execution import Batch, CachedJoin, check_orders, first_orders
from tempura.streams.query import Input, JoinQuery, LastRows, LastTime, Window, equal
from tempura.streams.xjoin import XJoin, show, trees


def inputs(*types: str, window: Window = None) -> tuple[Input, ...]:
    return tuple(Input(f"r{n}", (Column(f"r{n}.a", "a", type),), window) for n, type in enumerate(types))


def joined(found: tuple[Input, ...]) -> JoinQuery:
    parts: list[Expr] = [equal(found[0].columns[0], other.columns[0]) for other in found[1:]]
    return JoinQuery(found, reduce(lambda a, b: Call("And", (a, b), "boolean"), parts))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: joined(inputs("int")[:1] * 1 + inputs(*["int"] * 11)[1:]), "2 to 10 inputs, not 11"),
        (lambda: JoinQuery(inputs("int", "int"), TRUE), "no equality connects r1 with r0"),
        (lambda: joined(inputs("int", "string")), "type int is compared with a of type string"),
        (lambda: joined(inputs("array<int>", "array<int>")), "cannot be a key"),
        (lambda: joined((inputs("int")[0], inputs("int")[0])), "two inputs have the name 'r0'"),
        (lambda: joined(inputs("int", "int", window=LastRows(0))), "window of r0 is empty"),
        (lambda: joined(inputs("int", "int", window=LastTime(0.0))), "window of r0 is empty"),
        (
            lambda: JoinQuery(inputs("int", "int"), equal(inputs("int")[0].columns[0], Column("x", "x", "int"))),
            "x is a column of no input",
        ),
    ],
)
def test_what_is_no_continuous_join_is_refused(make: object, says: str) -> None:
    with pytest.raises(TempuraError, match=f"BAD_STREAM_JOIN.*{says}"):
        make()  # type: ignore[operator]


def test_orders_with_products_are_refused() -> None:
    query = three_way(10, 1)
    check_orders(query, first_orders(query))
    with pytest.raises(TempuraError, match=r"BAD_STREAM_JOIN.*pipeline of R"):
        CachedJoin(query, ((2, 1), (0, 2), (1, 0)))


def test_time_does_not_go_back() -> None:
    join = CachedJoin(joined(inputs("int", "int", window=LastTime(5.0))))
    join.process(Batch(0, [(1,)], time=3.0))
    with pytest.raises(TempuraError, match=r"TIME_GOES_BACK"):
        join.process(Batch(1, [(1,)], time=2.0))


@pytest.mark.parametrize("window", [None, LastRows(5), LastTime(5.0)])
def test_what_is_not_there_cannot_be_deleted(window: Window) -> None:
    join = CachedJoin(joined(inputs("int", "int", window=window)))
    join.process(Batch(0, [(1,)]))
    join.process(Batch(0, deletes=[(1,)]))
    with pytest.raises(TempuraError, match=r"DELETE_OF_MISSING.*\(1,\) is to be deleted from r0"):
        join.process(Batch(0, deletes=[(1,)]))


def test_a_batch_that_is_refused_changes_nothing() -> None:
    """Neither its inserts, nor deletions before the wrong one; what its time lets go is told with the next batch."""
    join = CachedJoin(joined(inputs("int", "int", window=LastTime(5.0))))
    join.process(Batch(0, [(1,)], time=0.0))
    join.process(Batch(1, [(1,)], time=3.0))
    with pytest.raises(TempuraError, match=r"DELETE_OF_MISSING"):
        join.process(Batch(1, [(2,)], [(1,), (2,), (2,)], time=6.0))
    found = [r for c in join.process(Batch(0, [(1,), (2,)], time=6.5)) for r in c.rows()]
    assert found == [((1, 1), -1), ((1, 1), 1)]


def test_rows_leave_their_windows() -> None:
    join = CachedJoin(joined(inputs("int", "int", window=LastTime(5.0))))
    join.process(Batch(0, [(1,)], time=0.0))
    assert [r for c in join.process(Batch(1, [(1,)], time=4.9)) for r in c.rows()] == [((1, 1), 1)]
    assert [r for c in join.process(Batch(1, [(2,)], time=5.0)) for r in c.rows()] == [((1, 1), -1)]


def test_the_cache_of_figure_3() -> None:
    """Examples 3.2 to 3.5: R2 ⋈ R3 in R1's pipeline, and what an insertion into R3 does to it."""
    query = three_way(100, 1)
    orders = ((1, 2), (2, 0), (1, 0))
    cache = candidate(query, orders, 0, 0, 2)
    assert prefix_candidates(query, orders) == [cache]
    join = CachedJoin(query, orders, [cache])
    join.process(Batch(1, [(1, 2), (1, 3), (2, 3)]))
    join.process(Batch(2, [(2,)]))
    (changes,) = join.process(Batch(0, [(1,)]))
    assert list(changes.rows()) == [((1, 1, 2, 2), 1)]
    assert (join.caches[cache.group].probes, join.caches[cache.group].misses) == (1, 1)
    join.process(Batch(2, [(3,)]))
    (changes,) = join.process(Batch(0, [(1,)]))
    assert sorted(changes.rows()) == [((1, 1, 2, 2), 1), ((1, 1, 3, 3), 1)]
    assert join.caches[cache.group].misses == 1
    assert list(join.caches[cache.group].entries) == [1]


def test_a_cache_without_prefix_in_a_chain_is_global() -> None:
    """Example 3.4: R2 ⋈ R1 in R3's pipeline lacks the invariant where R2 joins R3 first; as (R1 ⋈ R2) ⋉ R3 it may be used."""
    query = three_way(100, 1)
    orders = ((1, 2), (2, 0), (1, 0))
    cache = candidate(query, orders, 2, 0, 2)
    assert cache not in prefix_candidates(query, orders)
    point = update_point(query, orders, cache.group, 1)
    assert point is not None
    assert not point.exact
    assert is_possible(query, orders, [cache])


def test_all_trees_of_four_streams() -> None:
    query = on_one_attribute("RSTU", 10)
    found = [show(query, tree) for tree in trees(query)]
    assert len(found) == len(set(found)) == 15
    assert len([show(three_way(5, 1), tree) for tree in trees(three_way(5, 1))]) == 2


@pytest.mark.parametrize("name", TABLE_2)
def test_streams_have_the_selectivities_of_table_2(name: str) -> None:
    """Computed from the blocks, and counted in what is drawn."""
    values = values_of(TABLE_2[name])
    for (one, other), wanted in TABLE_2[name].pairs.items():
        shared = {b[:2]: b[2] for b in values[one].blocks}
        found = sum(mass * shared.get((first, size), 0.0) / size for first, size, mass in values[other].blocks)
        assert found == pytest.approx(wanted, abs=1e-9)
    assert all(sum(mass for _, _, mass in v.blocks) == pytest.approx(1.0) for v in values)
    rows: list[list[int]] = [[], [], [], []]
    for batch in batches_of(TABLE_2[name], 20_000, seed=7):
        rows[batch.input] += [int(str(row[0])) for row in batch.inserts]
    counts = [{v: r.count(v) / len(r) for v in set(r)} for r in rows]
    met = sum(share * counts[1].get(v, 0.0) for v, share in counts[0].items())
    assert met == pytest.approx(TABLE_2[name].selectivities[0], rel=0.35, abs=1e-9)


def test_trees_keep_their_results() -> None:
    join = XJoin(on_one_attribute("RST", 10), (0, (1, 2)))
    for n in range(3):
        join.process(Batch(n, [(1,), (2,)]))
    assert join.subresults == 2
