"""Prices that were measured on a machine, kept in a file of the user's cache: one for each machine and Spark configuration.

A file is replaced as a whole. One that is damaged, of another version, or of another machine is not used, and a warning says so: prices
are then those that are built in.
"""

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from tempura.cache import cache_folder
from tempura.cost.fit import BOUND, Price
from tempura.cost.model import SPARK, CostModel
from tempura.errors import TempuraError, TempuraWarning

FORMAT = 1
VARIABLE = "TEMPURA_CALIBRATION"
"""The variable of the environment that, set to ``off``, leaves all prices as built in."""

_NOISE, _WAITING = 0.15, 0.3
"""By which part repetitions may differ, in CPU time and in time that passes."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What prices are of: ``about`` says in words which machine and which Spark configuration (a name and a text each)."""

    about: Mapping[str, str]

    @property
    def key(self) -> str:
        """A short name for it."""
        text = json.dumps(dict(sorted(self.about.items())))
        return sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return ", ".join(f"{name} {text}" for name, text in self.about.items())


@dataclass(frozen=True, slots=True)
class Calibration:
    """Prices measured on a ``machine`` at a time ``when`` (ISO, UTC), in so many ``rounds`` and ``seconds``. ``noise`` and ``waiting``:
    by which part repetitions of a job differed, in CPU time and in time that passed. ``level``: by what the driver's prices were
    multiplied, because a step takes more of it than jobs of plain Spark."""

    machine: Machine
    when: str
    rounds: int
    seconds: float
    noise: float
    waiting: float
    level: float
    prices: tuple[Price, ...]

    @property
    def doubt(self) -> str:
        """Why it is not to be trusted; empty when it is."""
        if self.rounds < 3:
            return f"only {self.rounds} rounds were possible in the time"
        if self.noise > _NOISE:
            return f"the CPU time of one job differs by {self.noise:.0%}: the machine is busy, or changes its speed"
        if self.waiting > _WAITING:
            return f"the time that one job takes differs by {self.waiting:.0%}: others are at work on the machine"
        return ""

    @property
    def model(self) -> CostModel:
        """The prices to plan by."""
        return with_prices(self.prices, f"calibrated {datetime.fromisoformat(self.when):%Y-%m-%d %H:%M} UTC")

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        plain = {name: value for name, value in asdict(self).items() if name not in ("machine", "prices")}
        prices = {p.name: {n: v for n, v in asdict(p).items() if n != "name"} for p in self.prices}
        return {
            "format": FORMAT,
            "key": self.machine.key,
            "machine": dict(self.machine.about),
            **plain,
            "prices": prices,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Calibration":
        """The inverse of :meth:`to_json`. Raises KeyError, TypeError or ValueError for anything else, prices out of bounds among it."""
        if data["format"] != FORMAT:
            raise ValueError(f"it has format {data['format']}")
        prices = tuple(_price(str(name), about) for name, about in data["prices"].items())
        machine = Machine({str(name): str(text) for name, text in data["machine"].items()})
        datetime.fromisoformat(data["when"])
        seconds, noise, waiting, level = (float(data[name]) for name in ("seconds", "noise", "waiting", "level"))
        return Calibration(machine, data["when"], int(data["rounds"]), seconds, noise, waiting, level, prices)


def _price(name: str, about: Mapping[str, Any]) -> Price:
    if name not in CostModel.__dataclass_fields__ or isinstance(getattr(SPARK, name), str):
        raise ValueError(f"it has a price of {name}")
    built_in, found, error, value = (float(about[n]) for n in ("built_in", "found", "error", "value"))
    price = Price(name, built_in, found, error, value, str(about["why"]))
    # Of another version of Tempura the built-in price, and what it is a price of, may be another.
    if not isfinite(price.value) or price.built_in != getattr(SPARK, name):
        raise ValueError(f"its price of {name} is of another version")
    if not 1 / BOUND <= price.factor <= BOUND:
        raise ValueError(f"its price of {name} is out of bounds")
    return price


def with_prices(prices: Iterable[Price], origin: str) -> CostModel:
    """The cost model with some prices in the place of those that are built in."""
    values: dict[str, Any] = {p.name: _like(getattr(SPARK, p.name), p.value) for p in prices}
    return replace(SPARK, **values, origin=origin)


def _like(built_in: float, value: float) -> float:
    """A price of the type of the built-in one: whole nanoseconds where that is."""
    return max(1, round(value)) if isinstance(built_in, int) else round(value, 3)


def file_of(machine: Machine, environment: Mapping[str, str] | None = None) -> Path | None:
    """Where the prices of a machine are kept; None where they may not be used, or there is no place for them."""
    known = os.environ if environment is None else environment
    if known.get(VARIABLE) == "off":
        return None
    try:
        return cache_folder(known) / f"prices-{machine.key}.json"
    except RuntimeError:
        return None


def calibration_of(machine: Machine, environment: Mapping[str, str] | None = None) -> Calibration | None:
    """What was measured on a machine; None when nothing was. What is there and cannot be used is told by a warning."""
    file = file_of(machine, environment)
    if file is None:
        return None
    try:
        found = Calibration.from_json(json.loads(file.read_text(encoding="utf-8")))
        if found.machine != machine:
            raise ValueError("it is of another machine")
        return found
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"Prices in {file} are not used: {error}."
        warnings.warn(f"{what} Measure them again with: tempura calibrate", TempuraWarning, stacklevel=2)
        return None


def prices_of(machine: Machine, environment: Mapping[str, str] | None = None) -> CostModel:
    """The prices of a machine: measured, or built in."""
    found = calibration_of(machine, environment)
    return found.model if found else SPARK


def keep(calibration: Calibration, environment: Mapping[str, str] | None = None) -> Path:
    """Keep prices, in the place of what was kept for the machine; the file's path. Raises TempuraError CALIBRATION_NOT_KEPT."""
    file = file_of(calibration.machine, environment)
    if file is None:
        what = f"The user has no cache folder, or {VARIABLE} is off: prices cannot be kept."
        raise TempuraError("CALIBRATION_NOT_KEPT", what, f"Set XDG_CACHE_HOME, and do not set {VARIABLE}.")
    part = file.with_suffix(f".{os.getpid()}.part")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.write_text(json.dumps(calibration.to_json(), indent=1) + "\n", encoding="utf-8")
        part.replace(file)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        what = f"Prices cannot be written to {file}: {error.strerror}."
        raise TempuraError("CALIBRATION_NOT_KEPT", what, "Make the folder writable, or set XDG_CACHE_HOME.") from error
    return file


def forget(machine: Machine, environment: Mapping[str, str] | None = None) -> bool:
    """Remove the prices of a machine; whether there were any."""
    file = file_of(machine, environment)
    if file is None or not file.exists():
        return False
    file.unlink()
    return True
