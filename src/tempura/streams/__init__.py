"""Continuous joins: ``tp.streams.join``, its sources and sinks. What it takes is loaded when it is first asked for."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tempura.streams.continuous import callback, folder, given, join, kafka, parquet, rate, table, topic

__all__ = ["callback", "folder", "given", "join", "kafka", "parquet", "rate", "table", "topic"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tempura.streams' has no attribute {name!r}")
    from tempura.streams import continuous

    return getattr(continuous, name)
