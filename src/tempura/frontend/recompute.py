"""What an executor needs to run a query as it is, over snapshots of its tables."""

from dataclasses import dataclass, field

from tempura.errors import Reason
from tempura.frontend.catalyst import JavaObject


@dataclass(frozen=True, slots=True)
class Recompute:
    """The handle of an ``Opaque`` query.

    To execute: register the snapshots as temporary views under their table names in a clone of the session, run
    ``sql``, and rename the result's columns by position. ``plan`` is the analysed plan over schema-only leaves, for
    display.
    """

    sql: str
    plan: JavaObject = field(compare=False, repr=False)


class NotLiftableError(Exception):
    """Inside the front end: the algebra has no expression for this.

    Becomes a recompute with this reason, or the user's error NOT_LIFTABLE.
    """

    def __init__(self, code: str, detail: str) -> None:
        self.reason = Reason(code, detail)
        super().__init__(str(self.reason))
