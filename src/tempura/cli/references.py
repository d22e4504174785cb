"""References of tables on the command line: ``--references "l_orderkey=orders.o_orderkey"``."""

from collections.abc import Iterable

import click

from tempura.cli.options import by_name

references_option = click.option(
    "--references",
    multiple=True,
    metavar="COLUMNS=TABLE.KEY",
    help='Promise: rows have partners, "l_orderkey=orders.o_orderkey" or "a, b=other(c, d)"; repeat for more.',
)


def referring(given: Iterable[str]) -> dict[str, str]:
    """What is referred to, by the columns that do. Raises click.UsageError."""
    pairs = [text.partition("=") for text in given]
    wrong = [columns for columns, separator, _ in pairs if not separator]
    if wrong:
        raise click.UsageError(f"Write --references COLUMNS=TABLE.KEY, not {wrong[0]!r}.")
    return by_name((columns.strip(), partner.strip()) for columns, _, partner in pairs)
