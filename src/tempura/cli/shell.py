"""What all commands share: the warehouse they work on, how they print, and how they fail."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.warehouse import Warehouse

DONE = 0
FAILED = 1
NOTHING_TO_DO = 3


@dataclass
class Shell:
    """The options before the command's name. The warehouse is opened when a command first asks for it."""

    folder: Path
    debug: bool = False
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
        return tp.open(self.folder)

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show on a terminal that something is going on, and what; the function given changes the text."""
        with self.err.status(Text(what)) as status:
            yield lambda text: status.update(Text(text))

    def say(self, *lines: str) -> None:
        """Print lines as they are, no markup."""
        for line in lines:
            self.out.print(Text(line))

    def json(self, data: object) -> None:
        """Print data for a program: decimals, dates and times as text."""
        click.echo(json.dumps(data, indent=2, default=str, ensure_ascii=False))

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

    def fail(self, error: Exception) -> None:
        """Print an error in one line: its code, what is wrong, what to do."""
        code, what, remedy = told(error)
        self.err.print(Text.assemble((f"[{code}] {what}", "red"), f" {remedy}" if remedy else ""))


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


def told(error: Exception) -> tuple[str, str, str]:
    """Code, one sentence and remedy of any exception that a command can end with."""
    if isinstance(error, TempuraError):
        return error.code, error.what, error.command
    remedy = "Use tempura --debug … to see where."
    if isinstance(error, PySparkException):
        return error.getCondition() or "SPARK", " ".join(str(error).split("\n\n")[0].split()), remedy
    if isinstance(error, OSError):
        return "IO", f"{error.strerror or error}: {error.filename}" if error.filename else str(error), remedy
    return "INTERNAL", f"{type(error).__name__}: {error}".split("\n")[0], f"This is a defect of Tempura. {remedy}"


class Commands(click.Group):
    """A group whose commands end in one line on standard error and exit code 1 when they fail."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except Exception as error:
            shell = ctx.find_object(Shell)
            if shell is None or shell.debug:
                raise
            shell.fail(error)
            ctx.exit(FAILED)


def example(text: str) -> str:
    """The end of a command's help: an example, printed as it is written."""
    return f"\b\nExample:\n  {text}"


def quiet_python_logs() -> None:
    """Pyspark logs each error of a query as JSON on standard error; a command says it in one line of its own."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def prices(texts: Iterable[str]) -> dict[str, float]:
    """Times and prices, in the order of the times."""
    return dict(sorted(map(price, texts)))


def price(text: str) -> tuple[str, float]:
    """``14:00=0.25`` as a time and its price."""
    time, _, number = text.partition("=")
    try:
        return time, float(number)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not TIME=PRICE, such as 14:00=0.25") from None
