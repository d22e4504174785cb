"""Failures that the rows of a run provoke in a query's expressions, by Spark's conditions: another choice of rows would not fail."""

import re
from collections.abc import Iterator
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tempura.errors import TempuraError

_OF_DATA = re.compile(
    r"(DIVIDE_BY_ZERO|REMAINDER_BY_ZERO|INTERVAL_DIVIDED_BY_ZERO|ARITHMETIC_OVERFLOW|BINARY_ARITHMETIC_OVERFLOW|INTERVAL_ARITHMETIC_OVERFLOW|"
    r"CAST_INVALID_INPUT|CAST_OVERFLOW|CAST_OVERFLOW_IN_TABLE_INSERT|NUMERIC_VALUE_OUT_OF_RANGE|NUMERIC_OUT_OF_SUPPORTED_RANGE|DATETIME_OVERFLOW|"
    r"CANNOT_PARSE_TIMESTAMP|CANNOT_PARSE_TIME|CANNOT_PARSE_INTERVAL|CANNOT_PARSE_DECIMAL|CONVERSION_INVALID_INPUT|"
    r"INVALID_ARRAY_INDEX|INVALID_ARRAY_INDEX_IN_ELEMENT_AT|INVALID_INDEX_OF_ZERO|MAP_KEY_DOES_NOT_EXIST|NULL_MAP_KEY|DUPLICATED_MAP_KEY|"
    r"COLLECTION_SIZE_LIMIT_EXCEEDED|INVALID_PARAMETER_VALUE|INVALID_FRACTION_OF_SECOND|INVALID_URL|MALFORMED_RECORD_IN_PARSING|"
    r"USER_RAISED_EXCEPTION|FAILED_EXECUTE_UDF)(\..*)?"
)  # fmt: skip


def is_of_data(error: BaseException) -> bool:
    """Whether an error is one of the query's expressions over some row, and not of the system or of Tempura."""
    return any(_OF_DATA.fullmatch(condition) for condition in _conditions(error))


def _conditions(error: BaseException) -> Iterator[str]:
    """The code of an error, and Spark's conditions of it and of its causes."""
    if isinstance(error, TempuraError):
        yield error.code
    elif isinstance(error, PySparkException | Py4JError):
        if isinstance(error, PySparkException):
            yield error.getCondition() or ""
        exception = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        while exception is not None:
            with suppress(Py4JError, TypeError):  # an exception that is not one of Spark's own has no such method
                yield str(exception.getCondition() or "")
            exception = exception.getCause()
