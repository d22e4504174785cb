"""A warehouse: a folder with tables that fill up, queries over them, and all that was computed."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tempura.algebra.canonical import fingerprint
from tempura.errors import TempuraError
from tempura.execute.failure import errors_by_code
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import attempt, commit
from tempura.warehouse.commits.manifests import FORMAT, read_manifest
from tempura.warehouse.commits.storage import refuse_other_schemes
from tempura.warehouse.declared.declare import (
    Declarations,
    QuerySpec,
    TableSpec,
    check_budget,
    check_name,
    check_storage_price,
    declared_path,
    local_path,
)
from tempura.warehouse.declared.kafka import KafkaSpec, check_record_options, checked
from tempura.warehouse.declared.places import check_source_place
from tempura.warehouse.declared.references import check_reference, references_of
from tempura.warehouse.declared.references import declared as declared_references
from tempura.warehouse.declared.text import check_format
from tempura.warehouse.derived import Upstream, check_acyclic
from tempura.warehouse.engine import Engine, Progress, Verification, schema_of
from tempura.warehouse.garbage import Removed, Sweep, collect
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.query import Methods, Query
from tempura.warehouse.runs.replace import ReplaceReport
from tempura.warehouse.runs.report import RunReport, or_error
from tempura.warehouse.runs.required import Demand, check_maintainable
from tempura.warehouse.runs.run import alone
from tempura.warehouse.sources import pushes
from tempura.warehouse.sources.folder import Folder
from tempura.warehouse.sources.lake import LAKES, Lake
from tempura.warehouse.sources.pushes import check_id
from tempura.warehouse.sources.topic import check_topic
from tempura.warehouse.sources.widening import add_columns as add_columns_to
from tempura.warehouse.sources.widening import beginning, check_new_columns
from tempura.warehouse.tables.known import say, table_history, table_stats, table_status, unsay
from tempura.warehouse.tables.moves import Move, complete, undeclared
from tempura.warehouse.tables.refresh import check_moved, refresh, refresh_times
from tempura.warehouse.tables.site import Site
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.take import push, register, reset
from tempura.warehouse.tables.transaction import Transaction, transaction
from tempura.warehouse.times.forecast import check_expect
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.slots import zone_of
from tempura.warehouse.together import Asked, Outcome, run_together, upstream_first, verify_together

_KINDS = {"tables": "table", "queries": "query"}
"""What a section of ``tempura.toml`` declares."""


class Table:
    """A table of a warehouse; made by :meth:`Warehouse.add_table` and :meth:`Warehouse.table`."""

    def __init__(self, arrivals: Arrivals, readers: Callable[[], Sequence[str]]) -> None:
        self._arrivals = arrivals
        self._readers = readers

    @property
    def name(self) -> str:
        """The name under which queries read it."""
        return self._arrivals.name

    @property
    def arrivals(self) -> Arrivals:
        """What is stored of it."""
        return self._arrivals

    @property
    def schema(self) -> StructType:
        """Its columns; all may be NULL."""
        return self._arrivals.schema

    @errors_by_code()
    def append(self, rows: DataFrame, id: str | None = None) -> int:
        """Add rows to a managed table, in one arrival. Returns the table's new version. With an ``id`` the call may be repeated: the
        second time nothing is written, and the version is that of the first.

        Raises TempuraError WRONG_SCHEMA, NOT_MANAGED, STATIC_TABLE, DUPLICATE_KEY, COMMIT_LOST, BAD_ID; ID_REUSED when the id was
        used for another kind of call, or another number of rows.
        """
        return push(self._arrivals, pushes.append(self._arrivals.site.engine, rows), id)

    @errors_by_code()
    def upsert(self, rows: DataFrame, id: str | None = None) -> int:
        """Put each row in the place of the one of the same key, if there is one. Returns the table's new version. ``id`` as in
        :meth:`append`.

        Raises TempuraError NO_KEYS when the table has none, DUPLICATE_KEY when two of the rows have one key, APPEND_ONLY when
        a row would be replaced, and as :meth:`append` does.
        """
        return push(self._arrivals, pushes.upsert(self._arrivals.site.engine, rows), id)

    @errors_by_code()
    def delete(self, rows: DataFrame, trust: bool = False, id: str | None = None) -> int:
        """Delete rows, each as often as it occurs in ``rows``. Returns the table's new version. ``id`` as in :meth:`append`.

        Raises TempuraError DELETE_OF_MISSING when a row is not there as often (``trust=True`` skips that check), APPEND_ONLY, and
        as :meth:`append` does.
        """
        return push(self._arrivals, pushes.delete(self._arrivals.site.engine, rows, trust), id)

    @errors_by_code()
    def apply(self, changes: DataFrame, trust: bool = False, id: str | None = None) -> int:
        """Apply inserts, deletes and updates, told apart by a column ``_change``, as one arrival: all or nothing. A delete takes
        away a row that was there before, or one inserted by the same changes; an update is as in :meth:`upsert`. Returns the
        table's new version. ``id`` as in :meth:`append`.

        Raises TempuraError BAD_CHANGE for another value of ``_change``, and as :meth:`delete` and :meth:`upsert` do.
        """
        return push(self._arrivals, pushes.apply(self._arrivals.site.engine, changes, trust), id)

    @errors_by_code()
    def refresh(self) -> int:
        """Take the source, a folder or a table of a lake, as it is now: what it differs by from what has arrived, as bags of rows, arrives
        at once. For a source that was compacted, rewritten, expired or touched. Returns the table's new version.

        Raises TempuraError NO_SOURCE for a managed table, ROWS_UNKNOWN when rows that left cannot be known (:meth:`reset` begins anew),
        APPEND_ONLY, STATIC_TABLE, DUPLICATE_KEY when the source breaks a promise.
        """
        return refresh(self._arrivals)

    @errors_by_code()
    def reset(self) -> int:
        """Forget all that has arrived, and begin anew with what the source holds now; a managed table is empty then. Queries that read the
        table are recomputed at their next run; their results, their history and what they publish stay and go on. Returns the
        table's new version.

        Raises TempuraError RUN_IN_PROGRESS while a query that reads it is run, and what is wrong with the source: then nothing was
        forgotten.
        """
        site = self._arrivals.site
        with ExitStack() as stack:
            for name in self._readers():
                stack.enter_context(alone(site.files, site.root / "queries" / name))
            return reset(self._arrivals)

    @property
    def is_managed(self) -> bool:
        """Whether its rows are pushed, and kept nowhere else."""
        return self._arrivals.feed is None

    @property
    def is_of_topic(self) -> bool:
        """Whether its rows come from a topic, which may keep them no longer."""
        return self._arrivals.spec.kafka is not None

    @property
    def read_by(self) -> tuple[str, ...]:
        """The names of the queries that read it."""
        return tuple(self._readers())

    def status(self) -> dict[str, Any]:
        """What is declared and stored, as plain data."""
        return table_status(self._arrivals)

    def history(self) -> list[dict[str, Any]]:
        """What has arrived, oldest first, as plain data: per version the time, the rows inserted and deleted, and what it was."""
        return table_history(self._arrivals)

    @errors_by_code()
    def set_aside(self) -> DataFrame:
        """The records of a topic that do not fit the table, of ``on_bad_record="quarantine"``: ``partition``, ``offset``, ``time``,
        ``why``, ``key`` and ``value`` as they came, and the value as ``text``. They stay until the table is reset or removed.

        Raises TempuraError ROWS_DAMAGED.
        """
        records = self._arrivals.aside.source(self._arrivals.committed())
        return self._arrivals.site.engine.plain(records)  # type: ignore[no-any-return]

    @errors_by_code()
    def stats(self) -> dict[str, Any]:
        """What is known of the rows that have arrived, as plain data: ``rows``, and per column ``distinct`` values, the share of ``nulls``,
        the ``least`` and the ``greatest`` value (dates and times as ISO text), ``width`` in bytes, the ``frequent`` values with their
        shares of the rows, and ``from`` what each of them is known. Statistics decide what plans cost, never what they give.

        Raises TempuraError BAD_STATS for what is declared of a column that is not there.
        """
        return table_stats(self._arrivals)

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
        say(self._arrivals, column, {key: value for key, value in given.items() if value is not None})

    @errors_by_code()
    def unset_stats(self, column: str | None = None) -> None:
        """Take back what was said of a column, or of all. Raises TempuraError BAD_STATS, COMMIT_LOST as :meth:`set_stats` does."""
        unsay(self._arrivals, column)

    @errors_by_code()
    def df(self) -> DataFrame:
        """The table as of now, to look at or to build a query from."""
        version = register(self._arrivals)
        source = self._arrivals.source(0, version)
        return self._arrivals.site.engine.frame(source, self.name)  # type: ignore[no-any-return]


class Warehouse:
    """A folder with ``tempura.toml``; made by :func:`tempura.open`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._declarations = site.declarations
        self._frames: dict[str, DataFrame] = {}
        self._queries: dict[str, tuple[Declarations, Query]] = {}

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
        self._declarations.make()

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
        check_name("table", name, self._declarations.read().tables)
        if query is not None and (path is not None or schema is not None):
            what = f"Table {name} takes its rows and columns from query {query}."
            raise TempuraError("BAD_SOURCE", what, "Give no path and no schema with it.")
        folder = declared_path(self.path, path) if path is not None else None
        declared = self._declarations.read().tables.get(name)
        kafka = None
        if format == "kafka":
            begin = start if isinstance(start, str) else {str(p): o for p, o in start.items()}
            given = KafkaSpec(
                servers, topic, value_format, key_format, begin, on_bad_record, avro_schema, connection or {}
            )
            kafka = checked(name, given)
        elif servers or topic:
            what = f"Table {name} has a Kafka topic, and the format {format}."
            raise TempuraError("BAD_SOURCE", what, 'Say format="kafka".', "Say --format kafka.")
        reading = self._options(format, options or {}, declared, kafka)
        promises = (tuple(keys), append_only, static)
        spec = TableSpec("", folder, format, *promises, float(settle), reading, query, check_expect(name, expect))
        spec = replace(spec, follow_links=follow_links, new_columns=new_columns, kafka=kafka)
        check_topic(name, spec)
        check_new_columns(name, spec)
        if not declared:
            self._check_source(name, spec)
        if kafka and kafka.value_format == "avro":
            known = declared.kafka if declared else None
            schema, spec = self._with_avro(
                name, spec, schema if schema is not None or not declared else declared.schema, known
            )
        ddl = declared.schema if declared and schema is None else self._schema(name, spec, schema)
        if declared and declared.added and ddl == self._first_schema(declared):
            # Columns that were added later are no other declaration.
            ddl = declared.schema
        spec = replace(spec, schema=ddl, added=declared.added if declared else ())
        self._check_keys(name, spec)
        spec = replace(spec, references=declared_references(name, references or {}))
        self._check_references(name, spec)
        if declared and declared != spec:
            what = f"Table {name} is declared otherwise in {self._declarations.path}."
            raise TempuraError("TABLE_EXISTS", what, "Edit the file, or use another name.")
        if not declared:
            self._declarations.put_table(name, spec)
        return self.table(name)

    def table(self, name: str) -> Table:
        """A declared table. Raises TempuraError UNKNOWN_TABLE."""
        tables = self._tables()
        if name not in tables:
            raise TempuraError(
                "UNKNOWN_TABLE", f"There is no table {name!r}.", *_choices(tables, "add_table", "tempura table add")
            )
        return Table(tables[name], partial(self._readers, name))

    def tables(self) -> tuple[Table, ...]:
        """All declared tables."""
        return tuple(Table(arrivals, partial(self._readers, name)) for name, arrivals in self._tables().items())

    def _readers(self, table: str) -> tuple[str, ...]:
        return tuple(query.name for query in self.queries() if query.names(table))

    def remove_table(self, name: str) -> None:
        """Remove a table and what is stored of it; the files of its source stay. Rows of a managed table are kept nowhere else.

        Raises TempuraError UNKNOWN_TABLE, TABLE_IN_USE while queries read it or tables refer to it.
        """
        if not self._is_left_over("tables", name):
            self._check_unused(name, "removed", "remove", "Remove them first")
            self._check_unreferenced(name, "removed")
        Move("tables", name).carry_out(self._site)

    def rename_table(self, name: str, new: str) -> Table:
        """Give a table another name. Where ``tempura.toml`` was edited and declares the new name already, what is stored follows.

        Raises TempuraError UNKNOWN_TABLE, BAD_NAME, NAME_TAKEN, TABLE_IN_USE while queries read it, whose text has the old name, or tables
        refer to it.
        """
        if not self._is_left_over("tables", name):
            self._check_unused(name, "renamed", "replace", "Replace them by queries that do not read it")
            self._check_unreferenced(name, "renamed")
        self._check_free("tables", name, new)
        Move("tables", name, new).carry_out(self._site)
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
        known = self.table(name)._arrivals.spec
        if path is not None:
            if known.path is None:
                what = f"Table {name} takes no rows from a folder."
                raise TempuraError("BAD_SOURCE", what, "Add a table of another name for the folder.")
            moved = replace(known, path=declared_path(self.path, path))
            self._check_source(name, moved)
            arrivals = self._arrivals(name, moved)
            check_moved(arrivals)
            self._declarations.change_table(name, known, moved)
            refresh_times(arrivals)
            known = moved
        if add_columns is not None:
            engine = self._site.engine
            wanted = engine.parse_schema(add_columns) if isinstance(add_columns, str) else add_columns
            add_columns_to(self._declarations, engine, name, known, wanted.fields)
        if references is not None:
            known = self.table(name)._arrivals.spec
            referring = replace(known, references=declared_references(name, references))
            self._check_references(name, referring)
            if referring != known:
                self._declarations.change_table(name, known, referring)
        return self.table(name)

    def _check_references(self, name: str, spec: TableSpec) -> None:
        known, parse = {**self._declarations.read().tables, name: spec}, self._site.engine.parse_schema
        for reference in references_of(name, spec.references):
            partner = known.get(reference.table)
            schema, keys = (parse(partner.schema), partner.keys) if partner else (None, ())
            check_reference(name, reference, parse(spec.schema), schema, keys)

    def _check_unreferenced(self, name: str, what: str) -> None:
        """Raises TempuraError TABLE_IN_USE while other tables refer to one."""
        others = [n for n, spec in self._declarations.read().tables.items() if n != name and name in spec.partners]
        if others:
            message = f"Table {name} cannot be {what}: {', '.join(others)} refers to it."
            way = "Take the reference back first"
            command = f"{way}: tempura table alter {others[0]} --no-references."
            raise TempuraError("TABLE_IN_USE", message, f"{way}: alter_table(…, references=…).", command)

    def _check_unused(self, name: str, what: str, verb: str, way: str) -> None:
        readers = self.table(name).read_by
        if readers:
            message = f"Table {name} cannot be {what}: it is read by {', '.join(readers)}."
            raise TempuraError("TABLE_IN_USE", message, f"{way}: {verb}_query.", f"{way}: tempura query {verb} …")

    def _check_free(self, section: str, old: str, new: str) -> None:
        check_name(_KINDS[section], new, set(self._declared(section)) - {old})
        taken = new in self._declared(section) and not self._is_left_over(section, old)
        if taken or (self.path / section / new).exists():
            what = f"The name {new} is taken: {'it is declared' if taken else f'there is a folder {section}/{new}'}."
            raise TempuraError("NAME_TAKEN", what, "Use another name, or remove what has it.")

    def _declared(self, section: str) -> Collection[str]:
        declared = self._declarations.read()
        return declared.tables if section == "tables" else declared.queries

    def _is_left_over(self, section: str, name: str) -> bool:
        """Whether something is stored under a name that ``tempura.toml`` does not declare any more."""
        check_name(_KINDS[section], name)
        return name not in self._declared(section) and (self.path / section / name).is_dir()

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
        return transaction(self._site, lambda name: self.table(name).arrivals, self._tables, id)

    def _tables(self) -> dict[str, Arrivals]:
        return {name: self._arrivals(name, spec) for name, spec in self._declarations.read().tables.items()}

    def _arrivals(self, name: str, spec: TableSpec) -> Arrivals:
        upstream = Upstream(self._site.engine, name, partial(self.query, spec.query)) if spec.query else None
        return Arrivals(self._site, name, spec, upstream)

    def _with_avro(
        self, name: str, spec: TableSpec, schema: str | StructType | None, known: KafkaSpec | None
    ) -> tuple[StructType, TableSpec]:
        """The columns of a topic in Avro, and its declaration with the schema of its records: pinned, whoever gave which."""
        assert spec.kafka is not None
        engine = self._site.engine
        columns = engine.parse_schema(schema) if isinstance(schema, str) else schema
        given = spec.kafka.avro_schema or (known.avro_schema if known else "")
        columns, avro = engine.avro(name, columns, given)
        return columns, replace(spec, kafka=replace(spec.kafka, avro_schema=avro))

    def _options(
        self, format: str, options: Mapping[str, str], declared: TableSpec | None, kafka: KafkaSpec | None
    ) -> Mapping[str, str]:
        """The options of a format, the time zone in which text is read among them: pinned, whatever a later session says."""
        given = {name: str(value) for name, value in options.items()}
        if kafka:
            check_record_options(kafka, given)
            format = kafka.value_format
        else:
            check_format(format, given)
        if format not in ("csv", "json") or "timeZone" in given:
            return given
        zone = declared.options.get("timeZone") if declared else None
        return given | {"timeZone": zone or self._site.engine.settings()["spark.sql.session.timeZone"]}

    def _schema(self, name: str, spec: TableSpec, schema: str | StructType | None) -> str:
        engine = self._site.engine
        if spec.query is not None:
            parsed = schema_of(engine, self.query(spec.query).lifted)
        elif schema is not None:
            parsed = engine.parse_schema(schema) if isinstance(schema, str) else schema
        elif spec.path is None:
            what = f"{'Managed table' if spec.kafka is None else 'Table'} {name} has no schema."
            raise TempuraError("BAD_SCHEMA", what, 'Add schema="id INT, …".', 'Add --schema "id INT, …".')
        else:
            parsed = self._inferred(name, spec)
        if not parsed.fields or len({f.name.lower() for f in parsed.fields}) < len(parsed.fields):
            raise TempuraError("BAD_SCHEMA", f"Table {name}: no columns, or two of the same name.", "Name each once.")
        return engine.schema_text(parsed)

    def _check_source(self, name: str, spec: TableSpec) -> None:
        """Raises TempuraError for a source that could not be followed: BAD_SOURCE, FEED_OFF, LAKE_AS_FILES, UNSUPPORTED_FORMAT,
        LINK_LEADS_OUT."""
        if spec.path is not None:
            check_source_place(self.path, name, spec.path, self._declarations.read())
        if spec.path is not None and spec.format not in LAKES:
            Folder(self._site.engine, name, spec, (self.path / spec.path).resolve()).files()
        elif spec.path is not None:
            Lake(self._site.engine, name, spec, (self.path / spec.path).resolve()).check_followed()

    def _first_schema(self, declared: TableSpec) -> str:
        """The columns of a table without those that were added later."""
        schema = self._site.engine.parse_schema(declared.schema)
        return self._site.engine.schema_text(beginning(schema, len(schema.fields) - len(declared.added)))

    def _inferred(self, name: str, spec: TableSpec) -> StructType:
        if spec.format in LAKES:
            return self._site.engine.lake_schema(spec.format, (self.path / str(spec.path)).resolve())
        folder = Folder(self._site.engine, name, spec, (self.path / str(spec.path)).resolve())
        files = folder.files()
        if not files:
            what = f"Table {name}: {folder.path} holds no files to take the schema from."
            raise TempuraError("FOLDER_MISSING", what, "Give the schema, or put a file there first.")
        return self._site.engine.infer_schema(folder.file_set(files, StructType()))

    def _check_keys(self, name: str, spec: TableSpec) -> None:
        if isinstance(spec.keys, str) or not set(spec.keys) <= set(self._site.engine.parse_schema(spec.schema).names):
            what = f"Table {name}: keys {list(spec.keys)} are not all columns of {spec.schema}."
            raise TempuraError("BAD_KEYS", what, "Name columns of the table.")

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
        check_name("query", name, self._declarations.read().queries)
        if (sql is None) == (df is None):
            raise TempuraError("BAD_QUERY", f"Query {name} needs either sql= or df=.", "Give one of them.")
        declared = self._declarations.read().queries.get(name)
        timing = self._declared_now(schedule, declared.schedule if declared else None)
        old = declared or QuerySpec(timing)
        demand = Demand.of(name, old, methods, require, self._site.rules)
        mark = self._fingerprint(df) if df is not None else None
        budget = check_budget(name, old.state_budget if state_budget is None else state_budget, timing)
        price = check_storage_price(name, old.storage_price if storage_price is None else storage_price, timing)
        spec = QuerySpec(timing, sql, mark, old.outputs, **demand.declared, state_budget=budget, storage_price=price)
        query = self._query(name, spec, df)
        query.check_unchanged()
        if demand.incremental:
            check_maintainable(name, query.lifted.rel, demand.methods, self._site.rules)
        check_acyclic(query)
        if spec != declared:
            self._declarations.put_query(name, spec)
        self._remember(name, query, df)
        return query

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
        declared = self._declarations.read().queries
        if name not in declared:
            raise TempuraError(
                "UNKNOWN_QUERY", f"There is no query {name!r}.", *_choices(declared, "add_query", "tempura query add")
            )
        if sql is not None and df is not None:
            raise TempuraError("BAD_QUERY", f"Query {name} is given as sql= and as df=.", "Give one of them.")
        old = declared[name]
        text = sql if sql is not None or df is not None else old.sql
        frame = df if df is not None else self._frames.get(name)
        mark = self._fingerprint(frame) if text is None and frame is not None else None
        mark = mark or (None if text is not None else old.fingerprint)
        demand = Demand.of(name, old, methods, require, self._site.rules)
        timing = self._declared_now(schedule, old.schedule)
        budget = check_budget(name, old.state_budget if state_budget is None else state_budget, timing)
        price = check_storage_price(name, old.storage_price if storage_price is None else storage_price, timing)
        spec = QuerySpec(timing, text, mark, old.outputs, **demand.declared, state_budget=budget, storage_price=price)
        query = self._query(name, spec, frame if text is None else None)
        check_acyclic(query)
        if demand.incremental:
            check_maintainable(name, query.lifted_anew.rel, demand.methods, self._site.rules)
        report = query.replace(lambda: None if spec == old else self._declarations.put_query(name, spec), dry_run)
        if not dry_run:
            self._remember(name, query, frame if text is None else None)
        return report

    def _declared_now(self, given: Schedule | None, known: Schedule | None) -> Schedule:
        """The schedule that is given, as it is declared now; the one that is known if none is given, or the same. Raises TempuraError
        BAD_SCHEDULE for a deadline that has passed, BAD_TIMEZONE."""
        if given is None:
            return known or Schedule.view()
        if given.deadline is None:
            return given
        if known and known.deadline and known.timezone == given.timezone and given.deadline.is_as(known.deadline):
            return known
        zone = zone_of(given.timezone or self._site.engine.settings()["spark.sql.session.timeZone"])
        return replace(given, deadline=given.deadline.declared(self._site.clock(), zone))

    def _remember(self, name: str, query: Query, frame: DataFrame | None) -> None:
        if frame is not None:
            self._frames[name] = frame
        self._queries[name] = (self._declarations.read(), query)

    def query(self, name: str) -> Query:
        """A declared query. Raises TempuraError UNKNOWN_QUERY."""
        declared = self._declarations.read()
        if name not in declared.queries:
            raise TempuraError(
                "UNKNOWN_QUERY",
                f"There is no query {name!r}.",
                *_choices(declared.queries, "add_query", "tempura query add"),
            )
        # Lifting a query takes about a second: an object that has done it is kept as long as nothing is declared anew.
        if name not in self._queries or self._queries[name][0] != declared:
            query = self._query(name, declared.queries[name], self._frames.get(name))
            self._queries[name] = (declared, query)
        return self._queries[name][1]

    def _query(self, name: str, spec: QuerySpec, frame: DataFrame | None) -> Query:
        kind = PacedQuery if spec.schedule.kind == "paced" else Query
        return kind(self._site, name, spec, self._tables(), frame)

    def queries(self) -> tuple[Query, ...]:
        """All declared queries."""
        return tuple(map(self.query, self._declarations.read().queries))

    @errors_by_code()
    def run(
        self,
        names: Iterable[str] = (),
        tell: Callable[[Outcome[RunReport]], None] = lambda outcome: None,
        **asked: Unpack[Asked],
    ) -> tuple[RunReport, ...]:
        """Run what is due of several queries, in one session: those named, or all. A query runs after those whose results it reads, else
        in the order given. ``tell`` is called with each outcome as soon as it is there; what is ``asked`` of each run is as for
        :meth:`Query.run`. Returns the reports.

        Raises TempuraError UNKNOWN_QUERY before anything is run; RUNS_FAILED after all others have run, if any failed.
        """
        chosen = self._chosen(names)
        if any(spec.query for spec in self._declarations.read().tables.values()):
            chosen = upstream_first(chosen)
        return run_together(chosen, tell, **asked)

    def verify(
        self,
        names: Iterable[str] = (),
        tell: Callable[[Outcome[Verification]], None] = lambda outcome: None,
        progress: Progress = lambda text: None,
    ) -> tuple[Outcome[Verification], ...]:
        """Compare the last results of several queries with recomputations, in one session: of those named, in that order, or of all.
        ``tell`` is called with each outcome as soon as it is there. Returns the outcomes; errors are among them, and not raised.

        Raises TempuraError UNKNOWN_QUERY before anything is verified.
        """
        return verify_together(self._chosen(names), tell, progress)

    def _chosen(self, names: Iterable[str]) -> tuple[Query, ...]:
        """The queries of some names, once each, or all."""
        return tuple(map(self.query, dict.fromkeys(names))) or self.queries()

    def remove_query(self, name: str) -> tuple[Path, ...]:
        """Remove a query with its results, states and history. Returns the paths at which it was published: what is there stays.

        Raises TempuraError UNKNOWN_QUERY, QUERY_IN_USE while a table takes its rows from it, RUN_IN_PROGRESS.
        """
        declared = self._declarations.read()
        if not self._is_left_over("queries", name):
            self.query(name)
        taking = [table for table, spec in declared.tables.items() if spec.query == name]
        if taking:
            what = f"Query {name} cannot be removed: its results are the rows of {', '.join(taking)}."
            calls = ("Remove them first: remove_table.", "Remove them first: tempura table remove …")
            raise TempuraError("QUERY_IN_USE", what, *calls)
        with alone(self._site.files, self.path / "queries" / name):
            Move("queries", name).carry_out(self._site)
        self._frames.pop(name, None)
        spec = declared.queries.get(name)
        return tuple(self.path / output.path for output in spec.outputs) if spec else ()

    def rename_query(self, name: str, new: str) -> Query:
        """Give a query another name: its states, results, outputs and history stay, and so do tables that take rows from it.

        Raises TempuraError UNKNOWN_QUERY, BAD_NAME, NAME_TAKEN, RUN_IN_PROGRESS.
        """
        if not self._is_left_over("queries", name):
            self.query(name)
        self._check_free("queries", name, new)
        with alone(self._site.files, self.path / "queries" / name):
            Move("queries", name, new).carry_out(self._site)
        if name in self._frames:
            self._frames[new] = self._frames.pop(name)
        return self.query(new)

    def _fingerprint(self, df: DataFrame) -> str:
        engine = self._site.engine
        schemas = {name: table.schema for name, table in self._tables().items()}
        return fingerprint(engine.lift(df, schemas, engine.settings()).rel)

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
            for name, table in self._tables().items()
        }

    @errors_by_code()
    def status_of_queries(self) -> dict[str, dict[str, Any]]:
        """Where each query stands, as in :meth:`status`."""
        return {query.name: or_error(query.status) for query in self.queries()}

    def undeclared(self) -> tuple[str, ...]:
        """The folders of tables and queries that ``tempura.toml`` does not declare any more, relative to the warehouse. They are kept:
        the declaration can come back, or :meth:`rename_table` and :meth:`remove_table` lead on."""
        return tuple(undeclared(self._site.files, self._declarations))

    @errors_by_code()
    def gc(self, keep: int = 2, dry_run: bool = False) -> Removed:
        """Remove what no committed run or arrival refers to and no living process works on, results and states that are no longer
        needed (the last ``keep`` results of each query stay), and copies of arrivals that are stored together as well and that no
        such result or state asks for apart. ``dry_run`` removes nothing. Returns the paths, relative to the warehouse, with the
        ``bytes`` of each kind. Raises TempuraError BAD_NUMBER."""
        queries = [self.query(name) for name in self._declarations.read().queries]
        return collect(self._site, queries, self._tables().values(), self._declarations, Sweep(keep, dry_run))


