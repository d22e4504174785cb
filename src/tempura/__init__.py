"""Tempura: exact, cost-based incremental computation of Spark SQL queries.

``import tempura as tp``; then ``tp.open(folder)`` gives a :class:`Warehouse`.
"""

from typing import TYPE_CHECKING, Any

from tempura.errors import Reason, TempuraError, TempuraWarning

if TYPE_CHECKING:
    from tempura.warehouse.opening import open
    from tempura.warehouse.query import Query
    from tempura.warehouse.table import Table
    from tempura.warehouse.times.schedule import Schedule
    from tempura.warehouse.warehouse import Warehouse

__version__ = "0.1.0"
__all__ = [
    "Query",
    "Reason",
    "Schedule",
    "Table",
    "TempuraError",
    "TempuraWarning",
    "Warehouse",
    "__version__",
    "open",
]

_HOMES = {
    "open": "tempura.warehouse.opening",
    "Query": "tempura.warehouse.query",
    "Schedule": "tempura.warehouse.times.schedule",
    "Table": "tempura.warehouse.table",
    "Warehouse": "tempura.warehouse.warehouse",
}


def __getattr__(name: str) -> Any:
    """Load the warehouse, and with it Spark, when it is first asked for: importing one layer does not load all others."""
    from importlib import import_module

    if name == "streams":
        return import_module("tempura.streams")
    if name not in _HOMES:
        raise AttributeError(f"module 'tempura' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
