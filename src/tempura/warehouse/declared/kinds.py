"""Which kinds of values the keys of ``tempura.toml``, and what is given to declare a table, may have: told before anything reads them."""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import tomlkit

from tempura.errors import TempuraError
from tempura.rules.modules import is_module_name

_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """Values that a key may have: those that ``fit``. A message says what to write in the words of ``told``, with an ``example``, and what
    was given unless that may be ``secret``. ``code`` is the error's where a program gives the value: a file's are BAD_TOML."""

    fits: Callable[[Any], bool]
    told: str
    example: Any
    code: str = "BAD_OPTION"
    secret: bool = False


Kinds = Mapping[str, Kind]


def check_section(where: str, data: object, kinds: Kinds, needed: Collection[str] = ()) -> dict[str, Any]:
    """The content of a section of the file as plain data, all its keys known, those ``needed`` among them, each with a value of its kind.
    Raises TempuraError BAD_TOML."""
    data = section(where, data)
    unknown, missing = sorted(set(data) - set(kinds)), sorted(set(needed) - set(data))
    if unknown:
        raise TempuraError(
            "BAD_TOML", f"{where} has unknown {', '.join(unknown)}.", f"Known: {', '.join(sorted(kinds))}."
        )
    if missing:
        raise TempuraError("BAD_TOML", f"{where} lacks {', '.join(missing)}.", "Add it.")
    values = {key: plain(value) for key, value in data.items()}
    for key, value in values.items():
        kind = kinds[key]
        if not kind.fits(value):
            what = f"{where} has {key} of another kind." if kind.secret else f"{where} has {key} = {shown(value)}."
            raise TempuraError("BAD_TOML", what, f"Write {kind.told}, as {key} = {shown(kind.example)}.")
    return values


def section(where: str, data: object) -> Mapping[str, Any]:
    """What is a section. Raises TempuraError BAD_TOML for what is none: a list is not shown, for its sections may hold secrets."""
    if isinstance(data, Mapping):
        return data
    told = "a list" if isinstance(data, list) else shown(plain(data))
    raise TempuraError(
        "BAD_TOML", f"{where} is {told}.", "Write a section of this name, with keys and values below it."
    )


def check_given(whose: str, kinds: Kinds, given: Mapping[str, object]) -> None:
    """Whether what a program gives has the kinds that it has in the file. Raises TempuraError with the code of the kind."""
    for key, value in given.items():
        kind = kinds[key]
        if not kind.fits(value):
            what = f"{whose}: {key} is of another kind." if kind.secret else f"{whose}: {key} is {value!r}."
            raise TempuraError(kind.code, what, f"Give {kind.told}, as {key}={kind.example!r}.")


def listed(value: object) -> object:
    """What a program gives for a list: whatever gives one value after the other, but no text."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


def plain(value: Any) -> Any:
    """A value of the file as Python's own."""
    return value.unwrap() if hasattr(value, "unwrap") else value


def shown(value: Any) -> str:
    """A value as it would stand in the file, its beginning if that is long."""
    line = tomlkit.array()  # in which also sections stand in one line
    line.append(value)
    text = line.as_string()[1:-1]
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


# --- what fits ----------------------------------------------------------------------------------------------------------


def is_text(value: object) -> bool:
    """A text, perhaps an empty one."""
    return isinstance(value, str)


