"""The adaptive join: exact whatever it decides, and its decisions follow the conditions. Costs are counted, so every run is the same."""

from collections.abc import Callable
from math import sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempura.bench.stream_inputs import Point, batches_of, on_one_attribute, three_way, three_way_batches
from tempura.streams.adaptive import AdaptiveJoin
from tempura.streams.candidates import candidate
from tempura.streams.clock import Clock
from tempura.streams.execution import Batch, CachedJoin
from tempura.streams.measuring import SHARE, Measuring
from tempura.streams.profiler import Profiler, Rates
from tempura.streams.query import JoinQuery
from tempura.streams.settings import Settings
from tempura.streams.spec import query_of
from tempura.streams.statistics import Average, ProbeWindows
from tempura.streams.store import Row
from tests.unit.stream_histories import first_difference, random_history, random_query

HASTY = Settings(interval=20, gap=2, profiling_gap=1, threshold=0.0, probes=2, rows=1)


class Free(Clock):
    """Caches cost nothing: as many as possible are used."""

    look = item = update = witness = 0.0


@pytest.mark.parametrize("clock", [Clock(), Free()])
@pytest.mark.parametrize("seed", range(30))
def test_it_is_exact_with_changing_memory(seed: int, clock: Clock) -> None:
    rng = Random(seed)
    query = random_query(rng)
    join = AdaptiveJoin(query, settings=HASTY, clock=clock)

    def squeeze() -> None:
        if rng.random() < 0.1:
            join.memory = rng.choice([None, 0, 1024, 3000])

    assert first_difference(join, list(random_history(rng, query, 40)), squeeze) is None


def test_those_histories_use_caches() -> None:
    """Otherwise the test above would say nothing of them."""
    used = 0
    for seed in range(10):
        rng = Random(seed)
        join = AdaptiveJoin(random_query(rng), settings=HASTY, clock=Free())
        for batch in random_history(rng, join.query, 40):
            join.process(batch)
            used += bool(join.used)
    assert used > 60


def bursting(count: int, burst: int) -> tuple[JoinQuery, AdaptiveJoin]:
    """R ⋈ S ⋈ T with T five times as fast, and from some row on R twenty times."""
    query = three_way(window=100, multiplicity=5)
    join = AdaptiveJoin(query, clock=Clock(), settings=Settings(interval=4000))
    for batch in three_way_batches(count, (1, 1, 5), 100, 5, seed=1):
        join.process(batch)
    for batch in three_way_batches(burst, (20, 1, 5), 100, 5, seed=2):
        join.process(batch)
    return query, join


def test_a_cache_is_used_where_probes_outnumber_updates() -> None:
    _, join = bursting(8000, 0)
    assert [c.pipeline for c in join.used] == [2]
    about = join.status()["caches"][0]
    assert about["cache"] == "R ⋈ S in T"
    assert about["hits"] > 0.9
    assert about["benefit"] > about["cost"]


def test_a_burst_changes_the_caches() -> None:
    _, join = bursting(8000, 12000)
    assert 0 in [c.pipeline for c in join.used]
    assert {"profile", "select"} <= {e.kind for e in join.events.all}


@pytest.mark.parametrize("calm", range(6000, 9000, 500))
def test_a_burst_changes_the_caches_within_an_interval_whenever_it_begins(calm: int) -> None:
    """Rates that have moved begin a phase; and a cache that begins empty is not judged by what it misses until it is full."""
    _, join = bursting(calm, 0)
    began, interval = join.processed, join.settings.interval
    assert 0 not in [c.pipeline for c in join.used]
    unused = []
    for batch in three_way_batches(6000, (20, 1, 5), 100, 5, seed=2):
        join.process(batch)
        if 0 not in [c.pipeline for c in join.used]:
            unused.append(join.processed - began)
    assert unused[-1] < interval < join.processed - began


