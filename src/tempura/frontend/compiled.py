"""Tempura's own Java: what would take thousands of calls over py4j, each of a few lines of Java in ``frontend/java``.

Spark ships a compiler, Janino, to compile what it generates for queries. It compiles these sources, too, once per JVM when
they are first needed, so that nothing has to be built, installed or matched to a version of Spark.
"""

from importlib import resources
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

_compiled: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""By gateway to a JVM, an object of each class by its name."""


def compiled(spark: SparkSession, name: str) -> Any:
    """An object of the class ``name`` in the session's JVM."""
    gateway = spark.sparkContext._gateway
    objects = _compiled.setdefault(gateway, {})
    if name not in objects:
        objects[name] = _compile(gateway, name)
    return objects[name]


def _compile(gateway: Any, name: str) -> Any:
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setTargetVersion(8)  # calls of static methods of interfaces, which Scala's objects have
    compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getSparkClassLoader())
    compiler.cook((resources.files(__package__) / "java" / f"{name}.java").read_text(encoding="utf-8"))
    made = compiler.getClassLoader().loadClass(f"tempura.{name}")
    return made.getConstructor(gateway.new_array(jvm.java.lang.Class, 0)).newInstance(
        gateway.new_array(jvm.java.lang.Object, 0)
    )
