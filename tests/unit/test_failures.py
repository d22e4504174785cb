"""Failures from outside: each has a code, a sentence and a remedy, nothing committed is lost, and the next call succeeds."""

import errno
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, NoReturn, cast

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError, PythonException

from tempura.errors import TempuraError
from tempura.execute.failure import coded, errors_by_code, is_of_a_side
from tempura.execute.interrupt import cancelled_when_interrupted
from tempura.frontend.catalyst import first_line
from tempura.plan.progressive import Course, ProgressivePlan
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.warehouse.commits import seals
from tempura.warehouse.commits.files import Files
from tempura.warehouse.times import follow
from tests.unit.planned import key_of
from tests.unit.test_commit import at_operation, check, counting, prepare, scenario, warehouse


@dataclass
class Java:
    """As much of a Java exception as is asked of one. Without a ``condition`` it is none of Spark's own, and has no such method."""

    kind: str
    message: str = ""
    condition: str | None = None
    cause: "Java | None" = None
    _target_id: str = "o1"
    _gateway_client: Any = None

    def getClass(self) -> "Java":  # noqa: N802
        return self

    def getName(self) -> str:  # noqa: N802
        return self.kind

    def getMessage(self) -> str:  # noqa: N802
        return self.message

    def getCondition(self) -> str:  # noqa: N802
        if self.condition is None:
            raise Py4JError("Method getCondition([]) does not exist")
        return self.condition

    def getCause(self) -> "Java | None":  # noqa: N802
        return self.cause


def of_java(*chain: Java) -> Py4JJavaError:
    for outer, inner in pairwise(chain):
        outer.cause = inner
    return Py4JJavaError("An error occurred while calling o1.parquet.", chain[0])


LOST = "Job aborted due to stage failure: Task 0 failed\n\tat org.apache.spark.Foo\nDriver stacktrace:"
UNREAD = "FAILED_READ_FILE.FILE_NOT_EXIST"
DIVISION = (
    "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL (line 2, position 11) ==\nSELECT 1/v\n       ^^^\n"
)
TRACEBACK = (
    "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
    '  File "worker.py", line 1, in main\n    process()\nValueError: bad row\n SQLSTATE: 38000'
)

OUTSIDE = [
    (OSError(errno.ENOSPC, "No space left on device", "/w/x"), "DISK_FULL", "/w/x: No space left on device"),
    (OSError(errno.EDQUOT, "Disk quota exceeded"), "DISK_FULL", "Disk quota exceeded"),
    (OSError(errno.EROFS, "Read-only file system", "/w"), "NO_ACCESS", "/w: Read-only file system"),
    (PermissionError(errno.EACCES, "Permission denied", "/w"), "NO_ACCESS", "/w: Permission denied"),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "/f"), "FILE_GONE", "/f: No such file"),
    (OSError(errno.EIO, "Input/output error", "/f"), "IO_FAILED", "/f: Input/output error"),
    (MemoryError(), "OUT_OF_MEMORY", "Python"),
    (KeyboardInterrupt(), "INTERRUPTED", "cancelled"),
    (Py4JNetworkError("Answer from Java side is empty"), "NO_SESSION", "Answer from Java side is empty"),
    (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "NO_SESSION", "Connection refused"),
    (PySparkRuntimeError("SESSION_OR_CONTEXT_NOT_EXISTS: SparkContext or SparkSession"), "NO_SESSION", "SparkContext"),
    (of_java(Java("org.SparkException", LOST, ""), Java("java.io.IOException", "No space left on device")), "DISK_FULL", "No space"),
    (of_java(Java("java.nio.file.AccessDeniedException", "/w/part")), "NO_ACCESS", "/w/part"),
    (of_java(Java("java.lang.OutOfMemoryError", "Java heap space")), "OUT_OF_MEMORY", "Java heap space"),
    (of_java(Java("org.SparkException", "Task failed: GC overhead limit exceeded", "")), "OUT_OF_MEMORY", "GC overhead"),
    (
        of_java(Java("org.SparkException", f"{LOST} ExecutorLostFailure (executor 1 exited: 137)", "")),
        "EXECUTOR_LOST", "executor 1 exited: 137",
    ),
    (
        of_java(Java("org.SparkException", LOST, ""), Java("org.SparkException", "Python worker exited unexpectedly (crashed)", "")),
        "EXECUTOR_LOST", "Python worker exited",
    ),
    (
        of_java(
            Java("org.SparkException", f"[{UNREAD}] file:/l/a.parquet. SQLSTATE: KD001", UNREAD)
        ),
        "FILE_GONE", "file:/l/a.parquet",
    ),
    (of_java(Java("java.lang.NoSuchMethodError", "scala.Foo()")), "SPARK_FAILED", "java.lang.NoSuchMethodError: scala.Foo()"),
    (Py4JError("Method x does not exist"), "SPARK_FAILED", "Method x does not exist"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "said"), OUTSIDE, ids=lambda v: v if isinstance(v, str) else "")
