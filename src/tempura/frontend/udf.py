"""What tells one user-defined function from another."""

import hashlib
import re

from tempura.frontend.catalyst import JavaObject, class_of

USER_DEFINED = ("PythonUDF", "ScalaUDF")
"""Functions of one row's values, in Python (also those over batches of rows, for pandas and Arrow), Scala or Java. Spark calls one
that is not declared as non-deterministic as often as it likes, so that its value may be taken for a function of its arguments."""

_ADDRESS = re.compile(r"/0x[0-9a-f]+|@[0-9a-f]+")


def user_function(node: JavaObject) -> str:
    """The name and the code of a function, equal in every process that registers the same one.

    Of Python code it is a digest of what is sent to the workers: the code itself for a function of the main program, only its name
    for one of a module. Of Scala and Java it is the name of the class. A digest that differs without need costs a rebuild.
    """
    if class_of(node) == "PythonUDF":
        code = hashlib.sha256(bytes(node.func().command().unsafeArray())).hexdigest()[:16]
        return f"{node.name()},{node.evalType()},{code}"
    name = node.udfName().get() if node.udfName().isDefined() else ""
    return f"{name},{_ADDRESS.sub('', node.function().getClass().getName())}"
