"""How much a worker does at a time, and what it says when it cannot go on."""

from dataclasses import dataclass
from typing import Any

from tempura.region.operators import Batch, shown


@dataclass(frozen=True, slots=True)
class Settings:
    """``credit``: rows on their way or waiting in a channel, at most. ``slice``: rows of a mini-step at first, at most ``credit``: it grows
    while steps are quicker than ``quick`` seconds, and shrinks when one takes longer than ``slow``."""

    credit: int = 65_536
    slice: int = 256
    quick: float = 0.001
    slow: float = 0.01


@dataclass(frozen=True, slots=True)
class Failure:
    """What an operator could not process: rows of a port, from the one that failed, which is None if that is not known."""

    port: int
    rows: Batch
    is_exact: bool
    trace: str

    def to_json(self) -> dict[str, Any]:
        """For the user: the tuple, or the first rows among which it is, and the traceback."""
        row = [shown(r) for r in self.rows.slice(0, 1 if self.is_exact else 3).to_pylist()]
        return {"port": self.port, "exact": self.is_exact, "rows": row, "trace": self.trace}
