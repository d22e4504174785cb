"""Errors of the system, of Python and of Spark as errors that a user can act on: translated here and nowhere else.

What a user's query provokes over the rows of a run (a division by zero, an overflow, a failed cast) keeps the code that Spark gives
it. What befalls Tempura from outside (a full disk, a lost file, no memory) has a code of its own, however Spark wraps it.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from signal import SIGKILL
from subprocess import Popen, TimeoutExpired
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PythonException

from tempura.errors import TempuraError

_WHOLE = "Then call again: what was committed is whole."


@contextmanager
def errors_by_code() -> Iterator[None]:
    """Raise TempuraError in place of the errors that :func:`coded` knows; an interrupt passes. Also a decorator."""
    try:
        yield
    except Exception as error:
        found = coded(error)
        if found is None or found is error:
            raise
        raise found from error


_OF_A_SIDE = ("broadcast", "maxresultsize", "memory to build hash", "unable to acquire")


def is_of_a_side(error: Py4JJavaError) -> bool:
    """Whether a job failed because a side of a join could not be held in memory. It could not be sent to every task: too many rows, too
    little memory, too long; they are collected for that, and nothing else of a step is. Or a task had no memory for a table of it."""
    return any(word in said.message.lower() for said in _chain(error) for word in _OF_A_SIDE)


def coded(error: BaseException) -> TempuraError | None:
    """An error with its code, one sentence and a remedy; None for what can only be a defect."""
    match error:
        case TempuraError():
            return error
        case KeyboardInterrupt():
            what = "Stopped by an interrupt; what Spark was computing is cancelled, and nothing of this step counts."
            return TempuraError("INTERRUPTED", what, "Call again: what was committed is whole.")
        case MemoryError():
            return _out_of_memory("Python ran out of memory.")
        case Py4JNetworkError() | ConnectionError():
            return _stopped(_first_line(str(error)))
        case OSError():
            return _of_system(error)
        case PySparkException() | Py4JError():
            return _of_spark(error)
    return None


def coded_or_defect(error: BaseException) -> TempuraError:
    """The same; what can only be a defect is ``INTERNAL``."""
    if known := coded(error):
        return known
    what = f"{type(error).__name__}: {error}".split("\n")[0]
    remedy = "This is a defect of Tempura"
    return TempuraError("INTERNAL", what, f"{remedy}.", f"{remedy}. Use tempura --debug … to see where.")


# --- the system -----------------------------------------------------------------------------------------------------


def _of_system(error: OSError) -> TempuraError:
    said = error.strerror or str(error)
    where = f"{error.filename}: {said}" if error.filename else said
    # Arrow gives the class of an error and no number.
    if isinstance(error, FileNotFoundError):
        return _gone(where)
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return _no_access(where)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full(where)
    return TempuraError("IO_FAILED", f"The system refused an operation on files: {where}.", f"Mend that. {_WHOLE}")


def _disk_full(where: str) -> TempuraError:
    remedy, command = (f"Free some, for instance by {gc}. {_WHOLE}" for gc in ("gc", "tempura gc"))
    return TempuraError("DISK_FULL", f"There is no space left ({where}).", remedy, command)


def _no_access(where: str) -> TempuraError:
    remedy = f"Give this user access, or mount the file system for writing. {_WHOLE}"
    return TempuraError("NO_ACCESS", f"The system denies access ({where}).", remedy)


def _gone(where: str) -> TempuraError:
    return TempuraError("FILE_GONE", f"A file or folder is not there ({where}).", f"Put it back. {_WHOLE}")


# --- memory and processes -------------------------------------------------------------------------------------------


def _out_of_memory(what: str) -> TempuraError:
    rest = f", or smaller parts (spark.sql.shuffle.partitions). {_WHOLE}"
    remedy = f"Give Spark more (spark.driver.memory, spark.executor.memory){rest}"
    command = f"Give Spark more (PYSPARK_SUBMIT_ARGS='--driver-memory 12g pyspark-shell'){rest}"
    return TempuraError("OUT_OF_MEMORY", what, remedy, command)


def _spark_out_of_memory(said: str) -> TempuraError:
    return _out_of_memory(f"Spark ran out of memory: {said}")


def _stopped(said: str) -> TempuraError:
    ended = _ended()
    if ended == _OF_MEMORY:
        # A task that has no memory left ends the process when it computes in the driver's own, as a local session does.
        return _out_of_memory("Spark ran out of memory, and its process ended.")
    if ended is not None and ended < 0:
        said = f"its process was killed by signal {-ended}"
        if ended == -SIGKILL:
            said += ", as the system does when there is not enough memory for it"
    remedy = f"Start a session, or the process, again; its log, or the system's, says why it ended. {_WHOLE}"
    return TempuraError("NO_SESSION", f"Spark was stopped while it was needed ({said}).", remedy)


_OF_MEMORY = 52
"""The code with which Spark's process exits when it has no memory left."""

_ENDING = 5
"""How many seconds a process is given to end whose connection was lost."""


def _ended() -> int | None:
    """The exit code of Spark's process, negative for a signal; None where it goes on, or is not this process's child."""
    process: Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    try:
        return process.wait(_ENDING) if process is not None else None
    except TimeoutExpired:
        return None


def _is_stopping() -> bool:
    """Whether this process's Spark is being stopped, or cannot be asked any more."""
    context = SparkContext._active_spark_context
    if context is None:
        return False
    try:
        return bool(context._jsc.sc().isStopped())
    except (AttributeError, Py4JError, OSError):
        return True


def _executor_lost(said: str) -> TempuraError:
    what = f"Spark lost a process that computed rows: {said}"
    remedy = "Look why it ended: often it had too little memory, and the system killed it (spark.executor.memory, "
    return TempuraError("EXECUTOR_LOST", what, f"{remedy}spark.executor.memoryOverhead). {_WHOLE}")


