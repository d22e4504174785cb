"""Properties of values that never change, computed when somebody first asks."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801
        """What ``functools`` has under this name, without the lock that it takes for each value before Python 3.12: expressions have
        millions of such values, and two threads that compute one get the same."""

        def __init__(self, compute: Any) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, value: Any, owner: type | None = None) -> Any:
            if value is None:
                return self
            found = value.__dict__[self._name] = self._compute(value)
            return found


__all__ = ["cached_property"]