def test_failures_from_outside_have_a_code_a_sentence_and_a_remedy(error: Exception, code: str, said: str) -> None:
    found = coded(error)
    assert found is not None
    assert (found.code, said in found.what) == (code, True), found.what
    assert "\n" not in found.what
    assert found.remedy
    if not isinstance(error, KeyboardInterrupt):
        with pytest.raises(TempuraError) as raised, errors_by_code():
            raise error
        assert raised.value.code == code
        assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    ("error", "code", "what"),
    [
        (Java("A", DIVISION, "DIVIDE_BY_ZERO"), "DIVIDE_BY_ZERO", "Division by zero. (line 2, position 11 of the query)"),
        (
            Java("A", "[CAST_INVALID_INPUT] The value 'No space left on device' is malformed.", "CAST_INVALID_INPUT"),
            "CAST_INVALID_INPUT", "The value 'No space left on device' is malformed.",
        ),
        (
            Java("A", "[ARITHMETIC_OVERFLOW] overflow.", "ARITHMETIC_OVERFLOW"),
            "ARITHMETIC_OVERFLOW", "overflow.",
        ),
        (Java("A", TRACEBACK, "PYTHON_EXCEPTION"), "PYTHON_EXCEPTION", "A function in Python failed: ValueError: bad row"),
    ],
)  # fmt: skip
def test_what_the_query_provokes_keeps_the_code_that_spark_gives_it(error: Java, code: str, what: str) -> None:
    wrapped = of_java(Java("java.lang.RuntimeException", "wrapped"), Java("S", LOST, "INTERNAL_ERROR"), error)
    found = coded(wrapped)
    assert found is not None
    assert (found.code, found.what) == (code, what)


def test_a_defect_stays_what_it_is() -> None:
    assert coded(ZeroDivisionError()) is None
    with pytest.raises(ZeroDivisionError), errors_by_code():
        raise ZeroDivisionError


def refusing(number: int) -> Callable[[], NoReturn]:
    def fail() -> NoReturn:
        raise OSError(number, "refused by the system")

    return fail


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


def from_operation(n: int, act: Callable[[], NoReturn]) -> Files:
    """Files that fail at the n-th operation and ever after, as on a mount that became read-only."""
    seen = [0]

    def before(operation: str, path: Path) -> None:
        seen[0] += 1
        if seen[0] >= n:
            act()

    return Files(before)


PLANS: dict[str, ProgressivePlan] = {}
"""Plans by problem: the same few come back at each operation."""


def planned(
    problem: Problem,
    methods: Sequence[str],
    margin: float,
    doubt: float,
    course: Course | None = None,
    usual: Course | None = None,
    uses: int = 1,
) -> ProgressivePlan:
    key = f"{key_of(problem, methods)} {doubt} {uses}"
    if key not in PLANS:
        PLANS[key] = make_plan(problem, methods, doubt=doubt, uses=uses)
    return PLANS[key]


@pytest.fixture(autouse=True)
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "make_plan", planned)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """The first and the last operation of each kind."""
    folder = tmp_path_factory.mktemp("calm")
    prepare(folder)
    files, seen = counting()
    scenario(folder, files)
    kinds = [operation.split()[0] for operation in seen]
    found = {n for kind in set(kinds) for n in (kinds.index(kind) + 1, len(kinds) - kinds[::-1].index(kind))}
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_refuses_is_told_and_nothing_is_lost(tmp_path: Path, kinds: list[int], number: int) -> None:
    expected = "DISK_FULL" if number == errno.ENOSPC else "NO_ACCESS"
    assert len(kinds) > 12
    for n in kinds:
        folder = tmp_path / str(n)
        prepare(folder)
        with pytest.raises(TempuraError) as error:
            scenario(folder, from_operation(n, refusing(number)))
        assert error.value.code == expected
        scenario(folder, Files())
        check(folder)


