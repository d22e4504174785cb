"""An archive of the classes that Spark loads, with which a session starts in half the time.

To start Spark and to run a step, Java loads some 17,000 classes out of 250 jars, and checks each. It can map them from a file instead
(class data sharing, JEP 310); since Java 25 linked already, and with the counts by which it chose what to compile (JEP 483, 514, 515), so
it compiles that at once. The first session that is asked to notes what it loads. When its process has ended, another one of
the lowest priority makes the archive, in the user's cache; sessions after it map what is there. Java itself looks whether an archive
is of the very jars and the very Java, and does without it otherwise; so an archive may be lost, or be wrong, without harm.
"""

import atexit
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from tempura.cache import cache_folder

_CLASS_PATH = "jars by name, each once"
"""How the class path is put together (``start.java_for_spark``): an archive is for one, and is of no use for another."""

_DAY = 86_400
_UNUSED = 30 * _DAY
"""Seconds after which an archive that no session has used goes."""

_LONGEST_END, _LONGEST_DUMP = 60, 900
"""Seconds: of a session's JVM after its process, and of making an archive."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Options of Java for an archive in the file ``{archive}`` of what one session noted in ``{noted}``."""

    note: tuple[str, ...]
    make: tuple[str, ...]
    use: tuple[str, ...]


_CLASSES = Kind(
    note=("-XX:DumpLoadedClassList={noted}", "-Xlog:cds*=off"),
    make=("-Xshare:dump", "-XX:SharedClassListFile={noted}", "-XX:SharedArchiveFile={archive}"),
    use=("-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"),
)
_WITH_PROFILES = Kind(
    # That it has noted Java would say on standard output, whatever its log is asked for.
    note=(
        *("-XX:AOTMode=record", "-XX:AOTConfiguration={noted}", "-Xlog:aot*=off", "-Xlog:cds*=off"),
        *("-XX:+UnlockDiagnosticVMOptions", "-XX:-DisplayVMOutput"),
    ),
    make=("-XX:AOTMode=create", "-XX:AOTConfiguration={noted}", "-XX:AOTCache={archive}"),
    use=("-XX:AOTCache={archive}", "-Xlog:aot*=off", "-Xlog:cds*=off"),
)
_KINDS = {".jsa": _CLASSES, ".aot": _WITH_PROFILES}
"""By the suffix of the file."""


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive of classes: ``path`` is where it is, or will be, ``java`` the program that it is for."""

    path: Path
    java: Path

    @staticmethod
    def of(java: Path, version: int, says: str, environment: Mapping[str, str] | None = None) -> "Archive | None":
        """The archive for a Java of a ``version``, which ``says`` that of itself, and the Spark that is installed. None where there can be
        none: another virtual machine than HotSpot, no folder of one's own to keep it in, or ``TEMPURA_CLASS_ARCHIVE=off``."""
        known = os.environ if environment is None else environment
        if known.get("TEMPURA_CLASS_ARCHIVE") == "off" or "Server VM" not in says:
            return None
        folder, jars = own_folder(known), Path(_find_spark_home(), "jars")
        if folder is None:
            return None
        try:
            of = (str(java.resolve()), says, str(jars), str(jars.stat().st_mtime_ns), _CLASS_PATH)
        except OSError:
            return None
        name, suffix = hashlib.sha256(chr(0).join(of).encode()).hexdigest()[:16], ".aot" if version >= 25 else ".jsa"
        return Archive(folder / f"classes-{name}{suffix}", java)

    @property
    def kind(self) -> Kind:
        """How it is made and used."""
        return _KINDS[self.path.suffix]

    @property
    def is_there(self) -> bool:
        """Whether it has been made."""
        return self.path.exists()

    @property
    def is_wanted(self) -> bool:
        """Whether a session should note its classes: there is none, and nobody has tried to make it since yesterday."""
        try:
            return not self.is_there and time.time() - self._tried.stat().st_mtime > _DAY
        except FileNotFoundError:
            return True

    @property
    def classes(self) -> Path:
        """Where this process's session notes its classes."""
        return self.path.with_suffix(f".{os.getpid()}.list")

    @property
    def _tried(self) -> Path:
        return self.path.with_suffix(".tried")

    def options(self, noting: bool) -> tuple[str, ...]:
        """Options for Java: to use the archive, or, if there is none, to note the classes for it when ``noting``. Quiet, whatever it finds
        there."""
        if self.is_there:
            with suppress(OSError):
                os.utime(self.path)
            return _for(self.kind.use, self.classes, self.path)
        return _for(self.kind.note, self.classes, self.path) if noting else ()

    def make_after(self, process: int, class_path: str, modules: Sequence[str]) -> None:
        """Make it when this Python and then a process, which is Java, have ended. ``modules``: the options about modules that it had."""
        arguments = (str(process), str(self.java), str(self.classes), str(self.path), class_path, *modules)
        atexit.register(self._leave, arguments)

    def _leave(self, arguments: tuple[str, ...]) -> None:
        with suppress(OSError):
            self._tried.touch()
            nowhere = subprocess.DEVNULL
            subprocess.Popen(
                [sys.executable, "-m", __name__, *arguments],
                stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True, cwd=self.path.parent,
            )  # fmt: skip


def own_folder(environment: Mapping[str, str]) -> Path | None:
    """The cache folder, if it is the user's own and nobody else may write to it: code is run from what is there."""
    try:
        folder = cache_folder(environment)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except (OSError, RuntimeError):
        return None
    own = about.st_uid == os.getuid() and not about.st_mode & 0o022
    return folder.absolute() if own and os.access(folder, os.W_OK) else None


def make(process: int, archive: Archive, noted: Path, class_path: str, modules: Sequence[str] = ()) -> bool:
    """Make an archive of what was noted when a process has ended; whether that was possible. Archives that are not used go.

    ``modules``: options of the sessions' Java that say which modules are open to whom; an archive is for these. Spark gives some that an
    older Java does not know."""
    _wait_for(process)
    os.nice(19)
    part = archive.path.with_suffix(f".{os.getpid()}.part")
    nowhere = subprocess.DEVNULL
    with _removed(part, noted):
        done = subprocess.run(
            [archive.java, "-XX:+IgnoreUnrecognizedVMOptions", *modules, *_for(archive.kind.make, noted, part), "-cp", class_path],
            stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=_LONGEST_DUMP, check=False,
        )  # fmt: skip
        if done.returncode or not part.exists():
            return False
        part.replace(archive.path)
    for other in archive.path.parent.glob("classes-*"):
        if time.time() - other.stat().st_mtime > _UNUSED:
            other.unlink(missing_ok=True)
    return True


def _wait_for(process: int) -> None:
    end = time.monotonic() + _LONGEST_END
    with suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.kill(process, 0)
            time.sleep(0.2)


@contextmanager
def _removed(*paths: Path) -> Iterator[None]:
    try:
        yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _for(options: Iterable[str], noted: Path, archive: Path) -> tuple[str, ...]:
    return tuple(option.format(noted=noted, archive=archive) for option in options)


if __name__ == "__main__":
    _process, _java, _noted, _path, _class_path, *_modules = sys.argv[1:]
    make(int(_process), Archive(Path(_path), Path(_java)), Path(_noted), _class_path, _modules)
