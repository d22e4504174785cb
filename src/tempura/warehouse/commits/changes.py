"""What changed from one JSON object to the next, as JSON: entries of a ledger say mostly what the one before said."""

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]

Change = Mapping[str, Any]
"""By key: ``[]`` where it is gone, ``[value]`` where it has that value now, and a change where the value is an object as before. A key
that is as it was is left out."""


def change(before: Json, now: Json) -> Change:
    """What is to be changed of an object to make another of it: :func:`changed` undoes this, to the kind of each number."""
    gone: dict[str, Any] = {key: [] for key in before if key not in now}
    return gone | {key: _of(before, key, value) for key, value in now.items() if not _is_same(before, key, value)}


def changed(before: Json, change: Change) -> dict[str, Any]:
    """The object after a change. It shares with the one before what did not change."""
    now = dict(before)
    for key, to in change.items():
        if isinstance(to, Mapping):
            now[key] = changed(before[key], to)
        elif to:
            now[key] = to[0]
        else:
            del now[key]
    return now


def _of(before: Json, key: str, value: Any) -> Any:
    known = before.get(key)
    return change(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else [value]


def _is_same(before: Json, key: str, value: Any) -> bool:
    # For Python 1, 1.0 and True are equal.
    return key in before and repr(before[key]) == repr(value)
