"""A warehouse: a folder with tables that fill up, queries over them, and all that was computed."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.execute.failure import errors_by_code
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry
from tempura.warehouse.catalog import Catalog
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import attempt, commit
from tempura.warehouse.commits.manifests import FORMAT, read_manifest
from tempura.warehouse.commits.storage import refuse_other_schemes
from tempura.warehouse.declared.declare import local_path
from tempura.warehouse.declared.kafka import KafkaSpec
from tempura.warehouse.declaring import moving, queries, tables
from tempura.warehouse.declaring.queries import Terms
from tempura.warehouse.engine import Engine, Progress, Verification
from tempura.warehouse.following import EVERY, follow
from tempura.warehouse.garbage import Removed, Sweep, collect
from tempura.warehouse.query import Methods, Query
from tempura.warehouse.runs.replace import ReplaceReport
from tempura.warehouse.runs.report import RunReport, or_error
from tempura.warehouse.runs.savings import Recomputation, Savings
from tempura.warehouse.sources.pushes import check_id
from tempura.warehouse.table import Table
from tempura.warehouse.tables.known import table_status
from tempura.warehouse.tables.moves import complete, undeclared
from tempura.warehouse.tables.site import Site, checked
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.transaction import Transaction, transaction
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.together import (
    Asked,
    Outcome,
    measure_together,
    run_together,
    savings_of,
    upstream_first,
    verify_together,
)

Names = str | Iterable[str]
"""Names of queries; one as it is."""


class Warehouse:
    """A folder with ``tempura.toml``; made by :func:`tempura.open`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._catalog = Catalog(site)

    @property
    def rules(self) -> Registry:
        """What its queries are planned by: the methods and rules of Tempura, or those that it was opened with, and those of the modules of
        ``tempura.toml``. Raises TempuraError BAD_RULES_MODULE, BAD_METHOD, BAD_LINK."""
        return self._site.rules

    @property
    def path(self) -> Path:
        """The folder."""
        return self._site.root

    def make_declarations(self) -> None:
        """Make ``tempura.toml`` if it is missing."""
        self._site.declarations.make()

    # --- tables -----------------------------------------------------------------------------------------------------

    @errors_by_code()
    def add_table(
        self,
        name: str,
        path: str | Path | None = None,
        format: str = "parquet",
        schema: str | StructType | None = None,
        keys: Iterable[str] = (),
        append_only: bool = False,
        static: bool = False,
        settle: float = 0.0,
        options: Mapping[str, str] | None = None,
        query: str | None = None,
        expect: str | int | None = None,
        follow_links: bool = False,
        new_columns: str = "",
        servers: str = "",
        topic: str = "",
        value_format: str = "json",
        key_format: str = "text",
        start: str | Mapping[int, int] | Mapping[str, int] = "earliest",
        on_bad_record: str = "fail",
        avro_schema: str = "",
        connection: Mapping[str, str] | None = None,
        references: Mapping[str, str] | None = None,
    ) -> Table:
        """Declare a table. With ``path`` it is a folder of files, of which new ones are arrivals; with ``query`` it holds the results of
        another query, and what each result changed is an arrival; with ``format="kafka"`` the records of a topic are its rows, or change
        them; else it is managed: rows are pushed.

        ``format`` of the files is parquet, csv or json, that of a table in a lake delta or iceberg; ``options`` are those of Spark's
        reader, such as ``{"sep": ";"}``. ``schema`` (DDL or StructType) is taken from what is there when it is not given. Only files
        older than ``settle`` seconds count. Symbolic links that lead out of the folder are refused, unless ``follow_links``.
        ``new_columns`` says what becomes of columns of the source that the table does not have: ``"ignore"`` (told once), ``"refuse"`` or
        ``"add"``, which gives them to the table; NULL for what was before. Plain Parquet and JSON ignore them otherwise, lakes refuse. The
        promises ``keys``, ``append_only`` and ``static`` are enforced when rows arrive. ``expect`` is what is expected to arrive from run
        to run, ``"1%"`` of the table's rows or a number of them; it is learned unless given, and nothing relies on it. The same
        declaration again changes nothing.

        ``references`` promise that rows have partners: ``{"l_orderkey": "orders.o_orderkey"}``, or of several columns
        ``{"l_partkey, l_suppkey": "partsupp(ps_partkey, ps_suppkey)"}``. Each row of which none of the columns is NULL has exactly one, the
        row of that table with these values as its key, which came before it or with it and is there as long. A run of a query that reads
        both tables is refused otherwise; it looks up the keys that are new.

        Of a ``topic``: ``servers`` is ``host:port``, several with commas; ``value_format`` json, csv or avro, for which ``avro_schema`` and
        ``schema`` follow from one another; ``start`` earliest, latest or offsets by partition; ``on_bad_record`` says whether a record that
        does not fit refuses the run (``"fail"``) or is kept beside the rows (``"quarantine"``, :meth:`Table.set_aside`). With ``keys``, the
        last record of a key is its row, and one without a value deletes it: its own key is the table's as ``key_format`` text, or a JSON
        object. ``connection`` are settings of Kafka's clients (``sasl.…``, ``ssl.…``), those that are secret as ``env:NAME`` or
        ``file:/path``.

        Raises TempuraError BAD_NAME, BAD_EXPECT, BAD_SCHEMA, BAD_KEYS, BAD_OPTION, BAD_SOURCE, UNSUPPORTED_FORMAT, UNSUPPORTED_PATH,
        BAD_REFERENCES, UNKNOWN_QUERY, FOLDER_MISSING, TABLE_EXISTS, NO_PACKAGE, FEED_UNREADABLE, FEED_OFF, LAKE_AS_FILES, LINK_LEADS_OUT.
        """
        begin = {str(p): o for p, o in start.items()} if isinstance(start, Mapping) else start
        told = KafkaSpec(servers, topic, value_format, key_format, begin, on_bad_record, avro_schema, connection or {})
        given = tables.spec_given(
            name,
            {"schema": schema, "path": path, "options": options, "query": query},
            format=format,
            keys=keys,
            append_only=append_only,
            static=static,
            settle=settle,
            follow_links=follow_links,
        )
        is_of_topic = format == "kafka" or told != KafkaSpec("", "")
        given = replace(given, new_columns=new_columns, kafka=told if is_of_topic else None)
        tables.add(self._catalog, name, given, schema, expect, references or {})
        return self.table(name)

    def table(self, name: str) -> Table:
        """A declared table. Raises TempuraError UNKNOWN_TABLE."""
        return self._table(self._catalog.table(name))

    def tables(self) -> tuple[Table, ...]:
        """All declared tables."""
        return tuple(map(self._table, self._catalog.tables().values()))

    def _table(self, arrivals: Arrivals) -> Table:
        return Table(arrivals, partial(self._catalog.readers, arrivals.name))

    def remove_table(self, name: str) -> None:
        """Remove a table and what is stored of it; the files of its source stay. Rows of a managed table are kept nowhere else.

        Raises TempuraError UNKNOWN_TABLE, TABLE_IN_USE while queries read it or tables refer to it.
        """
        moving.remove_table(self._catalog, name)

    def rename_table(self, name: str, new: str) -> Table:
        """Give a table another name. Where ``tempura.toml`` was edited and declares the new name already, what is stored follows.

        Raises TempuraError UNKNOWN_TABLE, BAD_NAME, NAME_TAKEN, TABLE_IN_USE while queries read it, whose text has the old name, or tables
        refer to it.
        """
        moving.rename_table(self._catalog, name, new)
        return self.table(new)

    def alter_table(
        self,
        name: str,
        path: str | Path | None = None,
        add_columns: str | StructType | None = None,
        references: Mapping[str, str] | None = None,
    ) -> Table:
        """Change the declaration of a table. ``path``: the files that have arrived lie there now, the same under the same names.
        ``add_columns``, as in ``schema`` of :meth:`add_table`: more columns at its end, NULL in what has arrived and in files that lack
        them. ``references``, as in :meth:`add_table`, take the place of those that there are; ``{}`` takes them back. The next run looks
        whether all rows keep them.

        Raises TempuraError UNKNOWN_TABLE, BAD_SOURCE, UNSUPPORTED_PATH, FOLDER_MISSING, FILE_GONE for a file that is not at the new place,
        FILE_CHANGED for one with other bytes, BAD_SCHEMA, SCHEMA_CHANGED for a column that is there, BAD_REFERENCES, COMMIT_LOST.
        """
        tables.alter(self._catalog, name, path, add_columns, references)
        return self.table(name)

    def transaction(self, id: str | None = None) -> AbstractContextManager[Transaction]:
        """Push into several managed tables at once, all or nothing.

        ::

            with warehouse.transaction() as t:
                t.table("orders").append(orders)
                t.table("stock").delete(sold)

        Each push is written and checked when it is called, beside those before it in the transaction. When the block ends, all of
        them are committed, as one arrival of each table; when it raises, nothing is. With an ``id`` the block may be repeated: the
        second time nothing is written.

        Raises TempuraError COMMIT_LOST when another process has pushed into one of the tables meanwhile: nothing was changed; BAD_ID,
        ID_REUSED, TRANSACTION_ENDED for a push after the block.
        """
        check_id(id)
        return transaction(self._site, self._catalog.table, self._catalog.tables, id)

    # --- queries ----------------------------------------------------------------------------------------------------

    @errors_by_code()
    def add_query(
        self,
        name: str,
        sql: str | None = None,
        df: DataFrame | None = None,
        schedule: Schedule | None = None,
        methods: Methods | None = None,
        require: str | None = None,
        state_budget: str | int | None = None,
        storage_price: float | None = None,
    ) -> Query:
        """Declare a query over the warehouse's tables, as SQL or as a DataFrame built from ``table(name).df()``. Without a schedule it
        is a view. The same declaration again changes nothing; a new schedule replaces the old, and so do ``methods``, ``require``,
        ``state_budget`` and ``storage_price``. A query from a DataFrame has to be added again, with the same DataFrame, in each process
        that uses it.

        ``methods`` are those to choose from, unless a run is given others. ``require="incremental"`` refuses a query that cannot be
        maintained now, and later each run, but the first, that would recompute all of it; ``"none"`` takes that back.
        ``state_budget`` is the most that its states may take on disk, as ``"200 MB"`` or in bytes; ``"none"`` takes that back.
        ``storage_price``: the CPU seconds that each GB of a state counts as which a plan keeps, so that it has to save more; 0 takes it
        back.

        Raises TempuraError BAD_NAME, BAD_QUERY, UNKNOWN_METHOD, BAD_REQUIRE, BAD_BUDGET, BAD_STORAGE_PRICE, NOT_INCREMENTAL,
        QUERY_CHANGED when runs of another query are committed under this name, CYCLIC_QUERY when it would read its own results, and what is
        wrong with the query.
        """
        terms = Terms(schedule, methods, require, state_budget, storage_price)
        return queries.add(self._catalog, name, sql, df, terms)

    @errors_by_code()
    def replace_query(
        self,
        name: str,
        sql: str | None = None,
        df: DataFrame | None = None,
        schedule: Schedule | None = None,
        dry_run: bool = False,
        methods: Methods | None = None,
        require: str | None = None,
        state_budget: str | int | None = None,
        storage_price: float | None = None,
    ) -> ReplaceReport:
        """Put another query in the place of a declared one, or, with neither ``sql`` nor ``df``, the one that ``tempura.toml`` declares in
        the place of what the committed runs computed. States whose expressions still occur are kept; the report lists them, those
        to be built and those dropped. ``dry_run`` only lists. ``methods``, ``require``, ``state_budget`` and ``storage_price`` as for
        :meth:`add_query`.

        Raises TempuraError UNKNOWN_QUERY, UNKNOWN_METHOD, BAD_REQUIRE, BAD_BUDGET, BAD_STORAGE_PRICE, NOT_INCREMENTAL,
        BAD_QUERY, CYCLIC_QUERY, RUN_IN_PROGRESS, and what is wrong with the query itself.
        """
        terms = Terms(schedule, methods, require, state_budget, storage_price)
        return queries.put_another(self._catalog, name, sql, df, terms, dry_run)

    def query(self, name: str) -> Query:
        """A declared query. Raises TempuraError UNKNOWN_QUERY."""
        return self._catalog.query(name)

    def queries(self) -> tuple[Query, ...]:
        """All declared queries."""
        return self._catalog.queries()

    @errors_by_code()
    def run(
        self,
        names: Names = (),
        tell: Callable[[Outcome[RunReport]], None] = lambda outcome: None,
        **asked: Unpack[Asked],
    ) -> tuple[RunReport, ...]:
        """Run what is due of several queries, in one session: those named, or all. A query runs after those whose results it reads, else
        in the order given. ``tell`` is called with each outcome as soon as it is there; what is ``asked`` of each run is as for
        :meth:`Query.run`. Returns the reports.

        Raises TempuraError UNKNOWN_QUERY before anything is run; RUNS_FAILED after all others have run, if any failed.
        """
        return run_together(self._upstream_first(names), tell, **asked)

    def follow(
        self,
        names: Names = (),
        tell: Callable[[Outcome[RunReport]], None] = lambda outcome: None,
        every: float = EVERY,
        wait: Callable[[float], None] | None = None,
        **asked: Unpack[Asked],
    ) -> None:
        """Run several queries, those named or all, whenever they are due, in one session that stays: look ``every`` so many seconds, and
        wait by ``wait`` in between. ``tell`` is called with each run, and with an error once, until it is another; what has failed is
        tried again after twice as long each time, five minutes at most. Of all, those count that are declared at the moment. ``asked`` is
        ``methods``, ``require`` and ``progress``, as for :meth:`Query.run`. Returns when no query will be due any more, as those with
        a deadline that has passed: views, and times of a day, go on for ever. One with a fixed schedule is told of as BAD_RUN, and one of
        those named that is removed or renamed meanwhile as UNKNOWN_QUERY: the others go on.

        Raises TempuraError UNKNOWN_QUERY before anything is run, BAD_NUMBER, NO_SESSION when Spark has ended.
        """
        given, gone = _each(names), set[str]()
        self._chosen(given)
        file, had = self._site.declarations, self._catalog.declared.names

        def choose() -> tuple[Query, ...]:
            declared = self._catalog.declared
            if had and not declared.names:  # nothing to do would end it as if all were done
                code, is_so = (
                    ("BAD_TOML", "is empty now") if file.path.exists() else ("NO_WAREHOUSE", "is not there any more")
                )
                remedy = "Put back what it was, and the next look goes on; or start where the warehouse is now."
                raise TempuraError(code, f"{file.path} {is_so}.", remedy)
            for name in given:
                try:
                    declared.query(name)
                    gone.discard(name)
                except TempuraError as error:
                    if name not in gone:
                        tell(Outcome(name, error=error))
                    gone.add(name)
            left = [name for name in given if name not in gone]
            return self._upstream_first(left) if left or not given else ()

        follow(choose, tell, every, wait, **asked)

    def _upstream_first(self, names: Names) -> tuple[Query, ...]:
        """Those named, or all; each after those whose results it reads."""
        chosen = self._chosen(names)
        derives = any(spec.query for spec in self._catalog.declared.tables.values())
        return upstream_first(chosen) if derives else chosen

    def verify(
        self,
        names: Names = (),
        tell: Callable[[Outcome[Verification]], None] = lambda outcome: None,
        progress: Progress = lambda text: None,
    ) -> tuple[Outcome[Verification], ...]:
        """Compare the last results of several queries with recomputations, in one session: of those named, in that order, or of all.
        ``tell`` is called with each outcome as soon as it is there. Returns the outcomes; errors are among them, and not raised.

        Raises TempuraError UNKNOWN_QUERY before anything is verified.
        """
        return verify_together(self._chosen(names), tell, progress)

    def measure(
        self,
        names: Names = (),
        tell: Callable[[Outcome[Recomputation]], None] = lambda outcome: None,
        progress: Progress = lambda text: None,
    ) -> tuple[Outcome[Recomputation], ...]:
        """Measure what plain Spark takes to recompute the last results of several queries, as :meth:`Query.measure` does: of those named,
        in that order, or of all. ``tell`` is called with each outcome as soon as it is there. Returns the outcomes; errors are among them,
        and not raised.

        Raises TempuraError UNKNOWN_QUERY before anything is measured.
        """
        return measure_together(self._chosen(names), tell, progress)

    def savings(self, names: Names = ()) -> tuple[Outcome[Savings], ...]:
        """What the runs of several queries took, against recomputing, as :meth:`Query.savings` tells it: of those named, in that order, or
        of all. Errors are among the outcomes, and not raised. Raises TempuraError UNKNOWN_QUERY."""
        return savings_of(self._chosen(names))

    def _chosen(self, names: Names) -> tuple[Query, ...]:
        """The queries of some names, once each, or all."""
        found = {query.name: query for query in map(self.query, _each(names))}
        return tuple(found.values()) or self.queries()

    def remove_query(self, name: str) -> tuple[Path, ...]:
        """Remove a query with its results, states and history. Returns the paths at which it was published: what is there stays.

        Raises TempuraError UNKNOWN_QUERY, QUERY_IN_USE while a table takes its rows from it, RUN_IN_PROGRESS.
        """
        return moving.remove_query(self._catalog, name)

    def rename_query(self, name: str, new: str) -> Query:
        """Give a query another name: its states, results, outputs and history stay, and so do tables that take rows from it.

        Raises TempuraError UNKNOWN_QUERY, BAD_NAME, NAME_TAKEN, RUN_IN_PROGRESS.
        """
        moving.rename_query(self._catalog, name, new)
        return self.query(new)

    # --- the whole --------------------------------------------------------------------------------------------------

    @errors_by_code()
    def status(self) -> dict[str, Any]:
        """Tables and queries, as plain data. Of one that is broken ``error`` says what is wrong, and what to do."""
        return {
            "path": str(self.path),
            "format": FORMAT,
            "tables": self.status_of_tables(),
            "queries": self.status_of_queries(),
            "undeclared": list(self.undeclared()),
        }

    @errors_by_code()
    def status_of_tables(self) -> dict[str, dict[str, Any]]:
        """What is declared and stored of each table, as in :meth:`status`."""
        return {
            name: {**table.spec.to_toml(), **or_error(partial(table_status, table))}
            for name, table in self._catalog.tables().items()
        }

    @errors_by_code()
    def status_of_queries(self) -> dict[str, dict[str, Any]]:
        """Where each query stands, as in :meth:`status`."""
        return {query.name: or_error(query.status) for query in self.queries()}

    def undeclared(self) -> tuple[str, ...]:
        """The folders of tables and queries that ``tempura.toml`` does not declare any more, relative to the warehouse. They are kept:
        the declaration can come back, or :meth:`rename_table` and :meth:`remove_table` lead on."""
        return tuple(undeclared(self._site.files, self._site.declarations))

    @errors_by_code()
    def gc(self, keep: int = 2, dry_run: bool = False, runs: int | None = None) -> Removed:
        """Remove what no committed run or arrival refers to and no living process works on, results and states that are no longer
        needed (the last ``keep`` results of each query stay), and copies of arrivals that are stored together as well and that no
        such result or state asks for apart. ``runs``: forget the runs of each query but the last so many, and those that something goes
        by which stays; those of queries at paces are kept. ``dry_run`` removes nothing. Returns the paths, relative to the warehouse,
        with the ``bytes`` of each kind. Raises TempuraError BAD_NUMBER."""
        readers, stored = self.queries(), self._catalog.tables().values()
        return collect(self._site, readers, stored, self._site.declarations, Sweep(keep, dry_run, runs))


