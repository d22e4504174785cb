"""What running a step leaves behind: plain data, which a ledger can keep as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tempura.physical.operators import StateKey

WEIGHT = "_w"
"""The column that carries the weight of a row, in relations at execution time and in stored files."""


@dataclass(frozen=True)
class StoredState:
    """A saved relation as Parquet files. Columns are positional: ``s0``, ``s1`` …, then the weight when ``weighted``.

    ``types`` are the columns' types as Spark spells them, ``schema`` is the JSON of the files' StructType. ``bucket`` are the
    positions of the columns by whose hash the rows are spread over ``buckets`` buckets; () when they are not. ``rows`` counts
    stored rows (a row with weight 3 is one), ``bytes`` those of the files.
    """

    path: str
    types: tuple[str, ...]
    weighted: bool
    bucket: tuple[int, ...]
    buckets: int
    rows: int
    bytes: int
    schema: str

    def to_json(self) -> dict[str, object]:
        """Plain data, from which :meth:`from_json` makes an equal value."""
        return {**asdict(self), "types": list(self.types), "bucket": list(self.bucket)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "StoredState":
        """The value that :meth:`to_json` described. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            path=str(data["path"]),
            types=tuple(map(str, _items(data["types"]))),
            weighted=data["weighted"] is True,
            bucket=tuple(_integer(position) for position in _items(data["bucket"])),
            buckets=_integer(data["buckets"]),
            rows=_integer(data["rows"]),
            bytes=_integer(data["bytes"]),
            schema=str(data["schema"]),
        )


@dataclass(frozen=True)
class StoredOutput:
    """A query's result as Parquet files: a plain bag with positional columns (``s0``, ``s1`` …)."""

    path: str
    types: tuple[str, ...]
    rows: int
    bytes: int
    schema: str

    def to_json(self) -> dict[str, object]:
        """Plain data, from which :meth:`from_json` makes an equal value."""
        return {**asdict(self), "types": list(self.types)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "StoredOutput":
        """The value that :meth:`to_json` described. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            path=str(data["path"]),
            types=tuple(map(str, _items(data["types"]))),
            rows=_integer(data["rows"]),
            bytes=_integer(data["bytes"]),
            schema=str(data["schema"]),
        )


@dataclass(frozen=True)
class Usage:
    """What a piece of work took: CPU seconds summed over all tasks, wall-clock seconds, Spark jobs, stages and tasks that ran,
    bytes shuffled (written), read from files and written to files."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    jobs: int = 0
    stages: int = 0
    tasks: int = 0
    shuffle_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0


@dataclass(frozen=True)
class StepOutcome:
    """What a step wrote, and what it took. ``rows`` gives the stored rows per sink (the state's key as text, or "output")."""

    states: dict[StateKey, StoredState]
    output: StoredOutput | None
    usage: Usage
    rows: Mapping[str, int] = field(default_factory=dict)

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