def test_rates_have_moved_when_two_ticks_say_the_same() -> None:
    def moved(*ticks: tuple[int, int]) -> bool:
        rates, counts = Rates(2), (0, 0)
        for one, other in ticks:
            counts = (counts[0] + one, counts[1] + other)
            rates.tick(counts)
        return rates.have_moved([0.5, 0.5], 0.2)

    assert moved((50, 50), (90, 10), (85, 15))
    assert not moved((50, 50), (90, 10))
    assert not moved((50, 50), (55, 45), (55, 45))
    assert not moved((4, 4), (6, 2), (6, 2)), "of eight rows that is chance"
    assert not moved((100, 0), (0, 100), (100, 0), (0, 100)), "rows that come in turns move nothing"
    assert not moved((50, 50), (100, 0), (65, 35)), "two ticks that differ that much from each other are no new rate"


def test_rates_forget_what_came_before_they_moved() -> None:
    rates = Rates(2)
    for counts in ((100, 100), (200, 200), (300, 210), (400, 220)):
        rates.tick(counts)
    rates.forget()
    assert rates.shares() == pytest.approx([200 / 220, 20 / 220])


class Ticking(Clock):
    """A clock that stands still but for what is done by it."""

    time = 0.0

    def now(self) -> float:
        return self.time

    def takes(self, seconds: float) -> Callable[[], None]:
        """Work that takes so long."""

        def work() -> None:
            self.time += seconds

        return work


def shares_measured(others: float) -> float:
    """The share of its time that a join spends on measured rows, which take 50 times what a batch does, while other work takes
    ``others`` seconds per batch."""
    measuring = Measuring(Settings(interval=4000), clock := Ticking(), 3)
    for n in range(100_000):
        clock.time += others
        if n % 50 == 0:
            measuring.time(2, clock.takes(1.0))
            if not measuring.batches_until_allowed(2 * n, known=True):
                measuring.measure(clock.takes(50.0))
    return 50 * measuring.rows / (100_000 + 50 * measuring.rows)


@pytest.mark.parametrize("others", [0.0, 3.0])
def test_measured_rows_take_their_share_of_the_time_that_the_join_works(others: float) -> None:
    assert 0.8 * SHARE < shares_measured(others) < 1.2 * SHARE


def test_all_may_be_measured_while_too_little_is_known() -> None:
    measuring = Measuring(Settings(interval=4000), clock := Ticking(), 3)
    measuring.time(2, clock.takes(1.0))
    for n in range(100):
        assert measuring.batches_until_allowed(2 * n, known=False) == 0
        measuring.measure(clock.takes(50.0))
    assert measuring.batches_until_allowed(200, known=True) > 0
    assert not measuring.is_waiting


def test_time_that_was_not_used_is_kept_for_a_phase_and_no_more() -> None:
    measuring = Measuring(Settings(interval=4000), clock := Ticking(), 3)
    measuring.time(2, clock.takes(1.0))
    measuring.measure(clock.takes(50.0))
    rows = 0
    while not measuring.batches_until_allowed(10**9, known=True):
        measuring.measure(clock.takes(50.0))
        rows += 1
    assert 3 * 4 * 10 <= rows <= 3 * 4 * 10 + 5


def test_matches_are_counted_in_the_rows_there_are_after_an_index_was_dropped() -> None:
    """R, S and T meet in a triangle: a row of R is tried with T by b alone, by an index that no pipeline reads."""
    inputs = {
        name: {"columns": dict.fromkeys(columns, "int")} for name, columns in (("r", "ab"), ("s", "ac"), ("t", "bc"))
    }
    query = query_of({"inputs": inputs, "on": ["r.a = s.a", "r.b = t.b", "s.c = t.c"]})
    join = CachedJoin(query, ((1, 2), (2, 0), (1, 0)))
    profiler = Profiler(query, join.stores, Clock(), rows=1)
    profiler.renew(join.orders)

    def matches_of_t() -> float:
        profiler.measure(join.compile(0, ()), [(Row((1, 7), (1, 7)),)])
        return profiler.joins[0].fanouts[0, 2].last

    join.process(Batch(1, [(1, 5)]))
    join.process(Batch(2, [(7, 5)]))
    assert matches_of_t() == 1
    cache = candidate(query, join.orders, 0, 0, 2)
    join.use([cache])
    join.use([])
    join.process(Batch(2, [(7, 6), (7, 8)]))
    assert matches_of_t() == 3


