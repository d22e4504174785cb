"""The Spark that the tests run with."""

import re
from collections.abc import Callable
from typing import Any

import pyspark
from pyspark.sql import functions


def since(*version: int) -> bool:
    """Whether it is this version or a later one."""
    return tuple(map(int, re.findall(r"\d+", pyspark.__version__)[: len(version)])) >= version


def batch_function(kind: str, function: Callable[..., Any], type: str) -> Any:
    """A user-defined function over batches of rows: ``kind`` is ``pandas_udf`` or ``arrow_udf``, which PySpark's type stubs lack."""
    return getattr(functions, kind)(function, type)
