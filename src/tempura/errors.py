"""Errors and reasons with a code: what went wrong, where, and what to do about it.

Bottom layer: imports nothing of Tempura, so that every other module can raise them.
"""

from dataclasses import dataclass


class TempuraError(Exception):
    """An error that a user can act on.

    ``code`` is stable and searchable (``UNKNOWN_TABLE``), ``what`` says what is wrong and where, ``remedy`` what to do, and ``command``
    what to do on the command line, where that is something else.
    """

    def __init__(self, code: str, what: str, remedy: str = "", command: str = "") -> None:
        self.code = code
        self.what = what
        self.remedy = remedy
        self.command = command or remedy
        super().__init__(f"[{code}] {what}" + (f" {remedy}" if remedy else ""))


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is not done incrementally: a stable code and one sentence about this case. Never an error."""

    code: str
    detail: str

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class TempuraWarning(UserWarning):
    """What a user should know, and what stops nothing."""
