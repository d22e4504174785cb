"""A continuous join as a file: what runs, from where to where. TOML, with paths relative to the file."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any

from tempura.display import SIZES, bytes_of
from tempura.errors import TempuraError
from tempura.streams import continuous
from tempura.streams.continuous import EVERY, Stream, Target

_TOPIC = {"connection": dict, "follow": bool, "new_columns": str, "start": str | dict}
_SINK_TOPIC = {"connection": dict, "key": list}
_TOP: Mapping[str, tuple[type | UnionType, str]] = {
    "sql": (str, "a text"),
    "join": (dict, "a table"),
    "sources": (dict, "a table"),
    "sink": (dict, "a table"),
    "memory": (str | int, "a size such as '64 MB'"),
    "every": (int | float, "seconds"),
    "folder": (str, "a text"),
}
"""Keys, and what they are."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a file says: SQL or a specification, sources by name, the sink's kind and what it names (of a topic its settings), memory in
    bytes, seconds between snapshots, and the folder of the job."""

    query: str | Mapping[str, Any]
    sources: Mapping[str, Stream]
    sink: tuple[str, Any]
    memory: int | None
    every: float
    folder: Path

    def target(self, warehouse: Callable[[], Any], show: Callable[[Any], object]) -> Target:
        """The sink: ``warehouse`` is asked for when it is a table, ``show`` gets batches that are printed."""
        kind, named = self.sink
        if kind == "parquet":
            return continuous.parquet(named)
        if kind == "kafka":
            return continuous.kafka(**named)
        return continuous.table(warehouse(), named) if kind == "table" else continuous.callback(show)


def read(path: Path) -> Described:
    """What a file describes. Raises TempuraError BAD_TOML, BAD_STREAM_JOIN, FOLDER_MISSING."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TempuraError("BAD_TOML", f"{path} cannot be read: {error}.", "Correct it.") from error
    unknown = sorted(set(data) - set(_TOP))
    if unknown or ("sql" in data) == ("join" in data) or not data.get("sources") or not data.get("sink"):
        what = (
            f"it has {', '.join(unknown)}"
            if unknown
            else "it lacks sql or [join], [sources.NAME] or [sink], or has both of the first"
        )
        raise TempuraError("BAD_TOML", f"{path}: {what}.", f"It may have {', '.join(sorted(_TOP))}.")
    for key, value in data.items():
        kind, said = _TOP[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TempuraError("BAD_TOML", f"{path}: {key} is {value!r}, not {said}.", "Correct it.")
    every = float(data.get("every", EVERY))
    if not 0 < every < float("inf"):
        raise TempuraError("BAD_TOML", f"{path}: every is {every:g}.", "Give the seconds between two snapshots.")
    base = path.resolve().parent
    sources = {name: _source(path, base, name, about) for name, about in data["sources"].items()}
    folder = base / str(data.get("folder", f"{path.stem}.job"))
    memory = None if "memory" not in data else memory_of(str(data["memory"]))
    query = data["sql"] if "sql" in data else data["join"]
    return Described(query, sources, _sink(path, base, data["sink"]), memory, every, folder)


def _source(path: Path, base: Path, name: str, about: object) -> Stream:
    given = dict(about) if isinstance(about, dict) else {}
    window = given.pop("window", None)
    match given:
        case {"folder": str(folder), **rest} if _fit(rest, {"follow": bool}):
            return continuous.folder(base / folder, window, follow=rest.get("follow", True))
        case {"rate": int() | float() as rows, **rest} if not isinstance(rows, bool) and _fit(rest, {"count": int}):
            return continuous.rate(float(rows), rest.get("count"), window)
        case {"servers": str(), "topic": str(), "columns": dict() as columns, **rest} if _fit(rest, _TOPIC):
            if all(isinstance(type, str) for type in columns.values()):
                return continuous.topic(**given, window=window)
    has = ", ".join(about) or "nothing" if isinstance(about, dict) else repr(about)
    what = f"{path}: [sources.{name}] has {has}."
    remedy = "A source has folder (and follow), rate (and count), or servers, topic and columns = {NAME = TYPE} "
    remedy += f"(and {', '.join(_TOPIC)}), and perhaps a window."
    raise TempuraError("BAD_TOML", what, remedy)


def _fit(given: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether settings are known, each with a value of its kind."""
    return all(name in known and isinstance(value, known[name]) for name, value in given.items())


def _sink(path: Path, base: Path, about: Mapping[str, Any]) -> tuple[str, Any]:
    match dict(about):
        case {"parquet": str(folder), **rest} if not rest:
            return "parquet", str(base / folder)
        case {"table": str(name), **rest} if not rest:
            return "table", name
        case {"print": True, **rest} if not rest:
            return "print", ""
        case {"servers": str(), "topic": str(), **rest} if _fit(rest, _SINK_TOPIC):
            return "kafka", dict(about)
    what = f"{path}: [sink] has {', '.join(about) or 'nothing'}."
    remedy = 'A sink has one of parquet = "FOLDER", table = "NAME", print = true, or servers = "HOST:PORT" and topic = "NAME" '
    raise TempuraError("BAD_TOML", what, f'{remedy}(and key = ["COLUMN"], connection).')


def memory_of(text: str) -> int:
    """``64 MB`` as bytes. Raises TempuraError BAD_TOML."""
    size = bytes_of(text)
    if size is None:
        raise TempuraError("BAD_TOML", f"memory is {text!r}.", SIZES)
    return size
