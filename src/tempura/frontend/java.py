"""Classes and static methods of the JVM, each looked up once.

py4j forgets what it has found: at each use of ``jvm.scala.Option.apply`` it asks the JVM for ``scala``, ``scala.Option`` and the method;
and for what is a package only, as ``scala`` is, the JVM searches all of Spark's archives. A step uses thousands of such names.
"""

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext

from tempura.errors import TempuraError


class Java:
    """The JVM behind py4j's ``view``. Attributes are what py4j's own view gives for a name: classes by their full names, with dots, and
    those that PySpark has imported by their simple ones."""

    def __init__(self, view: Any) -> None:
        self._view = view
        self._methods: dict[tuple[str, str], Any] = {}
        self.parameters: dict[tuple[str, str | None], int] = {}
        """How many a method of a class has; a constructor: None. The lists depend on the version of Spark."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._view, name)
        if not name.startswith("_"):
            # From now on Python finds it without coming here.
            setattr(self, name, found)
        return found

    def static(self, type: str, method: str) -> Any:
        """A static method of a class, or the method of a Scala object, to be called."""
        key = (type, method)
        if key not in self._methods:
            self._methods[key] = getattr(getattr(self, type), method)
        return self._methods[key]


_KNOWN: WeakKeyDictionary[Any, Java] = WeakKeyDictionary()


def java(view: Any) -> Java:
    """What is known of the JVM behind a view of py4j's."""
    if view not in _KNOWN:
        _KNOWN[view] = Java(view)
    return _KNOWN[view]


def each(scala_sequence: Any) -> Iterator[Any]:
    """The elements of a Scala sequence that finds each of them by its number at once."""
    return (scala_sequence.apply(i) for i in range(scala_sequence.size()))


def listed(java_list: Any) -> list[Any]:
    """The elements of a list of Java's, by their numbers: to iterate over it ends with an error in the JVM, which is dear."""
    return [java_list[i] for i in range(len(java_list))]


def running_gateway() -> Any:
    """The way to the JVM of the running session. Raises TempuraError NO_SESSION."""
    context = SparkContext._active_spark_context
    if context is None:
        raise TempuraError(
            "NO_SESSION", "There is no running Spark session.", "Start one, or keep it until the results are read."
        )
    return context._gateway


def running_java() -> Java:
    """The JVM of the running session. Raises TempuraError NO_SESSION."""
    return java(running_gateway().jvm)
