"""A table of a warehouse as its users have it: pushed into, refreshed, and told about."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import date
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tempura.execute.failure import errors_by_code
from tempura.warehouse.runs.run import alone
from tempura.warehouse.sources import pushes
from tempura.warehouse.sources.pushes import Push
from tempura.warehouse.tables.known import say, table_history, table_stats, table_status, unsay
from tempura.warehouse.tables.refresh import refresh
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.take import push, register, reset


class Table:
    """A table of a warehouse; made by :meth:`Warehouse.add_table` and :meth:`Warehouse.table`.

    Each call is of the table that is declared under the name then, by whichever process, and held to what is declared of it: as
    ``warehouse.table(name)`` is at that moment. After it was removed or renamed each raises TempuraError UNKNOWN_TABLE, and nothing is
    written; after another was added under the name, it is of that one.
    """

    def __init__(self, arrivals: Arrivals, readers: Callable[[], Sequence[str]]) -> None:
        self._arrivals = arrivals
        self._readers = readers

    @property
    def name(self) -> str:
        """The name under which queries read it."""
        return self._arrivals.name

    @property
    def arrivals(self) -> Arrivals:
        """What is stored of it, by what is declared now. Raises TempuraError UNKNOWN_TABLE."""
        self._arrivals.adopt()
        return self._arrivals

    @property
    def schema(self) -> StructType:
        """Its columns; all may be NULL."""
        return self.arrivals.schema

    @errors_by_code()
    def append(self, rows: DataFrame, id: str | None = None) -> int:
        """Add rows to a managed table, in one arrival. Returns the table's new version. With an ``id`` the call may be repeated: the
        second time nothing is written, and the version is that of the first.

        Raises TempuraError WRONG_SCHEMA, NOT_MANAGED, STATIC_TABLE, DUPLICATE_KEY, COMMIT_LOST, BAD_ID; ID_REUSED when the id was
        used for another kind of call, or another number of rows.
        """
        return self._push(pushes.append, rows, id=id)

    @errors_by_code()
    def upsert(self, rows: DataFrame, id: str | None = None) -> int:
        """Put each row in the place of the one of the same key, if there is one. Returns the table's new version. ``id`` as in
        :meth:`append`.

        Raises TempuraError NO_KEYS when the table has none, DUPLICATE_KEY when two of the rows have one key, APPEND_ONLY when
        a row would be replaced, and as :meth:`append` does.
        """
        return self._push(pushes.upsert, rows, id=id)

    @errors_by_code()
    def delete(self, rows: DataFrame, trust: bool = False, id: str | None = None) -> int:
        """Delete rows, each as often as it occurs in ``rows``. Returns the table's new version. ``id`` as in :meth:`append`.

        Raises TempuraError DELETE_OF_MISSING when a row is not there as often (``trust=True`` skips that check), APPEND_ONLY, and
        as :meth:`append` does.
        """
        return self._push(pushes.delete, rows, trust, id=id)

    @errors_by_code()
    def apply(self, changes: DataFrame, trust: bool = False, id: str | None = None) -> int:
        """Apply inserts, deletes and updates, told apart by a column ``_change``, as one arrival: all or nothing. A delete takes
        away a row that was there before, or one inserted by the same changes; an update is as in :meth:`upsert`. Returns the
        table's new version. ``id`` as in :meth:`append`.

        Raises TempuraError BAD_CHANGE for another value of ``_change``, and as :meth:`delete` and :meth:`upsert` do.
        """
        return self._push(pushes.apply, changes, trust, id=id)

    def _push(self, made: Callable[..., Push], *given: Any, id: str | None) -> int:
        table = self.arrivals
        return push(table, made(table.site.engine, *given), id)

    @errors_by_code()
    def refresh(self) -> int:
        """Take the source, a folder or a table of a lake, as it is now: what it differs by from what has arrived, as bags of rows, arrives
        at once. For a source that was compacted, rewritten, expired or touched. Returns the table's new version.

        Raises TempuraError NO_SOURCE for a managed table, ROWS_UNKNOWN when rows that left cannot be known (:meth:`reset` begins anew),
        APPEND_ONLY, STATIC_TABLE, DUPLICATE_KEY when the source breaks a promise.
        """
        return refresh(self.arrivals)

    @errors_by_code()
    def reset(self) -> int:
        """Forget all that has arrived, and begin anew with what the source holds now; a managed table is empty then. Queries that read the
        table are recomputed at their next run; their results, their history and what they publish stay and go on. Returns the
        table's new version.

        Raises TempuraError RUN_IN_PROGRESS while a query that reads it is run, and what is wrong with the source: then nothing was
        forgotten.
        """
        table = self.arrivals
        with ExitStack() as stack:
            for name in self._readers():
                stack.enter_context(alone(table.site.files, table.site.root / "queries" / name))
            return reset(table)

    @property
    def is_managed(self) -> bool:
        """Whether its rows are pushed, and kept nowhere else."""
        return self.arrivals.feed is None

    @property
    def is_of_topic(self) -> bool:
        """Whether its rows come from a topic, which may keep them no longer."""
        return self.arrivals.spec.kafka is not None

    @property
    def read_by(self) -> tuple[str, ...]:
        """The names of the queries that read it."""
        return tuple(self._readers())

    def status(self) -> dict[str, Any]:
        """What is declared and stored, as plain data."""
        return table_status(self.arrivals)

    def history(self) -> list[dict[str, Any]]:
        """What has arrived, oldest first, as plain data: per version the time, the rows inserted and deleted, and what it was."""
        return table_history(self.arrivals)

    @errors_by_code()
    def set_aside(self) -> DataFrame:
        """The records of a topic that do not fit the table, of ``on_bad_record="quarantine"``: ``partition``, ``offset``, ``time``,
        ``why``, ``key`` and ``value`` as they came, and the value as ``text``. They stay until the table is reset or removed.

        Raises TempuraError ROWS_DAMAGED.
        """
        table = self.arrivals
        return table.site.engine.plain(table.aside.source(table.committed()))  # type: ignore[no-any-return]

    @errors_by_code()
    def stats(self) -> dict[str, Any]:
        """What is known of the rows that have arrived, as plain data: ``rows``, and per column ``distinct`` values, the share of ``nulls``,
        the ``least`` and the ``greatest`` value (dates and times as ISO text), ``width`` in bytes, the ``frequent`` values with their
        shares of the rows, and ``from`` what each of them is known. Statistics decide what plans cost, never what they give.

        Raises TempuraError BAD_STATS for what is declared of a column that is not there.
        """
        return table_stats(self.arrivals)

    @errors_by_code()
    def set_stats(
        self,
        column: str,
        *,
        distinct: float | None = None,
        nulls: float | None = None,
        least: float | date | None = None,
        greatest: float | date | None = None,
        width: float | None = None,
    ) -> None:
        """Say what is so of a column, whatever is seen: how many ``distinct`` values it has, which share of the rows is NULL, its ``least``
        and ``greatest`` value (numbers, dates or datetimes), the bytes of a value. What was said before and is not said now stays. It
        is kept in ``tempura.toml``, and counts from the next plan on.

        Raises TempuraError BAD_STATS for a column that is not there, and for figures that cannot be; COMMIT_LOST when the table was
        declared otherwise meanwhile.
        """
        given = {"distinct": distinct, "nulls": nulls, "least": least, "greatest": greatest, "width": width}
        say(self.arrivals, column, {key: value for key, value in given.items() if value is not None})

    @errors_by_code()
    def unset_stats(self, column: str | None = None) -> None:
        """Take back what was said of a column, or of all. Raises TempuraError BAD_STATS, COMMIT_LOST as :meth:`set_stats` does."""
        unsay(self.arrivals, column)

    @errors_by_code()
    def df(self) -> DataFrame:
        """The table as of now, to look at or to build a query from."""
        table = self.arrivals
        source = table.source(0, register(table))
        return table.site.engine.frame(source, self.name)  # type: ignore[no-any-return]
