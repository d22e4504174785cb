"""Feeds: where the arrivals of a table come from when nobody pushes them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from pyspark.sql.types import StructField, StructType

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, Origin, Pushed
from tempura.warehouse.engine import Changes, OneByOneError, Source

Taken = TypeVar("Taken")


@dataclass(frozen=True, slots=True)
class Batch:
    """What becomes one arrival: Parquet files read where they are (``in_place``), or ``changes`` to the rows that are there, which are
    copied into the warehouse. ``origins``, ``position``, ``ignored``, ``pushed`` and ``refreshed`` as in :class:`Arrival`, ``whole`` by
    the paths of its files. ``trust``: the deletes are known to be there. ``apart``: the same as several batches, one after the other,
    where it may be that one arrival cannot be made of them."""

    in_place: tuple[Path, ...] = ()
    changes: Callable[[Source], Changes] | None = None
    origins: tuple[Origin, ...] = ()
    position: str = ""
    trust: bool = False
    ignored: tuple[str, ...] = ()
    pushed: Pushed | None = None
    refreshed: bool = False
    whole: tuple[Path, ...] | None = None
    apart: "tuple[Batch, ...]" = ()

    def each(self, take: Callable[["Batch"], Taken]) -> list[Taken]:
        """What is made of the batch; where that cannot be, of its parts: the first of them that is wrong then says what is wrong with it.
        Raises what ``take`` raises."""
        try:
            return [take(self)]
        except (OneByOneError, TempuraError) as error:
            if not self.apart or (isinstance(error, TempuraError) and error.code == "COMMIT_LOST"):
                raise
        return [take(part) for part in self.apart]


Widen = Callable[[Sequence[StructField]], StructType]
"""Gives a table more columns, and returns those that it has then."""


class Feed(Protocol):
    """Looks for what has arrived."""

    def pending(self, arrivals: Sequence[Arrival], schema: StructType, widen: Widen | None = None) -> Iterable[Batch]:
        """What has come since these arrivals, one batch per arrival, in order. ``widen`` is called with columns that the source has
        and the table is to get; without it, they are not read. Raises TempuraError when the source cannot be trusted."""

    def waits(self, arrivals: Sequence[Arrival]) -> bool:
        """Whether something has come since these arrivals; reads no rows. Raises as above."""


class Derived(Feed, Protocol):
    """A feed of what is stored elsewhere as a whole, too."""

    def present(self, arrivals: Sequence[Arrival]) -> Callable[[], Changes] | None:
        """All rows as they are after these arrivals; None when they are not stored any more."""


@dataclass(frozen=True, slots=True)
class Advance:
    """How to read what came since a position of a lake's table: the position then, and the options of Spark's reader."""

    position: str
    options: Mapping[str, str]


def ways_on(table: str, other: str, link: str = "or") -> tuple[str, str]:
    """A remedy: something else, or to take the source as it is now; in a program and on the command line."""
    remedy = f"{other}, {link} take the table as it is now"
    return f'{remedy}: table("{table}").refresh().', f"{remedy}: tempura table refresh {table}"


def anew(table: str, undo: str) -> tuple[str, str]:
    """A remedy: something, or to begin anew; in a program and on the command line."""
    remedy = f"{undo}, or begin anew with what the source holds now"
    return f'{remedy}: table("{table}").reset().', f"{remedy}: tempura table reset {table}"
