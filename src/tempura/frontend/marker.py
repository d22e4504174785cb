"""Leaves of a plan that stand for tables."""

from tempura.frontend.catalyst import JavaObject, class_of

MARKER = "tempura.table"
"""The key of the column metadata that says of which table a leaf is."""

_REFERENCES = ("CTERelationRef", "UnionLoopRef")
"""Leaves that stand for another part of the plan. Their columns may be columns of a table, metadata included."""


_REFERENCES = ("CTERelationRef", "UnionLoopRef")
"""Leaves whose columns, metadata included, are those of a plan elsewhere."""


def marked_table(node: JavaObject) -> str | None:
    """The table of a leaf, from the marker in its columns' metadata; None for other operators."""
    if node.children().size() > 0 or node.output().size() == 0 or class_of(node) in _REFERENCES:
        return None
    metadata = node.output().apply(0).metadata()
    return str(metadata.getString(MARKER)) if metadata.contains(MARKER) else None