# --- Spark ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Said:
    """A Java exception: its class, Spark's condition if it has one, its message."""

    kind: str
    condition: str
    message: str


def _of_spark(error: PySparkException | Py4JError) -> TempuraError:
    chain = list(_chain(error))
    text = "\n".join(f"{said.kind}: {said.message}" for said in chain)
    # First what Spark has a condition for: its message may quote any text of the rows.
    own = next((said for said in chain if said.condition and not _FROM_OUTSIDE.match(said.condition)), None)
    if own is not None:
        remedy = "This is what Spark says of the query over the rows of this run. Correct the query or the rows; nothing was committed."
        if own.condition in _OF_PATHS:
            remedy = "Name the folder that spells it by another value, or take it out of the table's folder; nothing was committed."
        return TempuraError(own.condition, _sentence(own), remedy)
    outside = next((make(_line(chain, mark)) for mark, make in _OUTSIDE if mark.search(text)), None)
    if outside is not None:
        return outside
    if _is_stopping():
        # Whatever Spark stumbles over while it ends, a task without memory may have ended it.
        return _stopped(_first_line(text))
    if read := _unreadable(chain):
        return read
    remedy, command = (f"{see} shows where. {_WHOLE}" for see in ("The cause of this error", "tempura --debug …"))
    return TempuraError("SPARK_FAILED", _first_line(text), remedy, command)


def _unreadable(chain: list[_Said]) -> TempuraError | None:
    """A file that is there and whose bytes are not what its name says."""
    at, found = next(((i, m) for i, said in enumerate(chain) if (m := _READING.search(said.message))), (0, None))
    if found is None:
        return None
    why = _plain(_first_line(chain[-1].message) or chain[-1].kind) if at + 1 < len(chain) else "it is damaged"
    remedy = f"Put it there whole, or take it out of the table's folder. {_WHOLE}"
    return TempuraError("FILE_UNREADABLE", f"{unquote(found[1])} cannot be read: {why.rstrip('.')}.", remedy)


def _chain(error: PySparkException | Py4JError) -> Iterator[_Said]:
    """The Java exception and its causes; what Python knows where there is none."""
    exception = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if exception is None:
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        # Before Spark 4.1 this was an exception without a condition.
        condition = condition or ("PYTHON_EXCEPTION" if isinstance(error, PythonException) else None)
        # Which of the gateway's numbered objects was called tells nobody anything.
        yield _Said(type(error).__name__, condition or "", re.sub(r"(?<=while calling )o\d+\.", "", str(error)))
    while exception is not None:
        yield _Said(exception.getClass().getName(), _condition(exception), str(exception.getMessage() or ""))
        exception = exception.getCause()


def _condition(exception: Any) -> str:
    try:
        return str(exception.getCondition() or "")
    except Py4JError:
        return ""  # an exception that is not one of Spark's own has no such method


_OF_PATHS = ("INVALID_PARTITION_VALUE", "EMPTY_PARTITION_COLUMN_VALUE")
"""Conditions of folders whose names spell values of columns."""

_FROM_OUTSIDE = re.compile(
    "INTERNAL_ERROR|FAILED_READ_FILE|TASK_WRITE_FAILED|_LEGACY_ERROR_TEMP|FAILED_EXECUTE_UDF|"
    "PATH_NOT_FOUND|UNABLE_TO_ACQUIRE_MEMORY|SESSION_OR_CONTEXT_NOT_EXISTS"
)
"""Conditions that a query does not provoke, or that say where something happened and not what."""

_READING = re.compile(
    r"Encountered error while reading file file:/*(/.*?)\.\s*(?:Details:.*)?(?:SQLSTATE|$)", re.MULTILINE
)

_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:.*\n)*?(?! |\n)(\w[\w.]*(?:: .*)?)$", re.MULTILINE)
"""The last line of a Python traceback."""

_OUTSIDE = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (r"OutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|GC overhead limit exceeded|Java heap space", _spark_out_of_memory),
        (r"No space left on device|Disk quota exceeded", _disk_full),
        (r"Read-only file system|Permission denied|AccessDeniedException|AccessControlException", _no_access),
        (r"FileNotFoundException|NoSuchFileException|PATH_NOT_FOUND|FILE_NOT_EXIST", _gone),
        (r"ExecutorLostFailure|Python worker exited unexpectedly|executor .* (?:was lost|heartbeat)", _executor_lost),
        (r"cancelled because SparkContext was shut down|stopped SparkContext|SESSION_OR_CONTEXT_NOT_EXISTS", _stopped),
    )
)  # fmt: skip
"""What befalls a job from outside, by words of Spark, Java and the system, and what it is told as."""


def _line(chain: list[_Said], mark: re.Pattern[str]) -> str:
    """What the innermost exception with these words says, without the stack trace that Spark copies into messages."""
    found = next(said for said in reversed(chain) if mark.search(f"{said.kind}: {said.message}"))
    lines = [line.strip() for line in found.message.splitlines() if mark.search(line)]
    return _plain(lines[0]) if lines else _plain(_first_line(found.message) or found.kind)


def _sentence(said: _Said) -> str:
    """What Spark says, and where in the query's text."""
    place = re.search(r"== SQL.*?\((line \d+, position \d+)\) ==", said.message)
    raised = _PYTHON.search(said.message)
    text = f"A function in Python failed: {raised[1]}" if raised else _plain(_first_line(said.message))
    return f"{text} ({place[1]} of the query)" if place else text


def _plain(text: str) -> str:
    return re.sub(r"^\[[A-Z][A-Z_.0-9]*\] | SQLSTATE: \w+$", "", text)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
