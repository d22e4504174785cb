"""``tempura.toml``: the tables, queries and schedules that a warehouse declares.

The file belongs to the user: edits keep comments and order, and are written atomically. It can be kept under version control.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import tomlkit
from pyspark.sql.types import StructType
from tomlkit.exceptions import TOMLKitError

from tempura.display import SIZES, bytes_in, bytes_of
from tempura.errors import TempuraError
from tempura.execute.failure import errors_by_code
from tempura.warehouse.commits.files import Files
from tempura.warehouse.declared.declared_stats import ColumnTold, told_of
from tempura.warehouse.declared.kafka import KafkaSpec, kafka_from_toml
from tempura.warehouse.declared.kinds import (
    OUTPUT,
    QUERY,
    RULES,
    SCHEDULES,
    TABLE,
    check_section,
    is_number,
    section,
)
from tempura.warehouse.declared.references import declared, references_of
from tempura.warehouse.times.forecast import check_expect
from tempura.warehouse.times.schedule import Schedule

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLURAL = {"table": "tables", "query": "queries"}
_SECTIONS = (*_PLURAL.values(), "rules")


def check_name(kind: str, name: str, others: Iterable[str] = ()) -> str:
    """A name that is safe as a folder and in SQL, and differs from ``others`` by more than case, which neither Spark nor every file
    system looks at. Raises TempuraError BAD_NAME."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 100:
        remedy = "Use at most 100 letters, digits and _, beginning with a letter or _."
        raise TempuraError("BAD_NAME", f"{name!r} is not a name for a {kind}.", remedy)
    like = next((other for other in others if other != name and other.lower() == name.lower()), None)
    if like is not None:
        what = f"The names of the {_PLURAL[kind]} {like} and {name} differ by case only."
        raise TempuraError("BAD_NAME", what, "Choose another name for one of them.")
    return name


NEW_COLUMNS = ("ignore", "refuse", "add")
"""What can become of columns of a source that its table does not have: they are not read, they are refused, or the table gets them."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A declared table. ``path`` is a folder, relative to the warehouse, whose files hold the rows, or ``query`` is one whose results
    they are, or ``kafka`` is a topic whose records they are; a managed table has none of these. ``schema`` is DDL.
    ``settle``: seconds that a file must be old to count. ``options`` of the files' format. ``added`` are columns that came later: a
    file may lack them. ``follow_links``: symbolic links that lead out of the folder are followed. ``new_columns``: what becomes of
    columns of the source that the table does not have, one of :data:`NEW_COLUMNS`; "": the format's default. ``expect`` is what is
    expected to arrive from run to run, ``stats`` what is said of columns: nothing relies on these. The rest are promises,
    enforced when rows arrive; ``references`` (``references.py``) when a step pins them."""

    schema: str
    path: str | None = None
    format: str = "parquet"
    keys: tuple[str, ...] = ()
    append_only: bool = False
    static: bool = False
    settle: float = 0.0
    options: Mapping[str, str] = field(default_factory=dict)
    query: str | None = None
    expect: str | None = None
    added: tuple[str, ...] = ()
    follow_links: bool = False
    new_columns: str = ""
    kafka: KafkaSpec | None = None
    stats: Mapping[str, ColumnTold] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)

    @property
    def on_new_columns(self) -> str:
        """One of :data:`NEW_COLUMNS`. Unless it is said, columns of plain Parquet and JSON are not read, all others are refused."""
        return self.new_columns or ("ignore" if self.format in ("parquet", "json") else "refuse")

    @property
    def partners(self) -> frozenset[str]:
        """The tables that it refers to."""
        return frozenset(reference.table for reference in references_of("", self.references))

    def to_toml(self) -> dict[str, Any]:
        """What differs from the default."""
        given: dict[str, Any] = {
            "path": self.path,
            "query": self.query,
            "format": self.format if self.path or self.kafka else None,
            "schema": self.schema,
        }
        given |= {
            "keys": list(self.keys),
            "append_only": self.append_only,
            "static": self.static,
            "settle": self.settle,
            "options": dict(self.options),
            "expect": self.expect,
            "added": list(self.added),
            "follow_links": self.follow_links,
            "new_columns": self.new_columns,
            "kafka": self.kafka.to_toml() if self.kafka else None,
            "references": dict(self.references),
            "stats": {column: told.to_toml() for column, told in self.stats.items()},
        }
        return {key: value for key, value in given.items() if value not in (None, False, [], 0.0, {}, "")}


