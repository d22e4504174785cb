"""Tempura's own Java: what would take thousands of calls over py4j, each of a few lines of Java in ``frontend/janino``.

Spark ships a compiler, Janino, to compile what it generates for queries. It compiles these sources, too, once per JVM when
they are first needed, so that nothing has to be built, installed or matched to a version of Spark.
"""

from collections.abc import Iterable
from importlib import resources
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from tempura.frontend.java import Java, java

_SOURCES = (
    "Given", "Tables", "Walk", "Names", "Rules", "Tree", "Script", "Plans", "Leaves", "Settings", "Rows", "Answers",
    "Definitions", "Stages",
)  # fmt: skip
"""The classes. Each may use those before it."""

END = "\0"
"""The end of each of several texts that Java is given, or gives, as one."""

_compiled: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""By gateway to a JVM, an object of each class by its name."""


def compiled(spark: SparkSession, name: str) -> Any:
    """An object of the class ``name`` in the session's JVM."""
    return compiled_by(spark.sparkContext._gateway, name)


def compiled_by(gateway: Any, name: str) -> Any:
    """The same in the JVM behind a gateway."""
    if gateway not in _compiled:
        _compiled[gateway] = _compile_all(gateway)
    return _compiled[gateway][name]


def compile_beforehand(spark: SparkSession) -> None:
    """Compile all of it, unless that was done."""
    compiled(spark, _SOURCES[0])


def compiled_alone(spark: SparkSession, name: str) -> Any:
    """An object of a class that uses none of the others, which need not be compiled for it."""
    gateway: Any = spark.sparkContext._gateway
    jvm = java(gateway.jvm)
    return _object(gateway, jvm, _compile(jvm, name, _spark_classes(jvm)), name)


def ended(texts: Iterable[str]) -> str:
    """Several texts as one."""
    return "".join(text + END for text in texts)


def _compile_all(gateway: Any) -> dict[str, Any]:
    jvm = java(gateway.jvm)
    loader, objects = _spark_classes(jvm), {}
    for name in _SOURCES:
        loader = _compile(jvm, name, loader)
        objects[name] = _object(gateway, jvm, loader, name)
    return objects


def _spark_classes(jvm: Java) -> Any:
    """The class loader that has Spark's classes."""
    return jvm.static("org.apache.spark.util.Utils", "getSparkClassLoader")()


def _object(gateway: Any, jvm: Java, loader: Any, name: str) -> Any:
    none = [gateway.new_array(getattr(jvm, f"java.lang.{kind}"), 0) for kind in ("Class", "Object")]
    return loader.loadClass(f"tempura.{name}").getConstructor(none[0]).newInstance(none[1])


def _compile(jvm: Java, name: str, parent: Any) -> Any:
    """A class loader that has the class of a source file."""
    compiler = getattr(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setTargetVersion(8)  # calls of static methods of interfaces, which Scala's objects have
    compiler.setParentClassLoader(parent)
    compiler.cook((resources.files(__package__) / "janino" / f"{name}.java").read_text(encoding="utf-8"))
    return compiler.getClassLoader()
