"""What running a step leaves behind: plain data, which a ledger can keep as JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self, get_args

from tempura.algebra.states import SlotKind
from tempura.physical.operators import StateKey

WEIGHT = "_w"
"""The column that carries the weight of a row, in relations at execution time and in stored files."""


@dataclass(frozen=True, slots=True)
class FileSeal:
    """What a file was when it was committed: its path below its folder, its size in bytes, and the checksum of its content."""

    name: str
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Part:
    """A folder of Parquet files. ``rows`` counts stored rows (a row with weight 3 is one), ``bytes`` those of the data files;
    ``weighted`` says that they have a weight column, and ``weight`` what it sums to, of a part of a result; ``seals`` are of all files, ()
    until the part is committed."""

    path: str
    rows: int
    bytes: int
    weighted: bool = False
    seals: tuple[FileSeal, ...] = ()
    weight: int | None = None

    @property
    def counted(self) -> int | None:
        """The rows that its rows stand for, less those that they take away; None when nobody has counted."""
        return self.weight if self.weighted else self.rows

    def to_json(self) -> dict[str, object]:
        """Plain data, from which :meth:`from_json` makes an equal value."""
        plain = {"path": self.path, "rows": self.rows, "bytes": self.bytes, "weighted": self.weighted}
        plain |= {"weight": self.weight} if self.weight is not None else {}
        return {**plain, "seals": [[seal.name, seal.size, seal.checksum] for seal in self.seals]}

    @classmethod
    def from_json(cls, data: object) -> "Part":
        """The value that :meth:`to_json` described. Raises KeyError, TypeError or ValueError for anything else."""
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an object, found {data!r}")
        seals = tuple(FileSeal(str(n), _integer(s), str(c)) for n, s, c in map(_items, _items(data["seals"])))
        numbers = _integer(data["rows"]), _integer(data["bytes"])
        weight = _integer(data["weight"]) if "weight" in data else None
        return cls(str(data["path"]), *numbers, data["weighted"] is True, seals, weight)


@dataclass(frozen=True, slots=True)
class Merge:
    """How the parts of a state make up its rows. Rows that are equal in the first ``keys`` columns are one: of an aggregation state
    ``slots`` give the kind of each other column; a bag has none, and the weights of its rows are added."""

    keys: int
    slots: tuple[SlotKind, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Plain data, from which :meth:`from_json` makes an equal value."""
        return {"keys": self.keys, "slots": list(self.slots)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "Merge":
        """The value that :meth:`to_json` described. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(_integer(data["keys"]), tuple(_slot_kind(kind) for kind in _items(data["slots"])))


@dataclass(frozen=True)
class StoredState:
    """A saved relation as Parquet files in one or more parts. Columns are positional: ``s0``, ``s1`` …, then the weight in parts
    that are weighted.

    ``types`` are the columns' types as Spark spells them, ``schema`` is the JSON of the files' StructType. ``bucket`` are the
    positions of the columns by whose hash the rows are spread over ``buckets`` buckets; () when they are not. Several parts are
    merged when they are read, as ``merge`` says.
    """

    types: tuple[str, ...]
    bucket: tuple[int, ...]
    buckets: int
    schema: str
    parts: tuple[Part, ...]
    merge: Merge | None = None

    @property
    def rows(self) -> int:
        """The rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        """The bytes of all parts."""
        return sum(part.bytes for part in self.parts)

    def bytes_beside(self, result: "StoredOutput | None") -> int:
        """The bytes of the parts that are not those of a result, which is kept anyway."""
        kept = result.paths if result else ()
        return sum(part.bytes for part in self.parts if part.path not in kept)

    @property
    def weighted(self) -> bool:
        """Whether rows carry weights."""
        return any(part.weighted for part in self.parts)

    def with_parts(self, parts: Iterable[Part]) -> Self:
        """The same state with other parts."""
        return replace(self, parts=tuple(parts))

    def to_json(self) -> dict[str, object]:
        """Plain data, from which :meth:`from_json` makes an equal value."""
        plain = {"types": list(self.types), "bucket": list(self.bucket), "buckets": self.buckets, "schema": self.schema}
        merge = self.merge.to_json() if self.merge else None
        return {**plain, "parts": [part.to_json() for part in self.parts], "merge": merge}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        """The value that :meth:`to_json` described. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            types=tuple(map(str, _items(data["types"]))),
            bucket=tuple(_integer(position) for position in _items(data["bucket"])),
            buckets=_integer(data["buckets"]),
            schema=str(data["schema"]),
            parts=tuple(map(Part.from_json, _items(data["parts"]))),
            merge=Merge.from_json(data["merge"]) if isinstance(data["merge"], Mapping) else None,
        )


@dataclass(frozen=True)
class StoredOutput:
    """A query's result as Parquet files in one or more parts, with positional columns as those of a :class:`StoredState`. Rows of ``parts``
    that are weighted add to the others, or take away from them (``merge``). A result shares parts with the one that it has grown out of; it
    may be a state, too."""

    types: tuple[str, ...]
    schema: str
    parts: tuple[Part, ...]
    merge: Merge | None = None

    @classmethod
    def of(cls, state: StoredState) -> Self:
        """The result that a state is whose rows are counted (``execute.parts.is_counted``)."""
        return cls(state.types, state.schema, state.parts, state.merge)

    @property
    def state(self) -> StoredState:
        """The result as a state."""
        return StoredState(self.types, (), 0, self.schema, self.parts, self.merge)

    @property
    def paths(self) -> tuple[str, ...]:
        """The folders of the files."""
        return tuple(part.path for part in self.parts)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(part.counted or 0 for part in self.parts)

    @property
    def bytes(self) -> int:
        """The bytes of the data files."""
        return sum(part.bytes for part in self.parts)

    def extends(self, other: "StoredOutput") -> bool:
        """Whether its rows are those of another result and more: parts of that one are its first, and no other takes rows away."""
        added = self.parts[len(other.parts) :]
        is_longer = self.types == other.types and self.paths[: len(other.parts)] == other.paths
        return is_longer and not any(part.weighted for part in added)

    def beside(self, other: "StoredOutput") -> Self:
        """What the parts hold that another result of the same types does not have. It may take away rows of those that both have."""
        common = other.paths if other.types == self.types else ()
        return self.with_parts(part for part in self.parts if part.path not in common)

    def with_parts(self, parts: Iterable[Part]) -> Self:
        """The same result with other parts, or with its files elsewhere."""
        return replace(self, parts=tuple(parts))

    def to_json(self) -> dict[str, object]:
        """Plain data, from which :meth:`from_json` makes an equal value."""
        parts, merge = [part.to_json() for part in self.parts], self.merge.to_json() if self.merge else None
        return {"types": list(self.types), "schema": self.schema, "parts": parts, "merge": merge}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        """The value that :meth:`to_json` described. Raises KeyError, TypeError or ValueError for anything else."""
        types = tuple(map(str, _items(data["types"])))
        # Results that were written before they could have several parts have one.
        parts = _items(data["parts"]) if "parts" in data else [data["part"]]
        merge = data.get("merge")
        merged = Merge.from_json(merge) if isinstance(merge, Mapping) else None
        return cls(types, str(data["schema"]), tuple(map(Part.from_json, parts)), merged)


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time that has passed since some moment, the CPU time of the driver's whole JVM, and Python's."""

    wall_seconds: float = 0.0
    jvm_seconds: float = 0.0
    python_seconds: float = 0.0

    def __add__(self, more: "Clocks") -> "Clocks":
        return Clocks(
            self.wall_seconds + more.wall_seconds,
            self.jvm_seconds + more.jvm_seconds,
            self.python_seconds + more.python_seconds,
        )

    def __sub__(self, before: "Clocks") -> "Clocks":
        """What has passed on each clock since an earlier look."""
        return Clocks(
            self.wall_seconds - before.wall_seconds,
            self.jvm_seconds - before.jvm_seconds,
            self.python_seconds - before.python_seconds,
        )


@dataclass(frozen=True)
class Usage:
    """What a piece of work took: CPU seconds summed over all tasks, CPU seconds of the driver (its JVM without tasks, and Python),
    wall-clock seconds, Spark jobs, stages and tasks that ran, bytes shuffled (written), read from files and written to files."""

    cpu_seconds: float = 0.0
    driver_seconds: float = 0.0
    wall_seconds: float = 0.0
    jobs: int = 0
    stages: int = 0
    tasks: int = 0
    shuffle_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Joins:
    """How Spark carried out the joins of a step: how many ``as_planned``, and of each other, in words, how, and how it was planned."""

    as_planned: int = 0
    otherwise: tuple[str, ...] = ()

    def __add__(self, more: "Joins") -> "Joins":
        return Joins(self.as_planned + more.as_planned, self.otherwise + more.otherwise)

    def __bool__(self) -> bool:
        return bool(self.as_planned or self.otherwise)

    def to_json(self) -> dict[str, object]:
        """Plain data, from which :meth:`from_json` makes an equal value."""
        return {"as_planned": self.as_planned, "otherwise": list(self.otherwise)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        """The value that :meth:`to_json` described. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(_integer(data["as_planned"]), tuple(map(str, _items(data["otherwise"]))))


NO_JOINS = Joins()


@dataclass(frozen=True)
class StepOutcome:
    """What a step wrote, and what it took. ``rows`` gives the stored rows per sink (the state's key as text, or "output"); ``counted``, by
    name (``plan.progressive.Size``), the rows of operators and those that were expected; ``answered``: the output is Spark's answer to
    the query as it is written, not what the step's operators gave; ``joins``: how Spark carried out those of the operators."""

    states: dict[StateKey, StoredState]
    output: StoredOutput | None
    usage: Usage
    rows: Mapping[str, int] = field(default_factory=dict)
    counted: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    answered: bool = False
    joins: Joins = NO_JOINS

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds, summed over all tasks."""
        return self.usage.cpu_seconds

    @property
    def wall_seconds(self) -> float:
        """Wall-clock seconds."""
        return self.usage.wall_seconds

    @property
    def jobs(self) -> int:
        """The number of Spark jobs."""
        return self.usage.jobs

    @property
    def shuffle_bytes(self) -> int:
        """Bytes written to shuffles."""
        return self.usage.shuffle_bytes


def _items(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {value!r}")
    return value


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected an integer, found {value!r}")
    return value


def _slot_kind(value: object) -> SlotKind:
    for kind in get_args(SlotKind):
        if kind == value:
            return kind  # type: ignore[no-any-return]
    raise ValueError(f"expected a kind of slot, found {value!r}")
