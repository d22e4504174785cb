"""Arguments and options that several commands have."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import click

from tempura.warehouse.declared.declare import NO_DEMAND, REQUIRED

name_argument = click.argument("name", metavar="QUERY")
several_argument = click.argument("names", metavar="[QUERY]...", nargs=-1)
methods_option = click.option(
    "--methods", help="Incremental methods to choose from: all, or im1,batch …; those declared, else all, unless given."
)
require_option = click.option(
    "--require",
    type=click.Choice((REQUIRED, NO_DEMAND)),
    help="incremental: refuse, rather than to recompute the whole query; none: do not. As declared unless given.",
)
budget_option = click.option(
    "--state-budget",
    metavar="SIZE",
    help='The most that states may take on disk, such as "200 MB"; none: any. As declared unless given.',
)
storage_option = click.option(
    "--storage-price",
    type=float,
    metavar="SECONDS",
    help="CPU seconds that each GB of a state counts as which a plan keeps; 0: none. As declared unless given.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for a program.")


T = TypeVar("T")


class Beside(click.Option):
    """An option that means something ``beside`` one of some others, and ``without`` some: given otherwise it is refused, and not dropped.
    Its help says beside which."""

    def __init__(
        self, declared: Sequence[str], *, beside: Sequence[str], without: Sequence[str] = (), help: str, **given: Any
    ) -> None:
        super().__init__(declared, help=f"With {' or '.join(beside)}: {help}", **given)
        self._beside = beside
        self._without = without

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Raises UsageError for one that says nothing there."""
        given = {spelling for param in ctx.command.params if param.name in opts for spelling in param.opts}
        if given.intersection(self.opts):
            if not given.intersection(self._beside):
                raise click.UsageError(f"{self.opts[0]} goes with {' or '.join(self._beside)} only.", ctx)
            if useless := given.intersection(self._without):
                raise click.UsageError(f"{self.opts[0]} says nothing beside {', '.join(sorted(useless))}.", ctx)
        return super().handle_parse_result(ctx, opts, args)


def beside(*others: str) -> Callable[..., Callable[[Any], Any]]:
    """As ``click.option``, of one that means something beside one of some others: see :class:`Beside`."""
    return partial(click.option, cls=Beside, beside=others)


def by_name(pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """What is given by names. Raises BadParameter for a name that is given twice."""
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise click.BadParameter(f"{name} is given twice")
        found[name] = value
    return found


def method_names(text: str | None) -> str | list[str] | None:
    """``all`` as it is, ``im1,batch`` as a list; None when nothing was given."""
    if text is None:
        return None
    names = [part.strip() for part in text.split(",") if part.strip()]
    return text if names == ["all"] else names


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
