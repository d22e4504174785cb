"""Errors of Spark's jobs that pyspark does not translate, by Spark's own code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError

from tempura.errors import TempuraError


@contextmanager
def spark_errors_by_code() -> Iterator[None]:
    """Raise TempuraError with Spark's code and sentence (``SCALAR_SUBQUERY_TOO_MANY_ROWS``: a scalar sub-query has two rows) in
    place of a Java exception that carries one."""
    try:
        yield
    except Py4JJavaError as error:
        found = _coded(error.java_exception)
        if found is None and "No space left on device" in str(error):
            remedy = "Free some, for instance by gc, and call again: what was committed is whole."
            raise TempuraError("DISK_FULL", "Spark found no space left on a device.", remedy) from error
        if found is None:
            raise
        raise TempuraError(*found, "This is what Spark says of the query over the rows of this run.") from error


def is_of_broadcast(error: Py4JJavaError) -> bool:
    """Whether a job failed because rows could not be sent to every task: too many of them, too little memory, too long."""
    cause = error.java_exception
    while cause is not None:
        if "broadcast" in str(cause.getMessage()).lower():
            return True
        cause = cause.getCause()
    return False


def _coded(exception: Any) -> tuple[str, str] | None:
    """Code and sentence of the first of an exception and its causes that has them."""
    while exception is not None:
        if hasattr(exception, "getCondition") and exception.getCondition():
            code, message = str(exception.getCondition()), str(exception.getMessage())
            return code, message.splitlines()[0].removeprefix(f"[{code}] ")
        exception = exception.getCause()
    return None
