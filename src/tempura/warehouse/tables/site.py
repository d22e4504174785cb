"""Where a warehouse is, and what it works with."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tempura.rules.methods import TEMPURA
from tempura.rules.modules import extended
from tempura.rules.registry import Registry
from tempura.warehouse.commits.fates import Fates
from tempura.warehouse.commits.files import Files
from tempura.warehouse.declared.declare import DeclarationFile
from tempura.warehouse.engine import Engine


def _now() -> datetime:
    return datetime.now(UTC)


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