MODES = ("replace", "upsert", "changes")


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """Where a query's results are published: a path, relative to the warehouse if it lies in it, and a mode of :data:`MODES`. ``keys``
    for ``upsert``."""

    path: str
    mode: str = "replace"
    keys: tuple[str, ...] = ()

    def to_toml(self) -> dict[str, Any]:
        """Plain data."""
        return {"path": self.path, "mode": self.mode} | ({"keys": list(self.keys)} if self.keys else {})


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A declared query: its SQL, or for a DataFrame the ``fingerprint`` under which it is registered in each process. ``outputs`` are
    the places where its results are published, ``methods`` the incremental methods to choose from (all unless given), ``require`` what is
    demanded of its runs, ``state_budget`` the most that its states may take, as a size that people write; ``storage_price``: the
    CPU seconds that each GB of a state counts as which a plan keeps."""

    schedule: Schedule
    sql: str | None = None
    fingerprint: str | None = None
    outputs: tuple[OutputSpec, ...] = ()
    methods: tuple[str, ...] = ()
    require: str | None = None
    state_budget: str | None = None
    storage_price: float | None = None

    @property
    def price_per_byte(self) -> float:
        """What keeping a byte counts as, in nanoseconds of one core."""
        return 1e9 * (self.storage_price or 0.0) / bytes_in("GB")

    @property
    def budget(self) -> int | None:
        """The bytes that its states may take; None for any."""
        return None if self.state_budget is None else bytes_of(self.state_budget)

    def to_toml(self) -> dict[str, Any]:
        """Plain data; SQL over several lines stays readable."""
        body: dict[str, Any] = {"fingerprint": self.fingerprint} if self.sql is None else {"sql": _text(self.sql)}
        schedule = tomlkit.inline_table()
        for key, value in self.schedule.to_json().items():
            schedule[key] = value
        outputs = {"outputs": [output.to_toml() for output in self.outputs]} if self.outputs else {}
        methods = {"methods": list(self.methods)} if self.methods else {}
        require = {"require": self.require} if self.require else {}
        budget = {"state_budget": self.state_budget} if self.state_budget is not None else {}
        price = {"storage_price": self.storage_price} if self.storage_price is not None else {}
        return body | {"schedule": schedule} | methods | require | budget | price | outputs


def _text(sql: str) -> Any:
    """SQL of several lines as a TOML literal, if it can be one; else as an escaped string."""
    printable = all(c.isprintable() or c in "\n\t" for c in sql)
    if "\n" not in sql or "'''" in sql or sql.endswith("'") or not printable:
        return sql
    # Parsed, because tomlkit writes no newline after the opening quotes, which is not part of the text.
    return tomlkit.parse(f"text = '''\n{sql}'''\n")["text"]


@dataclass(frozen=True, slots=True)
class Declarations:
    """The content of ``tempura.toml``. ``rules`` are names of modules with rules of the user's own."""

    tables: Mapping[str, TableSpec]
    queries: Mapping[str, QuerySpec]
    rules: tuple[str, ...] = ()

    def table(self, name: str) -> TableSpec:
        """How a table is declared. Raises TempuraError UNKNOWN_TABLE."""
        if not isinstance(name, str) or name not in self.tables:
            raise TempuraError(
                "UNKNOWN_TABLE",
                f"There is no table {name!r}.",
                *_choices(self.tables, "add_table", "tempura table add"),
            )
        return self.tables[name]

    @property
    def names(self) -> tuple[str, ...]:
        """Of all that is declared."""
        return (*self.tables, *self.queries, *self.rules)

    def query(self, name: str) -> QuerySpec:
        """How a query is declared. Raises TempuraError UNKNOWN_QUERY."""
        if not isinstance(name, str) or name not in self.queries:
            raise TempuraError(
                "UNKNOWN_QUERY",
                f"There is no query {name!r}.",
                *_choices(self.queries, "add_query", "tempura query add"),
            )
        return self.queries[name]


def _choices(names: Iterable[str], maker: str, command: str) -> tuple[str, str]:
    """Remedies for a name that is not known, in a program and on the command line."""
    if known := ", ".join(sorted(names)):
        return (f"There are: {known}.",) * 2
    return f"Make it with {maker}.", f"Make it with: {command} NAME …"


