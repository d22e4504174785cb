"""A counter-example made small: rows, changes and parts of parameters are left out as long as the law stays refuted."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.rel import scans
from tempura.algebra.scalar import Expr, conjunction, conjuncts
from tempura.laws.cases import Case
from tempura.tvr.tvr import Tvr

_MOST = 200
"""So often something is left out."""


def shrunk(case: Case, is_refuted: Callable[[Case], bool]) -> Case:
    """A case of which nothing can be left out, or as small as it gets. What is not ``is_refuted`` is not taken, nor what is ill-formed."""
    for _ in range(_MOST):
        candidates = (smaller for smaller in _smaller(case) if _size(smaller) < _size(case))
        smaller = next(filter(is_refuted, candidates), None)
        if smaller is None:
            break
        case = smaller
    return case


def _size(case: Case) -> tuple[int, ...]:
    """What is to become small: rows first, then changes, tables and parameters."""
    histories = case.tables.values()
    rows = sum(bag.size for history in histories for bag in history)
    changes = sum(a != b for history in histories for a, b in pairwise(history))
    return rows, changes, len(case.tables), len(repr(case.bindings))


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with something left out, what leaves out most first."""
    read = {scan.table for value in case.bindings.values() for tvr in _tvrs(value) for scan in scans(tvr.rel)}
    if unread := case.tables.keys() - read:
        yield replace(case, tables={name: history for name, history in case.tables.items() if name not in unread})
    for name, history in case.tables.items():
        for smaller in _histories(history):
            yield replace(case, tables={**case.tables, name: smaller})
    for name, value in case.bindings.items():
        for part in _parts(value):
            yield replace(case, bindings={**case.bindings, name: part})


def _tvrs(value: object) -> tuple[Tvr, ...]:
    values = value if isinstance(value, tuple) else (value,)
    return tuple(item for item in values if isinstance(item, Tvr))


def _histories(history: list[SignedBag]) -> Iterator[list[SignedBag]]:
    """No rows; no change; a row left out at all times, from a time on, up to a time, at a time."""
    times = range(len(history))
    if any(map(len, history)):
        yield [SignedBag() for _ in times]
    for t in times:
        if any(bag != history[t] for bag in history):
            yield [history[t] for _ in times]
    for row in dict.fromkeys(row for bag in history for row in bag.rows()):
        for since in times:
            for until in reversed(times[since:]):
                if any(history[t].weight(row) for t in times[since : until + 1]):
                    yield [_without(bag, row) if since <= t <= until else bag for t, bag in enumerate(history)]


def _without(bag: SignedBag, row: Row) -> SignedBag:
    return bag - SignedBag.of([row]) if bag.weight(row) else bag


def _parts(value: object) -> Iterator[object]:
    """A parameter with one of its terms, outputs, keys or conditions left out."""
    if isinstance(value, tuple) and not _tvrs(value):
        yield from (value[:i] + value[i + 1 :] for i in range(len(value)) if len(value) > 1)
    elif isinstance(value, Expr) and len(parts := conjuncts(value)) > 1:
        yield from (conjunction(*(part for j, part in enumerate(parts) if j != i)) for i in range(len(parts)))
