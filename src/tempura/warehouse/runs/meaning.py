"""What a query means: its text or DataFrame in the algebra, over the tables as they are declared, under the settings of its first run."""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tempura.algebra.canonical import fingerprint
from tempura.errors import TempuraError
from tempura.frontend.clock import is_clock
from tempura.frontend.lift import Lifted
from tempura.warehouse.engine import Engine, Settings
from tempura.warehouse.runs.situation import names_read
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.times.history import History, Replacement
from tempura.warehouse.times.steps import StepManifest

Schemas = Mapping[str, StructType]


class Meaning(Protocol):
    """What the runs of a query compute, by what is committed of it."""

    def settings(self, history: History) -> Settings:
        """The settings that it means this under."""

    def lifted(self, history: History) -> Lifted:
        """The query in the algebra."""

    def schemas(self, lifted: Lifted) -> Mapping[str, str]:
        """The schemas of the tables that it reads, to be noted with a run."""


class Wording:
    """The meaning of what a user has written, ``sql`` or a DataFrame; neither, where another process has made the DataFrame. ``settings``
    gives those of the first run: a query means the same in every run, whatever the session says today."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        sql: str | None,
        frame: DataFrame | None,
        tables: Mapping[str, Arrivals],
        settings: Callable[[History], Settings],
    ) -> None:
        self.settings = settings
        self._engine = engine
        self._name = name
        self._sql = sql
        self._frame = frame
        self._tables = tables
        self._lifted: tuple[Settings, Schemas, Lifted] | None = None
        self._definitions: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether this process knows what was written."""
        return self._sql is not None or self._frame is not None

    def written(self) -> str | DataFrame:
        """What was written. Raises TempuraError QUERY_NOT_REGISTERED."""
        if self._sql is not None:
            return self._sql
        if self._frame is None:
            what = f"Query {self._name} was made from a DataFrame, which this process does not know."
            remedy = "Call add_query with the same DataFrame again."
            raise TempuraError("QUERY_NOT_REGISTERED", what, remedy, "Add it, and run it, in a program.")
        return self._frame

    def lifted(self, history: History) -> Lifted:
        """The query in the algebra. Raises TempuraError QUERY_CHANGED when the committed runs computed another one, QUERY_NOT_REGISTERED,
        and what is wrong with it."""
        settings, schemas = self.settings(history), self._columns()
        if self._lifted is None or self._lifted[:2] != (settings, schemas):
            self._definitions = self._defined()
            self._lifted = (settings, schemas, self._engine.lift(self.written(), schemas, settings))
        self._check(self._lifted[-1], history)
        return self._lifted[-1]

    def forget(self) -> None:
        """The engine is asked again what it means."""
        self._lifted = None

    def look_again(self) -> None:
        """The same, where its text names views or functions in whose places the session has others by now."""
        if self._lifted and self._definitions != self._defined():
            self.forget()

    def _defined(self) -> str | None:
        return self._engine.definitions(self._sql) if self._sql is not None else None

    def schemas(self, lifted: Lifted) -> Mapping[str, str]:
        """The schemas of the tables that the query reads."""
        read = ((name, self._tables[name]) for name in names_read(lifted) if not is_clock(name))
        return {name: self._engine.schema_text(table.schema) for name, table in read}

    def _columns(self) -> Schemas:
        return {name: table.schema for name, table in self._tables.items()}

    # --- which tables -----------------------------------------------------------------------------------------------

    def reads(self) -> tuple[Arrivals, ...]:
        """The tables that the query reads, whatever its committed runs computed; none when it is not known."""
        if not self.is_known:
            return ()
        lifted = self._lifted[-1] if self._lifted else self.lifted(History(()))
        return tuple(self._tables[name] for name in names_read(lifted) if name in self._tables)

    def needs(self, table: str) -> bool:
        """Whether the query reads a table, or cannot be understood without it."""
        try:
            if any(read.name == table for read in self.reads()):
                return True
            if self._sql is not None:
                others = {name: schema for name, schema in self._columns().items() if name != table}
                self._engine.lift(self._sql, others, self.settings(History(())))
        except TempuraError:
            # What cannot be understood may read whatever its text has a word for.
            return bool(re.search(rf"\b{table}\b", self._sql or "", re.IGNORECASE))
        return False

    # --- the same as before -----------------------------------------------------------------------------------------

    def _check(self, lifted: Lifted, history: History) -> None:
        known = history.current
        if known is None or known.fingerprint == fingerprint(lifted.rel):
            return
        same_text = self._sql is not None and known.sql == self._sql
        if not same_text or self._reads_added(known, lifted, history):
            what = f"Query {self._name} differs from the one that its {len(history.runs)} committed runs computed."
            remedy = "Restore it, or replace it with replace_query."
            command = f"Restore it, or replace it with: tempura query replace {self._name} …"
            raise TempuraError("QUERY_CHANGED", what, remedy, command)

    def _reads_added(self, known: StepManifest | Replacement, lifted: Lifted, history: History) -> bool:
        """Whether the same text means another query because its tables have got columns (``SELECT *``). A new version of Spark may
        write the same query otherwise; so the text is lifted over the columns of then as well."""
        now = dict(self._columns())
        then = now | {name: self._columns_then(known, name) for name in names_read(lifted) if name in now}
        if then == now:
            return False
        old = self._engine.lift(self.written(), then, self.settings(history))
        return fingerprint(old.rel) != fingerprint(lifted.rel)

    def _columns_then(self, known: StepManifest | Replacement, name: str) -> StructType:
        """The columns that a table had at a run. Runs of before they were noted read what had arrived by then, and no more."""
        if name in known.schemas:
            return self._engine.parse_schema(known.schemas[name])
        version = known.inputs.get(name, 0) if isinstance(known, StepManifest) else 0
        return self._tables[name].schema_at(version)
