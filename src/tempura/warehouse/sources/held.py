"""Second names, hard links, of files that are read where they are: what the source removes or replaces can still be read.

A file system may offer none (another device, a file of another owner); then rows that the source removes are not known any more.
"""

import errno
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tempura.warehouse.batches.arrivals import DataFile
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.seals import has_checksum
from tempura.warehouse.sources.folder import data_files

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
"""How a file system says that it has no hard links, or not of this file."""


@dataclass(frozen=True, slots=True)
class Held:
    """The second names of a table's files, in folders of the warehouse that spell the same partition columns."""

    folder: Path
    files: Files

    def hold(self, path: Path, file: DataFile) -> None:
        """Give a file its second name, if the file system can."""
        target = self.name(file)
        self.files.make_folder(target.parent)
        try:
            self.files.link(path.resolve(), target)
        except FileExistsError:
            return
        except OSError as error:
            # A means to go on later, not a part of the arrival.
            if error.errno not in _NO_LINKS:
                raise

    def find(self, file: DataFile) -> Path | None:
        """The second name of a file, if what it names is what arrived."""
        path = self.name(file)
        if not file.identity or not path.is_file():
            return None
        stat = path.stat()
        if stat.st_size != file.size:
            return None
        # Whoever writes into the file, or touches it, does so under both of its names.
        return path if stat.st_mtime_ns == file.mtime or has_checksum(path, file.identity) else None

    def without(self, needed: Iterable[DataFile]) -> Iterator[Path]:
        """The second names of all other files."""
        kept = {self.name(file) for file in needed}
        return (path for path in data_files(self.folder) if path not in kept)

    def name(self, file: DataFile) -> Path:
        """The second name of a file."""
        return self.folder / Path(file.path).parent / f"{file.identity}.{Path(file.path).name}"
