"""Pushes under an id: the same id twice is one arrival, so that a caller who was killed may repeat the call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, Pushed
from tempura.warehouse.engine import Changes, Engine

MAX_LENGTH = 200
"""Characters of an id."""

TRANSACTION = "transaction"
"""The kind of what a transaction pushes, whatever it is made of."""


@dataclass(frozen=True, slots=True)
class Push:
    """What a caller pushes: ``changes`` are looked at when they are needed, ``count`` says how many rows they are. ``kind`` is the name
    of the call. ``trust``: the deletes are known to be there."""

    kind: str
    changes: Callable[[], Changes]
    count: Callable[[], int]
    trust: bool = False


def _given(kind: str, rows: Any) -> Any:
    """Rows that were given. None is what a function gives that has forgotten to: not no rows. Raises TempuraError BAD_ROWS."""
    if rows is None:
        raise TempuraError("BAD_ROWS", f"{kind}(None) gives no rows.", "Give a DataFrame; an empty one for no rows.")
    return rows


def append(engine: Engine, rows: Any) -> Push:
    """Rows that come. Raises TempuraError BAD_ROWS, as the others do."""
    rows = _given("append", rows)
    return Push("append", lambda: Changes(inserts=rows), lambda: engine.count(rows))


def upsert(engine: Engine, rows: Any) -> Push:
    """Rows that take the place of those of the same key."""
    rows = _given("upsert", rows)
    return Push("upsert", lambda: Changes(updates=rows), lambda: engine.count(rows))


def delete(engine: Engine, rows: Any, trust: bool) -> Push:
    """Rows that go."""
    rows = _given("delete", rows)
    return Push("delete", lambda: Changes(deletes=rows), lambda: engine.count(rows), trust)


def apply(engine: Engine, changes: Any, trust: bool) -> Push:
    """Rows with a column that says what happens to each."""
    changes = _given("apply", changes)
    return Push("apply", lambda: engine.told(changes), lambda: engine.count(changes), trust)


def check_id(id: str | None) -> None:
    """Raises TempuraError BAD_ID for an id that is empty, too long, or cannot be printed."""
    if id is None or (isinstance(id, str) and 0 < len(id) <= MAX_LENGTH and id.isprintable() and not id.isspace()):
        return
    remedy = f"Use a text of at most {MAX_LENGTH} printable characters, such as batch-17."
    raise TempuraError("BAD_ID", f"{str(id)[:MAX_LENGTH]!r} is no id of a push.", remedy)


def version_of(arrivals: Sequence[Arrival], id: str | None) -> int | None:
    """The version of a table that the push under an id has made; None when there was none."""
    if id is None:
        return None
    return next((n for n, a in enumerate(arrivals, 1) if a.pushed and a.pushed.id == id), None)


def check_same(table: str, before: Arrival, kind: str, rows: int) -> None:
    """Raises TempuraError ID_REUSED when an id is repeated for something else: another kind of change, or more or fewer rows.
    Values are not compared."""
    known = before.pushed
    if known is not None and known.kind != kind:
        raise reused(table, known, f"this is {_named(kind)}")
    if known is not None and known.rows != rows:
        raise reused(table, known, f"this one has {rows}")


def reused(table: str, known: Pushed, but: str) -> TempuraError:
    """The error of an id that was used for something else."""
    what = f"Table {table}: id {known.id!r} was used for {_named(known.kind)} of {known.rows} rows, but {but}."
    return TempuraError("ID_REUSED", what, "Nothing was changed. Use an id for each batch of its own.")


def _named(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
