"""Objects of the JVM that are made when somebody needs one, with all that it needs, in one call.

A plan of Spark's is made of hundreds of expressions, each by a call to the JVM and released by another. Who makes one of it says here what
would be called, as py4j would call it, and ``janino/Script.java`` calls all of it at once.
"""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

from py4j.java_gateway import JavaObject

from tempura.frontend.compiled import END, compiled_by
from tempura.frontend.java import running_gateway

_ESCAPED = "\1"
"""Before a character that says which one a text has that is an end, or this, itself."""

_LARGEST = 2**31
"""From here on a number is a long of Java's."""


class Later:
    """An object of the JVM that may not have been made yet: what ``call``, ``static`` or ``new`` give. To py4j it is that object, which is
    made then, once; its methods are called when what they give is needed. Raises what these raise, then."""

    __slots__ = ("_given", "_is_made", "_made", "_what")

    def __init__(self, what: tuple[str, ...], given: tuple[object, ...]) -> None:
        self._what = what
        self._given = given
        self._is_made = False
        self._made: Any = None

    def __getattr__(self, name: str) -> Callable[..., "Later"]:
        if name.startswith("_") or name == "Java":  # what py4j asks of its own proxies, and of Python's
            raise AttributeError(name)
        return lambda *given: call(self, name, *given)

    def _get_object_id(self) -> str:
        """The name of the object, by which py4j gives it to a call."""
        return str(made(self)._get_object_id())


def made(later: Later) -> Any:
    """The object of the JVM; where it is a text, a number or nothing, Python's."""
    if not later._is_made:
        gateway = running_gateway()
        later._made = compiled_by(gateway, "Script").run(gateway.java_gateway_server, _Script(later).text)
        later._is_made = True
    return later._made


def call(target: object, method: str, *given: object) -> Later:
    """What a method of an object gives, that was made or not."""
    return Later(("m", method), (target, *given))


def static(type: str, method: str, *given: object) -> Later:
    """What a static method of a class gives, or a method of a Scala object."""
    return Later(("s", type, method), given)


def new(type: str, *given: object) -> Later:
    """A new object of a class."""
    return Later(("n", type), given)


def seq(*elements: object) -> Later:
    """A sequence of Scala's."""
    return static("org.apache.spark.api.python.PythonUtils", "toSeq", list(elements))


class _Script:
    """The calls that an object is made by, each after those whose objects it is given. ``text``: for each the kind of call, names, and how
    many values it is given, and these."""

    def __init__(self, root: Later) -> None:
        self._places: dict[int, int] = {}
        self._words: list[str] = []
        self._add(root)
        self.text = "".join(map(_ended, self._words))

    def _add(self, root: Later) -> None:
        waiting = [root]
        while waiting:  # a plan is deeper than calls may be
            last = waiting[-1]
            needed = [] if id(last) in self._places else [n for n in _needed(last._given) if id(n) not in self._places]
            if needed:
                waiting += needed
                continue
            waiting.pop()
            if id(last) not in self._places:
                values = [word for value in last._given for word in self._value(value)]
                self._words += [*last._what, str(len(last._given)), *values]
                self._places[id(last)] = len(self._places)

    def _value(self, value: object) -> Iterator[str]:
        match value:
            case Later() if id(value) in self._places:
                yield f"#{self._places[id(value)]}"
            case Later():
                yield from self._value(made(value))
            case JavaObject():
                yield f"@{value._get_object_id()}"
            case None:
                yield "-"
            case bool():
                yield "t" if value else "f"
            case int():
                yield f"{'i' if -_LARGEST <= value < _LARGEST else 'l'}{value}"
            case float():
                yield f"d{value!r}"
            case Decimal():
                yield f"D{value}"
            case str():
                yield f"'{value}"
            case bytes() | bytearray():
                yield f"b{value.hex()}"
            case list():
                yield f"[{len(value)}"
                for element in value:
                    yield from self._value(element)
            case _:
                raise TypeError(f"nothing says what {value!r} is to Java")


def _needed(given: Iterable[object]) -> Iterator[Later]:
    """What has to be made of some values."""
    for value in given:
        if isinstance(value, list):
            yield from _needed(value)
        elif isinstance(value, Later) and not value._is_made:
            yield value


def _ended(word: str) -> str:
    return word.replace(_ESCAPED, f"{_ESCAPED}1").replace(END, f"{_ESCAPED}0") + END
