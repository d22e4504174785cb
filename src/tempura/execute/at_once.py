"""Several pieces of a step at once, what it writes and what it computes for that: while the driver plans one, tasks of another run."""

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from pyspark import InheritableThread

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

AT_ONCE = 4
"""So many at a time: a small step is mostly the driver's work, of which each keeps about one core busy. Chosen, not measured."""

_AGAIN = 0.5
"""Seconds until those who still run are cancelled once more."""


@dataclass(frozen=True, slots=True)
class _Ended(Generic[K, T]):
    """What became of a piece of work: the ``error``, if there is one, else the ``result``."""

    piece: K
    result: T | None = None
    error: BaseException | None = None


def run_at_once(
    needs: Mapping[K, frozenset[K]],
    begin: Callable[[K], Callable[[], T]],
    end: Callable[[K, T], None],
    cancel: Callable[[], None],
    at_once: int = AT_ONCE,
) -> None:
    """Do pieces of work, each once those that it ``needs`` have ended, and where several are ready in the order of ``needs``.

    ``begin`` and ``end`` are called in this thread: ``begin`` prepares a piece and gives what is left to do, which then runs in a
    thread of its own that has the job group and the job tags of this one, unless nothing could run beside it; ``end`` hears what came
    out. When one fails, ``cancel`` is asked to stop the others, and their end is awaited, so that nobody writes any more; then the
    first error is raised. An interrupt is raised at once. Needs must not be circular."""
    waiting, running = list(needs), set[K]()
    ended: SimpleQueue[_Ended[K, T]] = SimpleQueue()

    def work(piece: K, left: Callable[[], T]) -> None:
        try:
            ended.put(_Ended(piece, left()))
        except BaseException as error:
            ended.put(_Ended(piece, error=error))

    try:
        while waiting or running:
            ready = [piece for piece in waiting if needs[piece].isdisjoint({*waiting, *running})]
            is_alone = len(ready) == 1 and not running
            for piece in ready[: at_once - len(running)]:
                left = begin(piece)
                waiting.remove(piece)
                running.add(piece)
                if is_alone:
                    work(piece, left)
                else:
                    InheritableThread(target=work, args=(piece, left), name="tempura-at-once", daemon=True).start()
            one = ended.get()
            running.remove(one.piece)
            if one.error:
                raise one.error
            end(one.piece, one.result)  # type: ignore[arg-type]
    except Exception:
        _await(len(running), ended, cancel)
        raise


def _await(running: int, ended: SimpleQueue[_Ended[K, T]], cancel: Callable[[], None]) -> None:
    """Cancel what runs, and again what has begun meanwhile: a piece may be between two jobs."""
    while running:
        cancel()
        with suppress(Empty):
            while running:
                ended.get(timeout=_AGAIN)
                running -= 1