def test_a_pipeline_is_compiled_again_only_if_orders_or_caches_are_others() -> None:
    query = three_way(window=10, multiplicity=2)
    join = CachedJoin(query, orders := ((1, 2), (0, 2), (1, 0)))
    first = list(join.pipelines)
    join.use([])
    assert all(one is other for one, other in zip(join.pipelines, first, strict=True))
    join.use([candidate(query, orders, 2, 0, 2)])
    assert not any(one is other for one, other in zip(join.pipelines, first, strict=True))


def test_decisions_are_the_same_in_every_run() -> None:
    (_, one), (_, other) = bursting(3000, 3000), bursting(3000, 3000)
    assert list(one.events.all) == list(other.events.all)
    assert one.status() == other.status()


def test_memory_is_kept_to() -> None:
    _, join = bursting(8000, 0)
    needed = join.bytes_used
    join.memory = needed // 4
    for batch in three_way_batches(2000, (1, 1, 5), 100, 5, seed=3):
        join.process(batch)
        assert join.bytes_used <= needed // 4
    join.memory = 0
    assert join.used == ()
    assert [e.kind for e in join.events.all][-2:] == ["memory", "select"]


def test_a_cache_that_does_not_pay_any_more_goes_before_the_next_interval() -> None:
    query = three_way(window=100, multiplicity=5)
    join = AdaptiveJoin(query, clock=Clock(), settings=Settings(interval=100_000, ordering=False))
    for batch in three_way_batches(8000, (1, 1, 5), 100, 5, seed=1):
        join.process(batch)
    assert join.used
    for batch in three_way_batches(60_000, (30, 30, 1), 100, 5, seed=2):
        join.process(batch)
        if not join.used:
            break
    assert "drop" in [e.kind for e in join.events.all]
    assert join.processed < 100_000


def test_orders_follow_fanouts() -> None:
    """A-Greedy puts the join that matches nothing first."""
    query = on_one_attribute("RST", 200)
    join = AdaptiveJoin(query, clock=Clock(), settings=Settings(interval=3000, caching=False))
    for batch in batches_of(Point((1, 1, 1), (0.05, 0.005, 0.005)), 12_000, seed=1):
        join.process(batch)
    assert join.orders[0] == (2, 1)
    assert join.orders[1] == (2, 0)


def test_as_many_rows_are_measured_as_orders_are_chosen_by_however_long_they_take() -> None:
    measured = []
    for clock in (Clock(), Ticking()):
        query = on_one_attribute("RST", 200)
        join = AdaptiveJoin(query, clock=clock, settings=Settings(interval=3000, caching=False))
        for batch in batches_of(Point((1, 1, 1), (0.05, 0.005, 0.005)), 12_000, seed=1):
            join.process(batch)
        assert join.orders[:2] == ((2, 1), (2, 0))
        measured.append(join.measuring.rows)
    assert measured[1] == measured[0]


def test_an_average_is_of_the_last_observations() -> None:
    average = Average(3)
    for value in (100.0, 1.0, 2.0, 3.0):
        average.add(value)
    assert average.value == pytest.approx(2.0)
    assert average.last == 3.0


@given(st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=30))
def test_the_error_of_an_average_is_that_of_the_last_observations(values: list[float]) -> None:
    average = Average(4)
    for value in values:
        average.add(value)
    last = values[-4:]
    mean = sum(last) / 4
    assert average.error == pytest.approx(sqrt(sum((x - mean) ** 2 for x in last)) / 4, abs=1e-3)


def test_distinct_keys_are_estimated() -> None:
    rng = Random(0)
    windows = ProbeWindows()
    for _ in range(3000):
        windows.add(rng.randrange(300))
    assert windows.distinct == pytest.approx(300, rel=0.1)
    assert windows.miss_probability < 0.05
    fresh = ProbeWindows()
    for n in range(640):
        fresh.add(n)
    assert fresh.miss_probability > 0.9
