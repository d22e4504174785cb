"""Scenarios of ``tempura bench effectiveness``: how much arrives when, what work costs then, and which runs are measured."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import accumulate
from typing import Any

from tempura.bench.arrivals import TOGETHER, Cut
from tempura.bench.exactness import EARLY_PRICE, described_run
from tempura.bench.suites import SUITES
from tempura.errors import TempuraError
from tempura.rules.methods import TEMPURA
from tempura.warehouse.times.schedule import Schedule

_THREE_PARTS = Fraction(14, 24), Fraction(5, 24), Fraction(5, 24)
_THREE_PRICES = 0.25, 0.3, 1.0

SHARES = {
    "pdw": _THREE_PARTS,
    "pdw9": (Fraction(1, 9),) * 9,
    "ivm": (Fraction(1, 100),),
    "days": _THREE_PARTS,
}
"""By scenario, unless given: the part of a day's rows that comes by each time; for ivm what comes before each refresh, of what the first
load brought."""

DAILY = Fraction(1, 100)
"""What each of several days brings, of what the first one brought."""

PRICES = {"pdw": _THREE_PRICES, "pdw9": (*[EARLY_PRICE] * 8, 1.0), "ivm": (), "days": _THREE_PRICES}
"""What work costs at each time of the day."""

PATTERNS = {"append": "append-big", "retract": "retract-both"}
"""By the command's word: the pattern that says from which tables rows leave."""

DELETED = 0.0025
"""The share of the rows that leave at each later arrival under ``retract``."""

_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Effectiveness:
    """What is measured: queries of a suite in a scenario, under each of some sets of methods.

    ``shares`` and ``prices`` as in :data:`SHARES` and :data:`PRICES`; ``daily`` (of ``days``) and ``deleted`` as in :data:`DAILY` and
    :data:`DELETED`. ``repeat``: how often each thing is measured, after ``warm_ups`` without measuring. A set of methods is a name or
    several joined by ``+``. ``references``: the tables declare keys and references. ``turn``: no rows leave before the refresh that comes
    right before the measured ones, so that all plans before it were made for what only grows. Raises TempuraError BAD_BENCHMARK for what
    does not fit together, UNKNOWN_METHOD.
    """

    suite: str
    scale: float
    scenario: str
    shares: tuple[Fraction, ...]
    prices: tuple[float, ...]
    pattern: str
    deleted: float
    split: str
    methods: tuple[str, ...]
    repeat: int = 1
    warm_ups: int = 1
    references: bool = False
    turn: bool = False
    daily: Fraction = DAILY

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise TempuraError("BAD_BENCHMARK", *problem)
        for asked in self.methods:
            TEMPURA.names_of(methods_in(asked))

    @property
    def goes_on(self) -> bool:
        """Whether what is measured comes after others in one warehouse: a refresh after the first load, or a day after the first."""
        return self.scenario in ("ivm", "days")

    @property
    def rounds(self) -> int:
        """How many refreshes or days there are after the first: steady after one, which finds no state that such a one has left."""
        return 1 + self.warm_ups + self.turn + self.repeat

    @property
    def sizes(self) -> tuple[float, ...]:
        """The sizes of the arrivals, in proportion."""
        shares = tuple(map(float, self.shares))
        if self.scenario == "ivm":
            return 1.0, *shares * self.rounds
        if self.scenario == "days":
            return *shares, *tuple(float(self.daily) * share for share in shares) * self.rounds
        return shares

    @property
    def cut(self) -> Cut:
        """How the fact tables are cut. Who leaves is decided once for all later arrivals."""
        leaving = len(self.sizes) - self.repeat - 1 if self.turn else 1
        deleted = self.deleted * (len(self.sizes) - leaving)
        return Cut(PATTERNS[self.pattern], self.split, self.sizes, deleted=deleted, leaving=leaving)

    @property
    def schedule(self) -> Schedule:
        """A view, or the times of a day by which the shares have come."""
        if self.scenario == "ivm":
            return Schedule.view()
        labels = [f"{minute // 60:02}:{minute % 60:02}" for minute in self.minutes]
        return Schedule.progressive(dict(zip(labels, self.prices, strict=True)), timezone="UTC")

    def moments(self, today: date) -> tuple[datetime, ...]:
        """When arrivals come, each followed by its run, from the day after today on. Refreshes are a day apart."""
        start = datetime.combine(today + timedelta(days=1), datetime.min.time(), UTC)
        minutes = (0,) if self.scenario == "ivm" else self.minutes
        days = range(1 + self.rounds if self.goes_on else 1)
        return tuple(start + timedelta(days=day, minutes=minute) for day in days for minute in minutes)

    @property
    def minutes(self) -> tuple[int, ...]:
        """The minutes of a day by which the shares have come."""
        total = sum(self.shares)
        return tuple(round(_DAY * passed / total) for passed in accumulate(self.shares))

    @property
    def series(self) -> int:
        """How often a set of methods goes through all arrivals. What goes on is repeated within one series, a day in another."""
        return 1 if self.goes_on else self.warm_ups + self.repeat

    def day_of(self, i: int) -> int:
        """On which day, from 0, the run after arrival ``i`` is."""
        return i // len(self.shares)

    def part_of_day(self, i: int) -> int:
        """Which run of its day the run after arrival ``i`` is."""
        return i % len(self.shares)

    def is_due(self, i: int) -> bool:
        """Whether the run after arrival ``i`` owes a result: each refresh, and the last run of a day."""
        return self.part_of_day(i) == len(self.shares) - 1

    def measured(self, i: int, series: int) -> int | None:
        """The number of the measurement to which the run after arrival ``i`` belongs; None when it is there to warm up."""
        number = self.day_of(i) - (1 + self.rounds - self.repeat) if self.goes_on else series - self.warm_ups
        return number if number >= 0 else None

    def named(self, i: int) -> str:
        """The run after arrival ``i``, as it is reported."""
        if self.scenario == "ivm":
            return f"refresh {i + 1}"
        time = self.schedule.times[self.part_of_day(i)]
        return f"{time} of day {self.day_of(i) + 1}" if self.goes_on else time

    def price(self, i: int) -> float:
        """What work costs in the run after arrival ``i``."""
        return 1.0 if self.scenario == "ivm" else self.prices[self.part_of_day(i)]

    def meta(self) -> dict[str, Any]:
        """The options and where they are run."""
        options = asdict(self) | {"shares": tuple(map(str, self.shares)), "daily": str(self.daily)}
        return described_run("effectiveness", options)


