"""Arguments and options that several commands have."""

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


def method_names(text: str | None) -> str | list[str] | None:
    """``all`` as it is, ``im1,batch`` as a list; None when nothing was given."""
    if text is None:
        return None
    names = [part.strip() for part in text.split(",") if part.strip()]
    return text if names == ["all"] else names