@errors_by_code()
def open_site(
    path: str | Path,
    engine: Engine,
    files: Files,
    clock: Callable[[], datetime] | None = None,
    rules: Registry = TEMPURA,
) -> Warehouse:
    """Open a warehouse over an engine; its folder is made if it is missing. ``rules`` are those to plan by.

    Raises TempuraError FORMAT_NEWER, FORMAT_OLDER, and NO_ATOMIC_COMMIT when the file system cannot commit.
    """
    refuse_other_schemes(str(path))
    root = local_path(str(path)).resolve()
    site = Site(root, files, engine, own_rules=rules)
    site = replace(site, clock=clock) if clock else site
    marker = root / ".tempura" / "format.json"
    if not marker.exists():
        _create(site, marker)
    read_manifest(marker)
    complete(site)
    warehouse = Warehouse(site)
    warehouse.make_declarations()
    return warehouse


def _create(site: Site, marker: Path) -> None:
    try:
        with attempt(site.files, site.attempts) as work:
            commit(site.files, work, marker, {})
    except TempuraError as error:
        if error.code != "COMMIT_LOST":
            raise


def _choices(names: Iterable[str], maker: str, command: str) -> tuple[str, str]:
    """Remedies for a name that is not known, in a program and on the command line."""
    if known := ", ".join(sorted(names)):
        return (f"There are: {known}.",) * 2
    return f"Make it with {maker}.", f"Make it with: {command} NAME …"
