"""A continuous join from a specification, in one process."""

import tomllib
from collections.abc import Iterator
from random import Random

import pytest

from tempura.algebra.bag import Row, SignedBag
from tempura.errors import TempuraError
from tempura.streams.job import Arrival, join
from tempura.streams.query import LastRows, LastTime
from tempura.streams.spec import query_of

SPEC = """
on = ["orders.id = payments.order_id", "orders.id = shipments.order_id", "payments.amount > 10"]
[inputs.orders]
columns = { id = "bigint", region = "string" }
window = "2 hours"
[inputs.payments]
columns = { order_id = "bigint", amount = "bigint" }
[inputs.shipments]
columns = { order_id = "bigint" }
window = "1000 rows"
"""


def test_a_specification_is_read() -> None:
    query = query_of(tomllib.loads(SPEC))
    assert [input.window for input in query.inputs] == [LastTime(7200.0), None, LastRows(1000)]
    assert query.classes == ((0,), (0,), (0,))
    assert [str(c) for c in query.conditions] == ["(amount > 10)"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("orders.id = payments.order_id", "orders.id ~ payments.order_id", "cannot be read"),
        ("orders.id = payments.order_id", "orders.nr = payments.order_id", "names orders.nr"),
        ("2 hours", "2 fortnights", "window of orders is '2 fortnights'"),
        ("window = ", "windows = ", "input orders has columns"),
        ("on = ", "where = ", "a specification has inputs and on"),
    ],
)
def test_a_bad_specification_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(TempuraError, match=f"BAD_STREAM_JOIN.*{says}"):
        query_of(tomllib.loads(SPEC.replace(old, new, 1)))


def arrivals() -> Iterator[Arrival]:
    yield Arrival("orders", [(1, "north"), (2, "south")], time=0.0)
    yield Arrival("payments", [(1, 50), (2, 5), (1, 50)], time=10.0)
    yield Arrival("shipments", [(1,)], time=20.0)
    yield Arrival("payments", deletes=[(1, 50)], time=30.0)
    yield Arrival("shipments", [(2,)], time=7200.0)


def test_changes_of_the_result_reach_the_sink() -> None:
    found: list[tuple[Row, int]] = []
    with join(tomllib.loads(SPEC), arrivals(), lambda row, weight: found.append((row, weight))) as job:
        assert job.run(3) == 3
        assert found == [((1, "north", 1, 50, 1), 1)] * 2
        assert job.run(1) == 1
        assert found[2:] == [((1, "north", 1, 50, 1), -1)]
        assert job.run() == 1
        assert SignedBag(found) == SignedBag()
        assert job.status()["processed"] == 9
        assert job.explain().splitlines()[0] == "orders: payments ⋈ shipments"


def test_a_job_that_is_stopped_takes_no_more() -> None:
    job = join(tomllib.loads(SPEC), arrivals(), lambda row, weight: None)
    job.stop()
    assert job.run() == 0


@pytest.mark.parametrize(
    ("arrival", "says"), [(Arrival("refunds"), "is no input"), (Arrival("orders", [(1,)]), "orders has 2 columns")]
)
def test_what_does_not_fit_is_refused_and_changes_nothing(arrival: Arrival, says: str) -> None:
    job = join(tomllib.loads(SPEC), [arrival], lambda row, weight: None)
    with pytest.raises(TempuraError, match=f"BAD_STREAM_JOIN.*{says}"):
        job.run()
    assert job.status()["processed"] == 0


def test_a_sink_that_raises_gets_each_change_once() -> None:
    taken: list[tuple[Row, int]] = []
    failing = [True, False, True, False, False]

    def sink(row: Row, weight: int) -> None:
        if failing and failing.pop(0):
            raise OSError("no room")
        taken.append((row, weight))

    job = join(tomllib.loads(SPEC), arrivals(), sink)
    for delivered in (0, 1):
        with pytest.raises(TempuraError, match=rf"SINK_FAILED.*took {delivered} changed rows.*OSError: no room"):
            job.run()
    job.run()
    row = (1, "north", 1, 50, 1)
    assert taken == [(row, 1), (row, 1), (row, -1), (row, -1)]
    assert job.delivered == 4


def test_memory_changes_while_a_job_runs() -> None:
    rng = Random(0)
    names, width = ("orders", "payments", "shipments"), (2, 2, 1)
    source = (
        Arrival(names[n], [tuple([rng.randrange(50)] * width[n])], time=0.0)
        for n in (rng.randrange(3) for _ in range(2000))
    )
    spec = tomllib.loads(SPEC.replace('region = "string"', 'region = "bigint"'))
    job = join(spec, source, lambda row, weight: None, memory=4096)
    job.run(1000)
    job.memory = 0
    job.run()
    assert job.status()["memory"] == {"budget": 0, "used": 0}