def is_number(value: object) -> bool:
    """A finite number. Python takes booleans for such; its whole numbers may be too large for anything that is done with them."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_plain(value: object) -> bool:
    return is_text(value) or is_number(value) or _is_boolean(value)


def _is_filled(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def is_whole(value: object) -> bool:
    """A whole number."""
    return isinstance(value, int) and is_number(value)


def _is_seconds(value: Any) -> bool:
    return is_number(value) and value >= 0


def _is_moment(value: object) -> bool:
    return isinstance(value, datetime) or _is_filled(value)


def _is_strategy(value: object) -> bool:
    return isinstance(value, str) or _by_name(is_whole)(value)


def _is_module(value: object) -> bool:
    return isinstance(value, str) and is_module_name(value)


def _is_anything(value: object) -> bool:
    return True


def _listed(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(fits, value))


def _are_columns(value: Any) -> bool:
    return _listed(_is_filled)(value) and len(set(value)) == len(value)


def _by_name(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and all(isinstance(k, str) and fits(v) for k, v in value.items())


# --- the keys of each section -------------------------------------------------------------------------------------------

_ELSEWHERE = Kind(_is_anything, "", "")
"""What is checked by what reads it, with a code of its own."""

_COLUMNS = Kind(_are_columns, "a list of column names, each once", ["o_id"], "BAD_KEYS")
_BOOLEAN = Kind(_is_boolean, "a boolean", True)
_PATH = Kind(_is_filled, "a path", "data/sales", "BAD_SOURCE")
_NUMBER = Kind(is_number, "a number", 0.1)
_ZONE = Kind(is_text, "a region", "Europe/Berlin")
_MOMENT = Kind(_is_moment, "a date with a time", "2026-03-01T18:00")

TABLE: Kinds = {
    "schema": Kind(_is_filled, "columns with their types", "id INT, name STRING", "BAD_SCHEMA"),
    "path": _PATH,
    "format": Kind(_is_filled, "the name of a format", "parquet", "UNSUPPORTED_FORMAT"),
    "keys": _COLUMNS,
    "append_only": _BOOLEAN,
    "static": _BOOLEAN,
    "settle": Kind(_is_seconds, "a number of seconds, 0 or more", 60),
    "options": Kind(_by_name(_is_plain), "texts, numbers or booleans by the names of options", {"sep": ";"}),
    "query": Kind(_is_filled, "the name of a query", "daily", "BAD_SOURCE"),
    "expect": _ELSEWHERE,
    "added": _COLUMNS,
    "follow_links": _BOOLEAN,
    "new_columns": _ELSEWHERE,
    "kafka": _ELSEWHERE,
    "stats": _ELSEWHERE,
    "references": _ELSEWHERE,
}

KAFKA: Kinds = {
    "servers": Kind(is_text, "host:port, several with commas between them", "localhost:9092"),
    "topic": Kind(is_text, "the name of a topic", "sales"),
    "value_format": Kind(is_text, "the name of a format", "json"),
    "key_format": Kind(is_text, "the name of a format", "text"),
    "start": _ELSEWHERE,
    "on_bad_record": Kind(is_text, "what becomes of it", "fail"),
    "avro_schema": Kind(is_text, "a schema of Avro as a text", '{"type": "record", …}'),
    "connection": Kind(_by_name(_is_anything), "settings by name", {"security.protocol": "SASL_SSL"}, secret=True),
}

QUERY: Kinds = {
    "schedule": Kind(_by_name(_is_anything), "what is said of it in braces", {"kind": "view"}, "BAD_SCHEDULE"),
    "sql": Kind(is_text, "the query as a text", "SELECT …", "BAD_QUERY"),
    "fingerprint": Kind(is_text, "a text", "…"),
    "outputs": Kind(_listed(_by_name(_is_anything)), "a list of outputs", [{"path": "out"}]),
    "methods": Kind(_listed(is_text), "a list of names of methods", ["im1", "batch"], "UNKNOWN_METHOD"),
    "require": _ELSEWHERE,
    "state_budget": _ELSEWHERE,
    "storage_price": _ELSEWHERE,
}

RULES: Kinds = {"modules": Kind(_listed(_is_module), "a list of names of modules, as after import", ["my_rules"])}
"""Dotted names, to be imported from where Python finds modules, never paths."""

OUTPUT: Kinds = {
    "path": _PATH,
    "mode": Kind(is_text, "the name of a mode", "upsert", "BAD_OUTPUT"),
    "keys": replace(_COLUMNS, code="BAD_OUTPUT"),
}

SCHEDULES: Mapping[str, tuple[Kinds, Collection[str]]] = {
    "view": ({"kind": _ELSEWHERE, "n": Kind(is_whole, "a whole number of refreshes", 30)}, ()),
    "progressive": (
        {
            "kind": _ELSEWHERE,
            "times": Kind(_by_name(is_number), "prices by the times of day", {"14:00": 0.25, "24:00": 1.0}),
            "timezone": _ZONE,
        },
        ("times",),
    ),
    "paced": (
        {
            "kind": _ELSEWHERE,
            "until": _MOMENT,
            "since": _MOMENT,
            "final_work": _NUMBER,
            "total_work": Kind(is_number, "a number", 1.3),
            "max_pace": Kind(is_whole, "a whole number", 100),
            "strategy": Kind(_is_strategy, "a name, or paces by name", "inqp"),
            "timezone": _ZONE,
        },
        ("until",),
    ),
    "fixed": (
        {
            "kind": _ELSEWHERE,
            "times": Kind(_listed(lambda label: is_text(label) or is_number(label)), "a list of labels", ["a", "b"]),
            "weights": Kind(_listed(is_number), "a list of numbers", [0.5, 1.0]),
            "outputs": Kind(_listed(_is_boolean), "a list of booleans", [False, True]),
            "objective": Kind(is_text, "the name of an objective", "c_w"),
        },
        ("times", "weights", "outputs"),
    ),
}
"""By the kind of a schedule: its keys, and those that it needs."""