def methods_in(asked: str) -> tuple[str, ...]:
    """The methods of a set, ``im1+batch``."""
    return tuple(asked.split("+"))


def parts(text: str) -> tuple[Fraction, ...]:
    """The numbers in ``14/24,5/24,0.25``. Raises TempuraError BAD_BENCHMARK."""
    try:
        return tuple(Fraction(part.strip()) for part in text.split(","))
    except (ValueError, ZeroDivisionError):
        what = f"{text!r} is not a list of numbers."
        raise TempuraError("BAD_BENCHMARK", what, "Write them as 14/24,5/24,5/24 or 0.25,0.3,1.") from None


def part(text: str) -> Fraction:
    """The number in ``0.01``. Raises TempuraError BAD_BENCHMARK."""
    found = parts(text)
    if len(found) > 1:
        raise TempuraError("BAD_BENCHMARK", f"{text!r} is not one number.", "Give one number, such as 0.01.")
    return found[0]


def amiss_in(shares: Sequence[Fraction], prices: Sequence[float]) -> tuple[str, str] | None:
    """What is amiss in what comes, or in what work costs, at each time, and what to do."""
    if not all(share > 0 for share in shares):
        return "A share is not positive.", "Give shares above 0."
    if not all(0 <= price < float("inf") for price in prices) or (prices and not any(prices)):
        return "A price is negative, or all are 0.", "Give prices of 0 or more."
    return None


def _problem(asked: Effectiveness) -> tuple[str, str] | None:
    """What does not fit together, and what to do."""
    shares, prices = asked.shares, asked.prices
    if asked.scenario == "ivm" and (len(shares) != 1 or prices):
        return "Scenario ivm has one share, of each refresh, and no prices.", "Give one share and no prices."
    if asked.scenario != "ivm" and not len(shares) == len(prices) >= 2:
        what = f"There are {len(shares)} shares and {len(prices)} prices."
        return what, "Give as many prices as shares, two or more."
    if amiss := amiss_in(shares, prices):
        return amiss
    if asked.scenario != "ivm" and len({0, *asked.minutes}) <= len(shares):
        return "A share is less than a minute of a day.", "Give shares that are less unequal."
    if asked.deleted and asked.pattern == "append":
        return "Nothing is deleted under the pattern append.", "Add --pattern retract, or leave --deleted out."
    if asked.turn and (asked.scenario != "ivm" or asked.pattern != "retract"):
        return (
            "Only refreshes of what loses rows can turn.",
            "Say --scenario ivm --pattern retract, or leave --turn out.",
        )
    if asked.daily != DAILY and asked.scenario != "days":
        return "Only several days bring a part of the first one each.", "Say --scenario days, or leave --daily out."
    if asked.daily <= 0:
        return "Nothing comes in a day.", "Give --daily above 0."
    if not 0 <= asked.cut.deleted <= 1:
        what = f"Over {len(asked.sizes) - asked.cut.leaving} arrivals more rows would leave than there are."
        return what, "Give a smaller --deleted."
    if asked.repeat < 1 or asked.warm_ups < 0:
        return "Nothing is measured.", "Give --repeat 1 or more, and --warm-ups 0 or more."
    if asked.references and not (SUITES[asked.suite].references and asked.split == TOGETHER and not asked.deleted):
        what = "References are kept by tpch, of which orders come together with their lines, and nothing is deleted."
        return what, "Say --suite tpch --split together --pattern append, or leave --references out."
    if not asked.methods or len(set(asked.methods)) < len(asked.methods):
        return "No set of methods is named, or one twice.", "Name each once, such as all,im1,batch."
    return None
