"""What queries read: tables as they are stored, as they would be, as one use sees them, and clocks."""

from tempura.warehouse.tables.clock import Clock
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.take import register
from tempura.warehouse.tables.uses import Use

Input = Arrivals | Prospect | Clock | Use
"""What a query reads."""


def version_to_read(table: Input) -> int:
    """The version that a run reads: of a table with all that has come, which is registered. Raises TempuraError as :func:`register`
    does, BAD_TIMEZONE for a clock."""
    return register(table) if isinstance(table, Arrivals) else table.version
