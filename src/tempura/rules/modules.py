"""Modules with rules of the user's own, named in ``tempura.toml``.

Such a module has a function ``extend``, which is given a registry and returns another::

    def extend(rules: Registry) -> Registry:
        return rules.with_method("mine", (*CORE, my_rule))

To name a module is to run it. It is imported from where Python finds modules; no folder is added to that.
"""

import traceback
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tempura.errors import TempuraError
from tempura.rules.registry import Registry

_TEMPURA = str(Path(__file__).parents[1])


def is_module_name(text: str) -> bool:
    """Whether a text is the name of a module, as after ``import``."""
    return bool(text) and all(part.isidentifier() for part in text.split("."))


def extended(rules: Registry, modules: Sequence[str]) -> Registry:
    """The rules and those of modules, one after the other.

    Raises TempuraError ``BAD_RULES_MODULE`` for a module that cannot be imported, has no ``extend`` or one that fails; ``BAD_METHOD`` and
    ``BAD_LINK`` for what cannot be added.
    """
    for name in modules:
        rules = _extended(rules, name)
    return rules


@cache
def _extended(rules: Registry, name: str) -> Registry:
    extend = getattr(load(name), "extend", None)
    if not callable(extend):
        raise _bad(name, "has no function extend", "Write: def extend(rules: Registry) -> Registry: …")
    try:
        found = extend(rules)
    except (TempuraError, KeyboardInterrupt):
        raise
    except BaseException as error:  # sys.exit() among them: a command would end with a code that says something else
        raise _bad(name, f"fails in extend: {_told(error)}", "Correct the module.") from error
    if not isinstance(found, Registry):
        what = f"gives {type(found).__name__} from extend, and no Registry"
        raise _bad(name, what, "Return what rules.with_method(…) gives.")
    return found


def load(name: str) -> ModuleType:
    """Import a module. Raises TempuraError ``BAD_RULES_MODULE``."""
    if not is_module_name(name):
        raise _bad(name, "has no name that Python could import", "Give the name of a module, as after import.")
    try:
        return import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        remedy = "Install what is missing, name its folder in PYTHONPATH, or correct the module."
        raise _bad(name, f"cannot be imported: {_told(error)}", remedy) from error


def _told(error: BaseException) -> str:
    """What failed and where: the last place outside the import system and Tempura."""
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({error.filename}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    own = [frame for frame in frames if not frame.filename.startswith(_TEMPURA)]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}{where}"


def _bad(name: str, what: str, remedy: str) -> TempuraError:
    return TempuraError("BAD_RULES_MODULE", f"Module {name!r} with rules {what}.", remedy)