@pytest.mark.slow
def test_an_interrupt_at_each_kind_of_operation_leaves_the_warehouse_sound(tmp_path: Path, kinds: list[int]) -> None:
    for n in kinds:
        folder = tmp_path / str(n)
        prepare(folder)
        with pytest.raises(KeyboardInterrupt):
            scenario(folder, at_operation(n, interrupt))
        locks = list((folder / "wh/.tempura/attempts").glob("*"))
        assert not locks, "what an interrupt leaves is no work in progress"
        scenario(folder, Files())
        check(folder)


def test_a_missing_file_in_verify_has_a_code(tmp_path: Path) -> None:
    prepare(tmp_path)
    scenario(tmp_path, Files())
    (tmp_path / "lake" / "a.parquet").unlink()
    assert warehouse(tmp_path, Files()).query("q").verify(), "its rows are known under its second name"
    for held in tmp_path.glob("**/held/*.parquet"):
        held.unlink()
    with pytest.raises(TempuraError) as error:
        warehouse(tmp_path, Files()).query("q").verify()
    assert error.value.code == "ROWS_UNKNOWN"
    assert "a.parquet" in error.value.what


def test_verify_reads_what_was_read_a_moment_ago(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs do not; but who asks whether a result is sound wants its files to be read, be they untouched or not."""
    prepare(tmp_path)
    scenario(tmp_path, Files())
    query = warehouse(tmp_path, Files()).query("q")
    monkeypatch.setattr(seals, "_about", lambda path: (0, 0))  # what a disk loses does not show in a file's times
    assert query.verify()
    part = query.stored(query.outputs()[-1]).parts[0]
    result = Path(part.path, part.seals[0].name)
    data = result.read_bytes()
    result.write_bytes(data[::-1])
    assert not query.verify()
    result.write_bytes(data)
    assert query.verify()


@dataclass
class Process:
    """Spark's process, which has ended with a code, or goes on."""

    code: int | None

    def wait(self, timeout: float) -> int:
        if self.code is None:
            raise TimeoutExpired("java", timeout)
        return self.code


@dataclass
class Gateway:
    proc: Process


@pytest.mark.parametrize(
    ("ended", "code", "said"),
    [
        (52, "OUT_OF_MEMORY", "Spark ran out of memory, and its process ended"),
        (-9, "NO_SESSION", "killed by signal 9"),
        (1, "NO_SESSION", "Connection refused"),
        (None, "NO_SESSION", "Connection refused"),
    ],
)
@pytest.mark.parametrize("kind", [ConnectionRefusedError, Py4JNetworkError])
def test_how_sparks_process_ended_is_told(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception], ended: int | None, code: str, said: str
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", Gateway(Process(ended)))
    found = coded(kind("Connection refused"))
    assert found is not None
    assert found.code == code
    assert said in found.what


class Context:
    """Spark's context, asked whether it is stopped: it says so, or cannot be reached."""

    def __init__(self, says: bool | Exception) -> None:
        self._says = says
        self._jsc = self

    def sc(self) -> "Context":
        return self

    def isStopped(self) -> bool:  # noqa: N802
        if isinstance(self._says, Exception):
            raise self._says
        return self._says


@pytest.mark.parametrize(
    ("says", "ended", "code"),
    [
        (True, 52, "OUT_OF_MEMORY"),
        (Py4JNetworkError("no answer"), 52, "OUT_OF_MEMORY"),
        (True, None, "NO_SESSION"),
        (False, 52, "SPARK_FAILED"),
        (None, 52, "SPARK_FAILED"),
    ],
)
def test_what_spark_stumbles_over_while_it_ends_is_not_the_cause(
    monkeypatch: pytest.MonkeyPatch, says: bool | Exception | None, ended: int | None, code: str
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", Gateway(Process(ended)))
    monkeypatch.setattr(SparkContext, "_active_spark_context", None if says is None else Context(says))
    outer = Java("org.SparkException", "[INTERNAL_ERROR] Executed command failed.", "INTERNAL_ERROR")
    found = coded(of_java(outer, Java("java.lang.NullPointerException", "SparkEnv.get() is null")))
    assert found is not None
    assert found.code == code


@pytest.mark.parametrize(
    "text",
    [
        "An error occurred while calling o123.sql.\n: java.lang.IllegalStateException: no plan\n\tat org.apache",
        "An error occurred while calling o7.sql. Trace:\njava.lang.IllegalStateException: no plan",
        "An error occurred while calling z:org.apache.Foo.bar.\n: java.lang.IllegalStateException: no plan",
    ],
)
def test_reasons_do_not_name_objects_of_the_gateway_by_number(text: str) -> None:
    assert first_line(Exception(text)) == "java.lang.IllegalStateException: no plan"
    found = coded(Py4JError("An error occurred while calling o123.sql. Trace:"))
    assert found is not None
    assert "o123" not in found.what


def test_an_alias_of_the_user_is_no_object_of_the_gateway() -> None:
    said = "An error occurred while calling o7.sql.\n: org.apache.spark.Some: there is no o5.price beside o6.id"
    assert first_line(Exception(said)) == "org.apache.spark.Some: there is no o5.price beside o6.id"
    found = coded(Py4JError("An error occurred while calling o7.sql: there is no o5.price"))
    assert found is not None
    assert "calling sql: there is no o5.price" in found.what


def test_the_first_line_of_an_error_that_says_nothing_is_its_class() -> None:
    assert first_line(ValueError("\n")) == "ValueError"
    assert first_line(ValueError("\n one\ntwo")) == "one"


def test_a_function_that_fails_has_a_code_before_spark_4_1() -> None:
    found = coded(PythonException(f"\n  An exception was thrown from the Python worker.\n{TRACEBACK}"))
    assert found is not None
    assert (found.code, found.what) == ("PYTHON_EXCEPTION", "A function in Python failed: ValueError: bad row")


@dataclass
class Jobs:
    """Spark's context, as far as jobs are cancelled in it."""

    cancelled: list[str] = field(default_factory=list)
    group: str | None = None

    @property
    def _jsc(self) -> "Jobs":
        return self

    def sc(self) -> "Jobs":
        return self

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        return self.group

    def setLocalProperty(self, key: str, group: str | None) -> None:  # noqa: N802
        self.group = group

    def cancelJobGroupAndFutureJobs(self, group: str) -> None:  # noqa: N802
        self.cancelled.append(group)


@pytest.mark.parametrize("module", ["pyspark.core.context", "mine"])
def test_an_interrupt_is_one_whatever_the_handler_of_spark_stumbles_over(module: str) -> None:
    """As before Spark 4.1. A handler of the user's own keeps its meaning."""

    def handler(number: int, frame: object) -> None:
        if module == "mine":
            seen.append(number)
        else:
            raise Py4JError("Error while sending or receiving")

    handler.__module__ = module
    seen: list[int] = []
    jobs, before = Jobs(), signal.signal(signal.SIGINT, handler)
    try:
        if module == "mine":
            with cancelled_when_interrupted(cast(SparkContext, jobs)):
                os.kill(os.getpid(), signal.SIGINT)
        else:
            with pytest.raises(KeyboardInterrupt), cancelled_when_interrupted(cast(SparkContext, jobs)):
                os.kill(os.getpid(), signal.SIGINT)
        assert (seen, len(jobs.cancelled)) == (([signal.SIGINT], 0) if module == "mine" else ([], 1))
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert jobs.group is None


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        ("Cannot broadcast the table that is larger than 8.0 GiB", True),
        (
            "Total size of serialized results of 9 tasks (1 GiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)",
            True,
        ),
        ("There is not enough memory to build hash map.", True),
        ("[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes of memory, got 0.", True),
        ("Division by zero", False),
    ],
)
def test_what_was_too_large_to_be_held_is_told_from_other_failures(message: str, is_one: bool) -> None:
    """Such a step runs once more without; the driver collects rows for broadcasts only."""
    assert (
        is_of_a_side(of_java(Java("org.SparkException", LOST, ""), Java("org.SparkException", message, ""))) == is_one
    )
