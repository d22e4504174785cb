"""When deletions are few: then only rows that are like a deleted one are put together with it, and the others stay as they are. Search and
executor ask here."""

LARGE_BYTES = 16_000_000
"""Below that, to group all rows takes less than another job and reading twice."""

PART = 0.1
SENT_BYTES = 16_000_000
"""The deletions are sent to every task: at most so many bytes, and that part of all."""


def are_few(deleted_bytes: float, all_bytes: float) -> bool:
    """Whether deletions are few enough, of rows that are many enough."""
    return all_bytes >= LARGE_BYTES and deleted_bytes <= min(SENT_BYTES, PART * all_bytes)
