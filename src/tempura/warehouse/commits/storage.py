"""What a commit needs of a file system: to make a file under a name that nobody else has taken, whole and lasting, or not at all.

Every kind of storage has its own primitive for that. Where the answer to a request can be lost, who asked looks at what is there:
manifests differ in the attempt that wrote them, so whoever finds its own has won.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files

T = TypeVar("T")

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""What systems answer where a file cannot have a second name."""

RETRIES = 5
"""How often a request is repeated whose answer was lost."""


class Storage(Protocol):
    """A file system on which manifests can be committed."""

    def create(self, path: str, data: bytes) -> None:
        """Make a file with this content, whole and lasting. Raises FileExistsError when the name is taken by another content, and
        TempuraError STORAGE_SILENT when no answer comes."""

    def read(self, path: str) -> bytes:
        """The content of a file. Raises FileNotFoundError."""


class LocalStorage:
    """A local file system: a temporary file, flushed, gets its final name by ``link``, which fails when that is taken."""

    def __init__(self, files: Files, temporary: Path) -> None:
        self._files = files
        self._temporary = temporary

    def create(self, path: str, data: bytes) -> None:
        target = Path(path)
        self._files.make_folder(target.parent)
        self._files.write(self._temporary, data)
        try:
            self._files.link(self._temporary, target)
        except FileExistsError:
            self._files.remove(self._temporary)
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            what = f"{target.parent} cannot be committed to: {error}."
            raise TempuraError("NO_ATOMIC_COMMIT", what, "Use a local file system that has hard links.") from error
        self._files.sync_folder(target.parent)
        self._files.remove(self._temporary)

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()


class ObjectClient(Protocol):
    """What is asked of an object store such as S3."""

    def put_if_none_match(self, key: str, data: bytes) -> None:
        """PUT with ``If-None-Match: *``. Raises FileExistsError for 412 Precondition Failed and 409 Conflict, TimeoutError when no
        answer came."""

    def get(self, key: str) -> bytes:
        """The object. Raises FileNotFoundError, TimeoutError."""


class ObjectStorage:
    """An object store with conditional writes: an object appears whole, and only if there is none."""

    def __init__(self, client: ObjectClient) -> None:
        self._client = client

    def create(self, path: str, data: bytes) -> None:
        for _ in range(RETRIES):
            try:
                return asked(path, lambda: self._client.put_if_none_match(path, data))
            except FileExistsError:
                # Perhaps it was this request, whose answer was lost. A conflict with a request in progress leaves nothing to read.
                found = self._found(path)
                if found == data:
                    return None
                if found is not None:
                    raise
        raise silent(path)

    def read(self, path: str) -> bytes:
        return asked(path, lambda: self._client.get(path))

    def _found(self, path: str) -> bytes | None:
        try:
            return self.read(path)
        except FileNotFoundError:
            return None


class HadoopClient(Protocol):
    """What is asked of HDFS."""

    def create_new(self, path: str, data: bytes) -> None:
        """Create without overwrite, write, ``hsync`` and close. Raises FileExistsError, TimeoutError."""

    def rename(self, source: str, target: str) -> None:
        """Rename without overwrite. Raises FileExistsError, FileNotFoundError (no source), TimeoutError."""

    def read(self, path: str) -> bytes:
        """The content. Raises FileNotFoundError, TimeoutError."""

    def remove(self, path: str) -> None:
        """Remove a file; no error when it is gone. Raises TimeoutError."""


class HadoopStorage:
    """HDFS: a temporary file of its own is created, flushed, and renamed without overwrite. To create the final name itself would
    show half a manifest to readers, and leave it to them for ever if the writer dies."""

    def __init__(self, client: HadoopClient, temporary: str) -> None:
        self._client = client
        self._temporary = temporary

    def create(self, path: str, data: bytes) -> None:
        asked(self._temporary, lambda: self._prepare(data))
        try:
            asked(path, lambda: self._client.rename(self._temporary, path))
        except (FileExistsError, FileNotFoundError):
            # Perhaps it was this request, whose answer was lost: then the temporary file is gone, and this is its content.
            if self.read(path) != data:
                asked(path, lambda: self._client.remove(self._temporary))
                raise FileExistsError(path) from None

    def read(self, path: str) -> bytes:
        return asked(path, lambda: self._client.read(path))

    def _prepare(self, data: bytes) -> None:
        # What an earlier request with a lost answer has left.
        self._client.remove(self._temporary)
        self._client.create_new(self._temporary, data)


def asked(path: str, request: Callable[[], T]) -> T:
    """The answer to a request that may be repeated. Raises TempuraError STORAGE_SILENT when none comes."""
    for _ in range(RETRIES):
        try:
            return request()
        except TimeoutError:
            continue
    raise silent(path)


def silent(path: str) -> TempuraError:
    """The error of a storage that does not answer."""
    what = f"The storage has not answered whether {path} was written."
    return TempuraError("STORAGE_SILENT", what, "Call again: what was committed is whole, and is found.")


def refuse_other_schemes(path: str) -> None:
    """Refuse what has no primitive for a commit here. Raises TempuraError NO_ATOMIC_COMMIT."""
    scheme, separator, _ = path.partition("://")
    if separator and scheme != "file":
        why = _REFUSED.get(scheme, "Tempura has no way to make a file on it only if there is none.")
        raise TempuraError("NO_ATOMIC_COMMIT", f"{path}: {why}", "Use a folder of a local file system.")


_REFUSED = dict.fromkeys(
    ("s3", "s3a", "s3n"),
    "commits need a conditional PUT (If-None-Match), which pyarrow's S3 file system does not offer.",
) | {"hdfs": "commits need a rename without overwrite, which pyarrow's HDFS file system does not promise."}
