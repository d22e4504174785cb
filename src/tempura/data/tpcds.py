"""TPC-DS and TPC-H data as Parquet files, and tables of TPC-H cut into arrivals by date.

The generators are DuckDB's extensions ``tpcds`` and ``tpch``, from the files that their PyPI packages carry: nothing is
downloaded. The data is derived from TPC-DS and TPC-H and no official result. Types are the generators': bigint keys, decimal
money, dates, strings.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tempura.cache import cache_folder
from tempura.errors import TempuraError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

DATES = {"lineitem": "l_shipdate", "orders": "o_orderdate"}
"""Tables of TPC-H that can be cut by date, and the column with the day on which a row comes into being."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Generated tables: ``folder/<table>.parquet``."""

    folder: Path
    scale: float
    suite: str = "tpcds"

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables, sorted."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.parquet")))

    def file(self, table: str) -> Path:
        """The file with all rows of a table. Raises UNKNOWN_TABLE."""
        path = self.folder / f"{table}.parquet"
        if not path.exists():
            raise TempuraError(
                "UNKNOWN_TABLE", f"{self.suite} has no table {table}.", f"It has {', '.join(self.tables)}."
            )
        return path


def generate(scale: float = 0.1, cache: Path | None = None, suite: str = "tpcds") -> Dataset:
    """All tables of a suite (``tpcds`` or ``tpch``) at a scale (1 is about 1 GB of text; 0.1 takes two seconds), from the cache if
    they are there.

    Raises NO_GENERATOR when the packages that make the data are not installed, BAD_SCALE for a scale that is not positive.
    """
    if not 0 < scale <= 1000:
        raise TempuraError("BAD_SCALE", f"A scale of {scale:g} cannot be made.", "Give one above 0, at most 1000.")
    with _generator(suite) as connection:
        folder = (cache or cache_folder()) / f"{suite}-{_version()}-{scale:g}"
        if not folder.exists():
            _fill(folder, connection, scale, _MAKERS[suite])
    return Dataset(folder, scale, suite)


_MAKERS = {"tpcds": "dsdgen", "tpch": "dbgen"}


def query_texts(suite: str = "tpcds") -> dict[str, str]:
    """The suite's queries, ``q1`` and so on, in SQL that Spark reads with ``spark.sql.ansi.doubleQuotedIdentifiers``.

    Raises NO_GENERATOR as :func:`generate` does.
    """
    with _generator(suite) as connection:
        rows = connection.execute(f"SELECT query_nr, query FROM {suite}_queries() ORDER BY query_nr").fetchall()
    return {f"q{number}": text.strip().rstrip(";") for number, text in rows}


def _fill(folder: Path, connection: "DuckDBPyConnection", scale: float, maker: str) -> None:
    """Write the tables beside the folder, then give them its name: a folder of that name is always whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        # In a file: at large scales the tables do not fit into memory.
        database = part / "made.duckdb"
        connection.execute(f"ATTACH '{str(database).replace(chr(39), chr(39) * 2)}' AS made; USE made")
        connection.execute(f"CALL {maker}(sf = ?)", [scale])
        for (table,) in connection.execute("SHOW TABLES").fetchall():
            connection.table(table).write_parquet(str(part / f"{table}.parquet"))
        connection.execute("USE memory; DETACH made")
        database.unlink()
        part.chmod(0o755)
        part.rename(folder)
    except OSError:
        if not folder.exists():  # otherwise another process was faster, and has made the same files
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def cut_dates(dataset: Dataset, shares: Sequence[float], table: str = "lineitem") -> tuple[date, ...]:
    """The days at whose end the given shares (ascending, each below 1) of a table's rows have arrived."""
    with _dated(dataset, table) as (rows, day):
        row = rows.aggregate(f"quantile_disc({day}, {list(shares)})").fetchone()
    return tuple(row[0]) if row else ()


def split_by_date(dataset: Dataset, table: str, cuts: Sequence[date], folder: Path) -> tuple[Path, ...]:
    """Cut a table after each of the given days: one file per arrival in ``folder``, one more than there are cuts. Together the files hold
    each row of the table once."""
    folder.mkdir(parents=True, exist_ok=True)
    files = tuple(folder / f"arrival-{i}.parquet" for i in range(len(cuts) + 1))
    with _dated(dataset, table) as (rows, day):
        for file, (after, until) in zip(files, pairwise([None, *cuts, None]), strict=True):
            later = f"{day} > DATE '{after.isoformat()}'" if after else "TRUE"
            sooner = f"{day} <= DATE '{until.isoformat()}'" if until else "TRUE"
            rows.filter(f"{later} AND {sooner}").write_parquet(str(file))
    return files


@contextmanager
def _dated(dataset: Dataset, table: str) -> Iterator[tuple["DuckDBPyRelation", str]]:
    """The rows of a table, and the column of their day."""
    if table not in DATES:
        raise TempuraError("NOT_A_FACT_TABLE", f"{table} has no dates.", f"Tables with dates: {', '.join(DATES)}.")
    with _generator(dataset.suite) as connection:
        yield connection.read_parquet(str(dataset.file(table))), DATES[table]


def _version() -> str:
    import duckdb

    return duckdb.__version__


@contextmanager
def _generator(suite: str = "tpcds") -> Iterator["DuckDBPyConnection"]:
    """A DuckDB in memory with the extension of a suite."""
    try:
        import duckdb

        extensions = resources.files(f"duckdb_extension_{suite}") / "extensions"
    except ImportError as error:
        raise TempuraError(
            "NO_GENERATOR", f"Data cannot be made: {error}.", "Run: pip install 'tempura[demo]'"
        ) from error
    with (
        resources.as_file(extensions / f"v{_version()}" / f"{suite}.duckdb_extension") as file,
        duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection,
    ):
        if not file.exists():
            raise TempuraError(
                "NO_GENERATOR",
                f"The package duckdb-extension-{suite} has no extension for DuckDB {_version()}.",
                f"Run: pip install duckdb-extension-{suite}=={_version()}",
            )
        connection.execute("SET enable_progress_bar = false")  # the command has one of its own
        connection.load_extension(str(file))
        yield connection
