"""Removing and renaming tables and queries: the declaration and the folder, both or neither.

What is to be done is noted first, in one commit; then it is done, each part so that it can be done again; then the note goes. Whoever
opens the warehouse and finds a note that nobody works on does what it says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tomlkit

from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import attempt, commit
from tempura.warehouse.commits.manifests import read_manifest
from tempura.warehouse.declared.declare import DeclarationFile
from tempura.warehouse.tables.site import Site


@dataclass(frozen=True, slots=True)
class Move:
    """A table or query, by its ``section`` of ``tempura.toml``, that gets a ``new`` name, or goes when that is None."""

    section: str
    old: str
    new: str | None = None

    def carry_out(self, site: Site) -> None:
        """Do it. What a killed process has not done is done when the warehouse is opened next."""
        with site.declarations.editing():
            _complete(site)
            with attempt(site.files, site.attempts) as work:
                commit(site.files, work, site.root / _NOTE, asdict(self))
            self._do(site)

    def _do(self, site: Site) -> None:
        site.declarations.change(self._declared)
        self._moved(site)
        site.files.remove(site.root / _NOTE)

    def _declared(self, document: tomlkit.TOMLDocument) -> None:
        entries: Any = document.get(self.section, {})
        if self.old in entries:
            entry = entries[self.old]
            del entries[self.old]
            if self.new is not None:
                entries[self.new] = entry
        if self.section == "queries" and self.new is not None:
            for table in document.get("tables", {}).values():
                if table.get("query") == self.old:
                    table["query"] = self.new

    def _moved(self, site: Site) -> None:
        files, old = site.files, site.root / self.section / self.old
        if not old.is_dir():
            return
        if self.new is None:
            files.remove_tree(old)
        else:
            # A lock is of the name that it was taken under.
            files.remove(old / "run.lock")
            files.replace(old, old.with_name(self.new))
        files.sync_folder(old.parent)


_NOTE = ".tempura/move.json"


def complete(site: Site) -> None:
    """Do what a process that was killed had begun."""
    if (site.root / _NOTE).exists():
        with site.declarations.editing():
            _complete(site)


def _complete(site: Site) -> None:
    """The same, by who holds the lock."""
    if (site.root / _NOTE).exists():
        noted = read_manifest(site.root / _NOTE)
        Move(noted["section"], noted["old"], noted["new"])._do(site)


def undeclared(files: Files, declarations: DeclarationFile) -> Iterator[str]:
    """The folders of tables and queries that ``tempura.toml`` does not declare, relative to the warehouse: somebody has edited it."""
    declared = declarations.read()
    sections: Mapping[str, Mapping[str, object]] = {"tables": declared.tables, "queries": declared.queries}
    root = declarations.path.parent
    for section, names in sections.items():
        yield from (f"{section}/{name}" for name in files.names(root / section) if name not in names)
