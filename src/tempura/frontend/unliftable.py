"""What the front end says of queries and parts of them that the algebra cannot express."""

from tempura.errors import Reason


class NotLiftableError(Exception):
    """Inside the front end: the algebra has no expression for this.

    Becomes a recompute of a part of the query with this reason.
    """

    def __init__(self, code: str, detail: str) -> None:
        self.reason = Reason(code, detail)
        super().__init__(str(self.reason))
