"""What all commands share: the warehouse they work on, how they print, and how they fail."""

import json
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

import tempura as tp
from tempura.errors import TempuraError, TempuraWarning
from tempura.execute.failure import coded_or_defect
from tempura.frontend.start import OwnSession, start_session
from tempura.warehouse.warehouse import Warehouse

_NO_LOG = logging.NullHandler()

DONE = 0
FAILED = 1
NOTHING_TO_DO = 3
INTERRUPTED = 130


@dataclass
class Shell:
    """The options before the command's name. The warehouse is opened when a command first asks for it. ``runs_steps``: the command
    does, so that its session loads what later ones do (``frontend/archive.py``)."""

    folder: Path
    debug: bool = False
    runs_steps: bool = False
    out: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False, soft_wrap=True))

    @cached_property
    def warehouse(self) -> Warehouse:
        """The warehouse of the folder. Raises NO_WAREHOUSE where none is: only ``init`` makes one."""
        if not is_warehouse(self.folder):
            raise TempuraError(
                "NO_WAREHOUSE",
                f"There is no tempura.toml in {self.folder.resolve()}.",
                "Make a warehouse with: tempura init, or name one with: tempura -C FOLDER …",
            )
        return tp.open(self.folder, spark=OwnSession(self.start_session))

    def start_session(self, app_name: str = "tempura") -> SparkSession:
        """A local session. The log of its errors, with Java's traces, is on standard error under ``--debug`` only: a command says
        in one line what is wrong."""
        quiet = {} if self.debug else {"spark.log.level": "OFF"}
        return start_session(app_name, config=quiet, noting=self.runs_steps)

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show on a terminal that something is going on, and what; the function given changes the text."""
        with self.err.status(Text(what)) as status:
            yield lambda text: status.update(Text(text))

    @contextmanager
    def stages(self) -> Iterator[Callable[[str], None]]:
        """Say which stage of long work is reached: on a terminal in one line that changes, else a line each, on standard error."""
        if self.err.is_terminal:
            with self.progress("") as change:
                yield change
        else:
            yield lambda text: self.err.print(Text(f"… {text}"))

    def is_asked(self, question: str) -> bool:
        """Whether somebody at a terminal says yes; no where nobody can be asked."""
        return sys.stdin.isatty() and click.confirm(question, err=True)

    @contextmanager
    def warnings(self) -> Iterator[None]:
        """Print warnings of Tempura in one line each, on standard error."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", TempuraWarning)
            other = warnings.showwarning

            def show(message: Warning | str, category: type[Warning], *args: Any, **options: Any) -> None:
                if issubclass(category, TempuraWarning):
                    self.err.print(Text(str(message), "yellow"))
                else:
                    other(message, category, *args, **options)

            warnings.showwarning = show
            yield

    def say(self, *lines: str) -> None:
        """Print lines as they are, no markup."""
        for line in lines:
            self.out.print(Text(line))

    def json(self, data: object) -> None:
        """Print data for a program: decimals, dates and times as text."""
        self.write(json.dumps(data, indent=2, default=str, ensure_ascii=False))

    def json_line(self, data: object) -> None:
        """The same in one line: one of several."""
        self.write(json.dumps(data, default=str, ensure_ascii=False))

    def write(self, text: str) -> None:
        """Print a line at once. Who reads it may have heard enough and gone, as ``head`` does: that is no fault of Spark's, and ends the
        command as it does where lines are for people."""
        try:
            click.echo(text)
        except BrokenPipeError:
            self.out.on_broken_pipe()

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[object]], show: Callable[[object], str] | None = None
    ) -> None:
        """Print rows under their columns' names, numbers to the right. Nothing is cut off, on a terminal or in a pipe."""
        kept = [[*row] for row in rows]
        lines = [list(columns), *([(show or cell)(value) for value in row] for row in kept)]
        widths = [max(cell_len(line[i]) for line in lines) for i in range(len(columns))]
        right = [bool(kept) and all(is_number(row[i]) for row in kept) for i in range(len(columns))]
        for n, line in enumerate(lines):
            placed = (pad(text, width, to) for text, width, to in zip(line, widths, right, strict=True))
            self.out.print(Text("  ".join(placed).rstrip(), style="" if n else "bold"))

    def fail(self, error: BaseException, query: str = "") -> None:
        """Print an error in one line: its code, what is wrong, what to do; before it the query, if it is one of several. Under
        ``--debug`` the calls that led to it come first."""
        if self.debug:
            traceback.print_exception(error)
        code, what, remedy = told(error)
        of = f"{query}: " if query else ""
        self.err.print(Text.assemble(of, (f"[{code}] {what}", "red"), f" {remedy}" if remedy else ""))


def is_warehouse(folder: Path) -> bool:
    """Whether a folder is a warehouse. Under version control there is only ``tempura.toml``."""
    return (folder / "tempura.toml").exists() or (folder / ".tempura").exists()


def is_number(value: object) -> bool:
    """Whether a value stands to the right in its column; an empty cell does not matter."""
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))


def pad(text: str, width: int, right: bool) -> str:
    """A text with blanks up to a width, as a terminal counts it."""
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def cell(value: object) -> str:
    """A figure as the text of a table's cell, for people."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def percent(value: float, base: float) -> str:
    """How much less or more than the base."""
    if base == 0:
        return "not comparable with nothing"
    change = round(100 * (value - base) / base)
    return f"{abs(change)} % {'less' if change <= 0 else 'more'}"


def told(error: BaseException) -> tuple[str, str, str]:
    """Code, one sentence and remedy of any exception that a command can end with."""
    known = coded_or_defect(error)
    return known.code, known.what, known.command


class Commands(click.Group):
    """A group whose commands end in one line on standard error when they fail, with exit code 1, or 130 after Ctrl-C. ``later`` are
    commands that are imported when they are first asked for, ``module:name`` by their names: most commands need none of the others."""

    def __init__(self, *arguments: Any, later: Mapping[str, str] = MappingProxyType({}), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._later = later

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted({*self.commands, *self._later})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name."""
        if cmd_name in self._later and cmd_name not in self.commands:
            module, name = self._later[cmd_name].split(":")
            self.add_command(getattr(import_module(module), name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            shell = ctx.find_object(Shell)
            interrupted = isinstance(error, KeyboardInterrupt)
            if shell is None or (shell.debug and not interrupted):
                raise
            shell.fail(error)
            ctx.exit(INTERRUPTED if interrupted else FAILED)


def example(*texts: str) -> str:
    """The end of a command's help: an example, or a few, printed as they are written."""
    return "\b\nExample:\n" + "\n".join(f"  {text}" for text in texts)


def quiet_python_logs(debug: bool) -> None:
    """Pyspark logs each error of a query as JSON on standard error, py4j the trace of an interrupt; a command says either in one
    line of its own."""
    if not debug:
        # With a handler, Python's logging makes none of its own that prints.
        logging.getLogger().addHandler(_NO_LOG)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def prices(texts: Iterable[str]) -> dict[str, float]:
    """Times and prices, in the order of the times. Raises TempuraError BAD_SCHEDULE for a time that is given twice."""
    given = sorted(map(price, texts))
    for (time, _), (following, _) in pairwise(given):
        if time == following:
            raise TempuraError("BAD_SCHEDULE", f"The time {time} is given twice.", "Give each time once.")
    return dict(given)


def price(text: str) -> tuple[str, float]:
    """``14:00=0.25`` as a time and its price."""
    time, _, number = text.partition("=")
    try:
        return time, float(number)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not TIME=PRICE, such as 14:00=0.25") from None
