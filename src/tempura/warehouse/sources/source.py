"""What lies in the folder of a table: files to be read, tables of lakes that must not be read as plain files, links."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISBLK, S_ISCHR, S_ISFIFO, S_ISREG, S_ISSOCK

from tempura.errors import TempuraError

_IRREGULAR: Mapping[str, Callable[[int], bool]] = {
    "a named pipe": S_ISFIFO,
    "a socket": S_ISSOCK,
    "a device": lambda mode: S_ISCHR(mode) or S_ISBLK(mode),
}

_NAMES = {"delta": "a Delta table", "iceberg": "an Iceberg table", "hudi": "a Hudi table"}


@dataclass(slots=True)
class SourceFiles:
    """The files below the folder of a table that count. ``follow``: also those that symbolic links out of the folder lead to. Each file
    counts once: a link to what is read under its own name adds nothing."""

    table: str
    folder: Path
    format: str
    follow: bool = False
    _seen: set[Path] = field(default_factory=set)

    def find(self) -> tuple[Path, ...]:
        """The files. Raises TempuraError LAKE_AS_FILES or UNSUPPORTED_FORMAT when some are those of a lake's table, LINK_LEADS_OUT,
        NOT_A_FILE, UNSUPPORTED_PATH for a file that Spark cannot open under its name."""
        if not self.folder.is_dir():
            return ()
        self._check_above(self.folder)
        return tuple(self._below(self.folder))

    def _below(self, folder: Path) -> Iterator[Path]:
        self._check_plain(folder)
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        inner = [entry for entry in found if counts(entry.name, entry.is_dir())]
        kept = [entry for entry in inner if not entry.is_symlink() or self._leads_on(folder / entry.name)]
        for entry in (entry for entry in kept if not entry.is_dir()):
            # What kind of entry it is a folder says itself, without a look at each file.
            if not entry.is_file():
                check_regular(folder / entry.name)
            if ":" in entry.name:
                what = f"Table {self.table}: Spark cannot open {folder / entry.name}, for there is a colon in its name."
                raise TempuraError("UNSUPPORTED_PATH", what, "Rename the file; folders may have colons.")
        yield from (folder / e.name for e in kept if not e.is_dir() and self._is_first(folder / e.name))
        for path in (folder / e.name for e in kept if e.is_dir() and self._is_first(folder / e.name)):
            yield from self._below(path)

    def _is_first(self, path: Path) -> bool:
        """Whether a place is reached for the first time, as it is unless links are followed."""
        if not self.follow:
            return True
        real = path.resolve()
        known = real in self._seen
        self._seen.add(real)
        return not known

    # --- links ------------------------------------------------------------------------------------------------------

    def _leads_on(self, link: Path) -> bool:
        """Whether a link is to be followed. Raises TempuraError LINK_LEADS_OUT."""
        target = link.resolve()
        what = f"Table {self.table}: {link} is a symbolic link that leads to {target}"
        if not target.exists():
            raise TempuraError(
                "LINK_LEADS_OUT", f"{what}, where there is nothing.", "Remove it, or restore what it leads to."
            )
        if self._is_read(target):
            return False
        if not self.follow:
            remedy = "Put the files themselves there, or, if nobody else can make links, allow to follow them"
            program = f"{remedy}: follow_links=True, or follow_links = true in tempura.toml."
            command = f"{remedy}: --follow-links, or follow_links = true in tempura.toml."
            raise TempuraError("LINK_LEADS_OUT", f"{what}, out of what is read of the folder.", program, command)
        self._check_above(target)
        return True

    def _is_read(self, target: Path) -> bool:
        """Whether a place is reached without links, or holds the place from which the reading began."""
        if self.folder.is_relative_to(target):
            return True
        if not target.is_relative_to(self.folder):
            return False
        *folders, last = target.relative_to(self.folder).parts
        return all(counts(name, True) for name in folders) and counts(last, target.is_dir())

    # --- lakes ------------------------------------------------------------------------------------------------------

    def _check_above(self, place: Path) -> None:
        for folder in place.parents:
            self._check_plain(folder)

    def _check_plain(self, folder: Path) -> None:
        """Raises TempuraError LAKE_AS_FILES or UNSUPPORTED_FORMAT when a folder is the one of a lake's table."""
        lake = lake_at(folder)
        if lake is None:
            return
        where = "" if folder == self.folder else f", whose files would be read with those in {self.folder},"
        what = f"Table {self.table}: {folder}{where} is {_NAMES[lake]}. Read as plain {self.format}, it would have rows that are not in it."
        if lake == "hudi":
            remedy = "Hudi's tables cannot be followed. Let it write its rows to a folder of their own as Parquet, or push them."
            raise TempuraError("UNSUPPORTED_FORMAT", what, remedy)
        program = f'Add it as a table of its own, with path="{folder}" and format="{lake}".'
        command = f"Add it as a table of its own, with --path {folder} --format {lake}."
        raise TempuraError("LAKE_AS_FILES", what, program, command)


def check_regular(path: Path) -> None:
    """Raises TempuraError NOT_A_FILE for what is no file with bytes of its own: who opens it may wait without end."""
    mode = path.stat().st_mode
    if not S_ISREG(mode):
        kind = next((kind for kind, is_one in _IRREGULAR.items() if is_one(mode)), "no file")
        what = f"{path} is {kind}: its bytes are not there to be read, and to be read again."
        raise TempuraError(
            "NOT_A_FILE", what, "Take it out of the folder, or put a file with what comes from it there."
        )


def counts(name: str, is_folder: bool) -> bool:
    """Whether what has a name counts. A folder such as ``_year=2024`` spells a partition column."""
    return not name.startswith((".", "_")) or (is_folder and "=" in name)


def lake_at(folder: Path) -> str | None:
    """The kind of the lake's table whose folder this is: delta, iceberg or hudi."""
    if (folder / "_delta_log").is_dir():
        return "delta"
    if (folder / ".hoodie").is_dir():
        return "hudi"
    return "iceberg" if any((folder / "metadata").glob("*.metadata.json*")) else None