@dataclass(frozen=True, slots=True)
class DeclarationFile:
    """``tempura.toml`` on disk. ``lock`` serialises edits of several processes."""

    path: Path
    lock: Path
    files: Files

    @property
    def place(self) -> Path:
        """Where it lies: where ``path`` leads to, if that is a symbolic link, as of who keeps it under version control elsewhere."""
        return self.path.resolve()

    def make(self) -> None:
        """Write an empty file unless there is one."""
        if not self.path.exists():
            self._edit(lambda document: None)

    def read(self) -> Declarations:
        """Read and check the file. Raises TempuraError BAD_TOML, BAD_NAME, BAD_SCHEDULE, NO_ACCESS, and what is wrong with a value of its
        kind."""
        return _declarations(self.path, self._text())

    def put_table(self, name: str, spec: TableSpec) -> None:
        """Add or replace a table."""
        self._edit(lambda document: _put(document, "table", name, spec.to_toml()))

    def change_table(self, name: str, known: TableSpec, spec: TableSpec) -> None:
        """Put a table in the place of the one that is known. Raises TempuraError COMMIT_LOST when another is declared by now."""

        def change(document: tomlkit.TOMLDocument) -> None:
            found = document.get("tables", {}).get(name)
            if found is None or _table(name, found) != known:
                what = f"Table {name} was declared otherwise meanwhile; nothing was changed."
                raise TempuraError("COMMIT_LOST", what, "Call again to work from what is declared now.")
            _put(document, "table", name, spec.to_toml())

        self._edit(change)

    def put_query(self, name: str, spec: QuerySpec) -> None:
        """Add or replace a query."""
        self._edit(lambda document: _put(document, "query", name, spec.to_toml()))

    def change_query(self, name: str, change: Callable[[QuerySpec], QuerySpec]) -> QuerySpec:
        """Declare a query as it is changed. Returns that. Raises TempuraError UNKNOWN_QUERY when it is not declared any more."""
        with self.editing():
            spec = change(self.read().query(name))
            self.change(lambda document: _put(document, "query", name, spec.to_toml()))
        return spec

    @errors_by_code()
    def _text(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        except ValueError as error:  # bytes that are no text
            raise _unreadable(self.path, error) from error

    def _edit(self, change: Callable[[tomlkit.TOMLDocument], None]) -> None:
        with self.editing():
            self.change(change)

    @contextmanager
    def editing(self) -> Iterator[None]:
        """Hold the lock of those who edit the file."""
        with errors_by_code(), self.files.lock(self.lock):
            yield

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Keep the file as it is: who edits it waits. Others may keep it as well."""
        with errors_by_code(), self.files.share(self.lock):
            yield

    def change(self, change: Callable[[tomlkit.TOMLDocument], None]) -> None:
        """Edit the file where it lies. The caller holds the lock. Raises TempuraError BAD_TOML when it is a link that leads nowhere."""
        document = _document(self.path, self._text())
        change(document)
        place = self.place
        if not place.parent.is_dir():
            what = f"{self.path} is a symbolic link to {place}, and there is no folder {place.parent}."
            raise TempuraError("BAD_TOML", what, "Make that folder, or mend the link.")
        temporary = place.with_name(f".{place.name}.{uuid.uuid4().hex}.tmp")
        self.files.write(temporary, tomlkit.dumps(document).encode())
        self.files.replace(temporary, place)
        self.files.sync_folder(place.parent)

    def left_behind(self) -> list[Path]:
        """The temporary files of edits that were interrupted. The caller knows that nobody edits the file."""
        folder, prefix = self.place.parent, f".{self.place.name}."
        return [folder / name for name in self.files.names(folder) if name.startswith(prefix) and name.endswith(".tmp")]


_KEPT = 8
"""So many contents of files are parsed once: a program asks for every push what is declared."""


@lru_cache(_KEPT)
def _declarations(path: Path, text: str) -> Declarations:
    """What a file of this text declares."""
    document = _document(path, text)
    unknown = ", ".join(sorted(set(document) - set(_SECTIONS)))
    if unknown:
        known = ", ".join(f"[{name}…]" for name in _SECTIONS)
        raise TempuraError("BAD_TOML", f"{path.name} has unknown {unknown}.", f"Known: {known}.")
    tables, queries = (section(f"[{kind}]", document.get(kind, {})) for kind in ("tables", "queries"))
    tables = {check_name("table", n, tables): _table(n, t) for n, t in tables.items()}
    queries = {check_name("query", n, queries): _query(n, q) for n, q in queries.items()}
    rules = check_section("[rules]", document.get("rules", {}), RULES)
    return Declarations(tables, queries, tuple(dict.fromkeys(rules.get("modules", ()))))


def _document(path: Path, text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except (TOMLKitError, ValueError) as error:  # also numbers of thousands of digits
        raise _unreadable(path, error) from error


def check_keys(name: str, keys: Sequence[str], schema: StructType) -> None:
    """Raise TempuraError BAD_KEYS for keys of a table that are not among its columns."""
    missing = [key for key in keys if key not in schema.names]
    if missing:
        what = (
            f"Table {name}: no column is named {', '.join(missing)}, as its keys are; it has {', '.join(schema.names)}."
        )
        raise TempuraError("BAD_KEYS", what, "Name columns of the table.")


def _unreadable(path: Path, error: Exception) -> TempuraError:
    return TempuraError("BAD_TOML", f"{path}: {error}.", "Correct the file.")


def _put(document: tomlkit.TOMLDocument, kind: str, name: str, values: Mapping[str, Any]) -> None:
    section = _PLURAL[kind]
    # Another process may have added a name like this one since the caller looked.
    check_name(kind, name, document.get(section, ()))
    if section not in document:
        document[section] = tomlkit.table(is_super_table=True)
    entries: Any = document[section]
    if name not in entries:
        entries[name] = tomlkit.table()
    entry = entries[name]
    for key in [k for k in entry if k not in values]:
        del entry[key]
    for key, value in values.items():
        if key not in entry or entry[key] != value:
            entry[key] = value


def _table(name: str, data: Mapping[str, Any]) -> TableSpec:
    where = f"[tables.{name}]"
    values = check_section(where, data, TABLE, {"schema"})
    if values.get("new_columns", "") not in ("", *NEW_COLUMNS):
        what = f"{where} has new_columns = {values['new_columns']!r}."
        raise TempuraError("BAD_TOML", what, f"Known: {', '.join(NEW_COLUMNS)}.")
    lists = {key: tuple(values.get(key, ())) for key in ("keys", "added")}
    checked = {"settle": float(values.get("settle", 0.0)), "expect": check_expect(name, values.get("expect"))}
    if ("kafka" in values) != (values.get("format") == "kafka"):
        what = f'{where} has either format = "kafka" or [tables.{name}.kafka], without the other.'
        raise TempuraError("BAD_TOML", what, "Give both.")
    kafka = kafka_from_toml(f"tables.{name}", values["kafka"]) if "kafka" in values else None
    stats = {column: told_of(f"[tables.{name}.stats.{column}]", said) for column, said in _said(name, values)}
    nested = {"kafka": kafka, "stats": stats, "references": declared(name, values.get("references", {}))}
    return TableSpec(**values | lists | checked | nested)


def _said(name: str, table: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    said = table.get("stats", {})
    if not isinstance(said, Mapping) or not all(isinstance(of, Mapping) for of in said.values()):
        what = f"[tables.{name}] has stats = {said!r}."
        raise TempuraError("BAD_TOML", what, f"Write [tables.{name}.stats.COLUMN], and distinct = … below.")
    return said.items()


def _query(name: str, data: Mapping[str, Any]) -> QuerySpec:
    where = f"[queries.{name}]"
    values = check_section(where, data, QUERY, {"schedule"})
    if ("sql" in values) == ("fingerprint" in values):
        raise TempuraError("BAD_TOML", f"{where} needs either sql or fingerprint.", "Add sql = ...")
    schedule = _schedule(f"schedule in {where}", values["schedule"])
    outputs = tuple(_output(f"outputs in {where}", output) for output in values.get("outputs", []))
    methods, require = tuple(values.get("methods", ())), check_require(name, values.get("require"))
    budget = check_budget(name, values.get("state_budget"), schedule)
    price = check_storage_price(name, values.get("storage_price"), schedule)
    return QuerySpec(schedule, values.get("sql"), values.get("fingerprint"), outputs, methods, require, budget, price)


def _schedule(where: str, data: Mapping[str, Any]) -> Schedule:
    kind = data.get("kind")
    if isinstance(kind, str) and kind in SCHEDULES:
        check_section(where, data, *SCHEDULES[kind])
    try:
        return Schedule.from_json(data)
    except TempuraError as error:
        # Which of the queries has it is known here only.
        raise TempuraError(error.code, f"{where}: {error.what}", error.remedy) from error


REQUIRED = "incremental"
NO_DEMAND = "none"


def check_require(query: str, require: object) -> str | None:
    """What a declaration, or a call, demands of a query's runs: that they are incremental, or, None, nothing. Raises TempuraError
    BAD_REQUIRE."""
    if require not in (None, REQUIRED, NO_DEMAND):
        what = f"Query {query}: require is {require!r}."
        raise TempuraError("BAD_REQUIRE", what, f"Say {REQUIRED!r}, or {NO_DEMAND!r} for no demand.")
    return REQUIRED if require == REQUIRED else None


def check_budget(query: str, budget: object, schedule: Schedule) -> str | None:
    """The state budget that a declaration, or a call, gives a query, as it is written down; None for none. Raises TempuraError
    BAD_BUDGET."""
    if budget is None or budget == NO_DEMAND:
        return None
    text = str(budget) if isinstance(budget, int | str) and not isinstance(budget, bool) else ""
    if bytes_of(text) is None:
        raise TempuraError(
            "BAD_BUDGET", f"Query {query}: state_budget is {budget!r}.", f"{SIZES} {NO_DEMAND!r} is no budget."
        )
    if schedule.kind == "paced":
        what = f"Query {query} runs at paces, where each part of it keeps what it needs: it can have no state budget."
        raise TempuraError("BAD_BUDGET", what, "Declare it without, or with times or as a view.")
    return text.strip()


def check_storage_price(query: str, price: object, schedule: Schedule) -> float | None:
    """The storage price that a declaration, or a call, gives a query, in CPU seconds per GB; None for none, as is 0. Raises TempuraError
    BAD_STORAGE_PRICE."""
    if price is None:
        return None
    if not isinstance(price, int | float) or not is_number(price) or price < 0:
        what = f"Query {query}: storage_price is {price!r}."
        raise TempuraError("BAD_STORAGE_PRICE", what, "Give CPU seconds per GB, such as 1.5; 0 is no price.")
    if price and schedule.kind == "paced":
        what = f"Query {query} runs at paces, where each part of it keeps what it needs: it can have no storage price."
        raise TempuraError("BAD_STORAGE_PRICE", what, "Declare it without, or with times or as a view.")
    return float(price) or None


def _output(where: str, data: Mapping[str, Any]) -> OutputSpec:
    values = check_section(where, data, OUTPUT, {"path"})
    return check_output(OutputSpec(**{**values, "keys": tuple(values.get("keys", ()))}))


def check_output(spec: OutputSpec) -> OutputSpec:
    """Raises TempuraError BAD_OUTPUT for an unknown mode, or keys that are missing or useless."""
    if spec.mode not in MODES:
        raise TempuraError("BAD_OUTPUT", f"An output has the mode {spec.mode!r}.", f"Use one of {', '.join(MODES)}.")
    if (spec.mode == "upsert") != bool(spec.keys):
        what = f"Output {spec.path} has mode {spec.mode} and {'no ' if not spec.keys else ''}keys."
        raise TempuraError("BAD_OUTPUT", what, "Give keys with mode upsert, and only there.")
    return spec


def local_path(path: str | PathLike[str]) -> Path:
    """A path of the local file system, absolute. Raises TempuraError UNSUPPORTED_PATH."""
    if not isinstance(path, str | PathLike):
        raise TempuraError("UNSUPPORTED_PATH", f"{path!r} is no path.", "Give a text or a pathlib.Path.")
    path = str(path)
    scheme, separator, rest = path.partition("://")
    if separator and scheme != "file":
        raise TempuraError("UNSUPPORTED_PATH", f"{path} is not a local path.", "Use a folder of a local file system.")
    return Path(rest if separator else path.removeprefix("file:")).expanduser().absolute()


def declared_path(root: Path, path: str | PathLike[str]) -> str:
    """A path as it is declared: relative to the warehouse if it lies in it, so that both can be moved. Raises as above."""
    local = local_path(path)
    return str(local.relative_to(root)) if local.is_relative_to(root) else str(local)
