"""Where a warehouse is, and what it works with."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tempura.errors import TempuraError
from tempura.rules.methods import TEMPURA
from tempura.rules.modules import extended
from tempura.rules.registry import Registry
from tempura.warehouse.commits.fates import Fates
from tempura.warehouse.commits.files import Files
from tempura.warehouse.declared.declare import DeclarationFile
from tempura.warehouse.engine import Engine


def _now() -> datetime:
    return datetime.now(UTC)


def checked(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """A clock that a program gives. Raises TempuraError BAD_CLOCK when it is none, here or when it is asked for the time."""
    remedy = "Give a function that returns the time with its zone, such as lambda: datetime.now(UTC)."
    if not callable(clock):
        raise TempuraError("BAD_CLOCK", f"The clock is {clock!r}, which cannot be called.", remedy)

    def now() -> datetime:
        time: object = clock()
        if not isinstance(time, datetime):
            raise TempuraError("BAD_CLOCK", f"The clock says {time!r}.", remedy)
        return time

    return now


@dataclass(frozen=True, slots=True)
class Site:
    """Where a warehouse is and what it works with. ``clock`` gives the time with its zone."""

    root: Path
    files: Files
    engine: Engine
    clock: Callable[[], datetime] = _now
    own_rules: Registry = TEMPURA

    @property
    def rules(self) -> Registry:
        """The rules to plan by: those given when the warehouse was opened, and those of the modules that it declares. Raises TempuraError
        BAD_RULES_MODULE, and as ``rules.registry`` does."""
        return extended(self.own_rules, self.declarations.read().rules)

    @property
    def declarations(self) -> DeclarationFile:
        """What the warehouse declares."""
        return DeclarationFile(self.root / "tempura.toml", self.root / ".tempura" / "declare.lock", self.files)

    @property
    def attempts(self) -> Path:
        """The locks and temporary files of work in progress."""
        return self.root / ".tempura" / "attempts"

    @property
    def fates(self) -> Fates:
        """What became of transactions."""
        return Fates(self.root / ".tempura" / "transactions", self.attempts, self.files)