@errors_by_code()
def open_site(
    path: str | Path,
    engine: Engine,
    files: Files,
    clock: Callable[[], datetime] | None = None,
    rules: Registry = TEMPURA,
) -> Warehouse:
    """Open a warehouse over an engine; its folder is made if it is missing. ``rules`` are those to plan by.

    Raises TempuraError FORMAT_NEWER, FORMAT_OLDER, UNSUPPORTED_PATH, BAD_CLOCK, and NO_ATOMIC_COMMIT when the file system cannot commit.
    """
    refuse_other_schemes(str(path))
    root = local_path(path).resolve()
    site = Site(root, files, engine, own_rules=rules)
    site = replace(site, clock=checked(clock)) if clock is not None else site
    marker = root / ".tempura" / "format.json"
    if not marker.exists():
        _create(site, marker)
    read_manifest(marker)
    complete(site)
    warehouse = Warehouse(site)
    warehouse.make_declarations()
    return warehouse


def _each(names: Names) -> tuple[str, ...]:
    """The names one by one: a text is one name, and so is what is none, of which there is no query."""
    return (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)


def _create(site: Site, marker: Path) -> None:
    try:
        with attempt(site.files, site.attempts) as work:
            commit(site.files, work, marker, {})
    except TempuraError as error:
        if error.code != "COMMIT_LOST":
            raise
