"""Pieces of work at once: each after what it needs, no more than so many, and nothing goes on after an error."""

import threading
from collections.abc import Callable
from random import Random

import pytest

from tempura.execute.at_once import run_at_once

NEVER = pytest.fail
Needs = dict[str, frozenset[str]]


def free(names: str) -> Needs:
    return dict.fromkeys(names, frozenset())


def test_what_needs_nothing_of_each_other_runs_at_once() -> None:
    met, ended = threading.Barrier(3), []
    run_at_once(free("abc"), lambda _: lambda: met.wait(20), lambda k, _: ended.append(k), lambda: NEVER("no error"))
    assert sorted(ended) == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(20))
def test_each_begins_when_what_it_needs_has_ended(seed: int) -> None:
    random, names = Random(seed), "abcdefgh"
    needs = {k: frozenset(random.sample(names[:i], random.randint(0, min(i, 2)))) for i, k in enumerate(names)}
    began: list[str] = []
    results: dict[str, int] = {}
    running, most, lock = 0, 0, threading.Lock()

    def begin(k: str) -> Callable[[], int]:
        assert needs[k] <= results.keys()
        assert threading.current_thread() is threading.main_thread()
        began.append(k)
        return lambda: work(k)

    def work(k: str) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(random.random() / 200)
        with lock:
            running -= 1
        return names.index(k)

    run_at_once(needs, begin, results.__setitem__, lambda: NEVER("no error"), at_once=2)
    assert results == {k: i for i, k in enumerate(names)}
    assert sorted(began) == list(names), "each once"
    assert most <= 2


def test_what_has_nothing_beside_it_runs_in_the_same_thread() -> None:
    needs = {"a": frozenset[str](), "b": frozenset("a")}
    threads: list[threading.Thread] = []
    run_at_once(
        needs, lambda _: lambda: threads.append(threading.current_thread()), lambda *_: None, lambda: NEVER("no error")
    )
    assert threads == [threading.main_thread()] * 2


def test_after_an_error_the_others_are_stopped_and_awaited() -> None:
    stop, began, left = threading.Event(), threading.Event(), []

    def begin(k: str) -> Callable[[], None]:
        assert k in "ab", "nothing new begins"
        return fails if k == "a" else goes_on

    def fails() -> None:
        began.wait(20)
        raise ValueError("a fails")

    def goes_on() -> None:
        began.set()
        assert stop.wait(20)
        threading.Event().wait(0.05)
        left.append("b")

    needs = free("ab") | {"c": frozenset("a")}
    with pytest.raises(ValueError, match="a fails"):
        run_at_once(needs, begin, lambda *_: None, stop.set)
    assert left == ["b"]


def test_an_error_before_work_begins_stops_those_that_run() -> None:
    stop, left = threading.Event(), []

    def begin(k: str) -> Callable[[], None]:
        if k == "b":
            raise ValueError("b cannot be prepared")
        return lambda: left.append(stop.wait(20))

    with pytest.raises(ValueError, match="prepared"):
        run_at_once(free("ab"), begin, lambda *_: None, stop.set)
    assert left == [True]
