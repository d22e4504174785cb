"""Prices are found again that a machine was made of, within bounds; they are kept per machine, and nothing but them is read."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tempura.bench import calibration as bench
from tempura.bench.priced import EQUATIONS, JOBS, Tables, group, read, shuffle, write
from tempura.cost.calibration import (
    VARIABLE,
    Calibration,
    Machine,
    calibration_of,
    file_of,
    forget,
    keep,
    prices_of,
    with_prices,
)
from tempura.cost.fit import BOUND, OF_DRIVER, Described, Equation, Price, Taken, fitted, in_proportion, leveled, noise
from tempura.cost.model import SPARK, CostModel
from tempura.cost.prices import BUILT_IN, FIXED
from tempura.errors import TempuraError, TempuraWarning

MEASURED = [equation.price for equation in EQUATIONS]


class Described4(Tables):
    """Tables whose rows are read in four tasks: nothing is asked of Spark."""

    tasks = 4


def described() -> dict[str, Described]:
    nothing: Any = None
    tables = Described4(nothing, nothing, Path("/"))
    return {job.name: job.consists(tables) for job in JOBS}


def machine_like(factors: Mapping[str, float]) -> CostModel:
    """A machine whose prices are so many times those that are built in."""
    prices: dict[str, Any] = {name: getattr(SPARK, name) * factor for name, factor in factors.items()}
    return replace(SPARK, **prices)


def measured(planted: CostModel, noisy: Callable[[float], float], rounds: int = 5) -> list[Taken]:
    """What jobs take on a planted machine."""

    def taken() -> Taken:
        tasks: dict[str, float] = {}
        driver: dict[str, float] = {}
        for name, job in described().items():
            of_rows = Described({n: u for n, u in job.units.items() if n not in OF_DRIVER}, job.known)
            tasks[name], driver[name] = noisy(of_rows.cost(planted)), noisy((job - of_rows).cost(planted))
        return Taken(tasks, driver)

    return [taken() for _ in range(rounds)]


def fit(rounds: list[Taken]) -> dict[str, Price]:
    return {price.name: price for price in fitted(described(), EQUATIONS, rounds, SPARK)}


def test_each_price_that_is_to_be_measured_is() -> None:
    rows = {n for n in CostModel.__dataclass_fields__ if n.endswith(("_row", "_byte"))} - {"output_row"}
    assert set(MEASURED) == {*rows, "file", *FIXED}
    assert len(MEASURED) == len(set(MEASURED))


@pytest.mark.parametrize("seed", range(5))
def test_without_noise_a_planted_machine_is_found(seed: int) -> None:
    rng = random.Random(seed)
    planted = machine_like({name: 2 ** rng.uniform(-2.9, 2.9) for name in MEASURED})
    for name, price in fit(measured(planted, lambda cost: cost)).items():
        assert price.value == pytest.approx(getattr(planted, name), rel=1e-6), name
        assert not price.why


@pytest.mark.parametrize("seed", range(5))
def test_with_noise_it_is_found_within_bounds_or_said_not_to_be(seed: int) -> None:
    """Each measurement is off by some 2 %, and one in ten by half. What is used is within a factor of two, and what was not found is as
    built in."""
    rng = random.Random(seed)
    planted = machine_like({name: 2 ** rng.uniform(-1.5, 1.5) for name in MEASURED})

    def noisy(cost: float) -> float:
        return cost * rng.gauss(1, 0.02) * (1.5 if rng.random() < 0.1 else 1.0)

    found = fit(measured(planted, noisy, rounds=7))
    lost = {name for name, price in found.items() if price.why}
    assert len(lost) <= 5
    for name, price in found.items():
        if name in lost:
            assert price.value == price.built_in or price.factor in (BOUND, 1 / BOUND)
        else:
            assert 0.5 < price.value / getattr(planted, name) < 2, name
    # Those that cost most are found whatever the noise.
    assert lost.isdisjoint({"read_byte", "shuffle_row", "sort_row", "write_byte", "many_row", "job"})


def test_a_mean_instead_of_the_middle_would_be_caught() -> None:
    """One round of seven takes ten times as much: prices stay."""
    planted = machine_like(dict.fromkeys(MEASURED, 2.0))
    calm, disturbed = measured(planted, lambda cost: cost, 6), measured(planted, lambda cost: 10 * cost, 1)
    for name, price in fit(calm + disturbed).items():
        assert price.value == pytest.approx(getattr(planted, name), rel=1e-6)


def test_what_is_beyond_reason_is_bounded_and_said() -> None:
    found = fit(measured(machine_like({"sort_row": 50.0, "hash_row": 0.01}), lambda cost: cost))
    assert (found["sort_row"].factor, found["hash_row"].factor) == (BOUND, 1 / BOUND)
    assert "bounded" in found["sort_row"].why
    assert "bounded" in found["hash_row"].why


def test_what_cannot_be_told_from_nothing_is_as_built_in() -> None:
    jobs = {"a": Described({"sort_row": 10.0}), "b": Described({})}
    equation = Equation("sort_row", "a", "b")
    calm = [Taken({"a": a, "b": 1000.0}, {}) for a in (5100.0, 5000.0, 4900.0)]
    wild = [Taken({"a": a, "b": 1000.0}, {}) for a in (9000.0, 1100.0, -3000.0)]
    less = [Taken({"a": 900.0, "b": 1000.0}, {}) for _ in range(3)]
    (found,) = fitted(jobs, [equation], calm, SPARK)
    assert (found.value, found.why) == (400.0, "")
    for rounds in (wild, less):
        (found,) = fitted(jobs, [equation], rounds, SPARK)
        assert found.value == SPARK.sort_row
        assert "as built in" in found.why


def test_what_is_wrong_with_one_price_makes_others_uncertain() -> None:
    """What was kept as built in is taken off the next one, which may be as far off for that."""
    jobs = {"a": Described({"read_row": 10.0}), "b": Described({"read_row": 10.0, "write_row": 10.0})}
    equations = [Equation("read_row", "a"), Equation("write_row", "b")]
    rounds = [Taken({"a": -500.0, "b": 600.0}, {}) for _ in range(3)]
    read, write = fitted(jobs, equations, rounds, SPARK)
    assert read.why
    assert write.error == pytest.approx(abs(read.value - read.found))
    assert write.why


def test_the_driver_is_raised_to_what_steps_take() -> None:
    def price(name: str, factor: float) -> Price:
        own = float(getattr(SPARK, name))
        return Price(name, own, own * factor, own * factor / 100, own * factor)

    lost = Price("exchange", 3e6, -1e6, 5e6, 3e6, "cannot be told from nothing: as built in")
    prices = in_proportion([price("sort_row", 1.0), price("node", 0.3), price("job", 0.5), price("scan", 0.4), lost])
    exchange = prices[-1]
    assert exchange.factor == pytest.approx(0.4)
    assert "in proportion" in exchange.why
    found = leveled(prices, 3.0, 0.1)
    assert [p.factor for p in found] == pytest.approx([1.0, 0.9, 1.5, 1.2, 1.2])
    assert found[0] == prices[0]
    assert found[1].error == pytest.approx(((3 * 0.003) ** 2 + (0.3 * 0.1) ** 2) ** 0.5 * SPARK.node)


def test_jobs_are_described_as_the_model_prices_them() -> None:
    """The formulas of calibration are those of the cost model: if one changes, so must the other."""
    rows, bytes = 12_345.0, 8.0 + 8.0 * 3
    assert read(rows, 3).cost(SPARK) == pytest.approx(SPARK.read(rows, bytes), abs=1)
    assert write(rows, 3).cost(SPARK) == pytest.approx(SPARK.write(rows, bytes), abs=1)
    assert shuffle(rows, 3).cost(SPARK) == pytest.approx(SPARK.shuffle(rows, bytes), abs=1)
    for rows in (12_345.0, 400_000.0):
        for groups in (100.0, 90_000.0, rows):
            own = group(rows, groups, SPARK.tasks).cost(SPARK)
            assert own == pytest.approx(SPARK._group(rows, groups, 8.0 + 8.0 * 2), abs=1)
            assert own + SPARK.node == pytest.approx(SPARK.grouping(rows, 24.0), abs=1) or groups != rows


@pytest.mark.parametrize(("each", "rounds"), [(1.0, 9), (10.0, 7), (14.0, 4), (20.0, 3), (35.0, 1), (500.0, 1)])
def test_there_are_as_many_rounds_as_there_is_time_for(each: float, rounds: int) -> None:
    """Of 120 seconds a quarter is for steps, and two rounds are to warm up; a slow machine has fewer than are to be trusted."""
    clock = [0.0]
    told: list[str] = []

    def run(what: str) -> dict[str, Any]:
        told.append(what)
        clock[0] += each
        return {}

    assert len(bench._rounds(run, 0.0, 120.0, lambda: clock[0])) == rounds
    assert told == ["warming up"] * 2 + [f"round {n}" for n in range(1, rounds + 1)]


def test_noise_is_that_of_most_jobs() -> None:
    assert noise({"a": [1.0, 1.0, 1.0], "b": [1.0, 1.1, 0.9], "c": [1.0, 5.0, 9.0]}) == pytest.approx(0.14826)


# --- what is kept ---------------------------------------------------------------------------------------------------

HERE = Machine({"cpu": "one", "cores": "2"})


def calibration(**other: Any) -> Calibration:
    prices = (Price("sort_row", 600.0, 812.4, 10.0, 812.4), Price("read_byte", SPARK.read_byte, 1.23456, 0.1, 1.23456))
    known = Calibration(HERE, "2026-11-22T19:30:00+00:00", 5, 99.0, 0.02, 0.05, 3.2, prices)
    return replace(known, **other)


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path)}


def test_prices_are_kept_and_forgotten(place: dict[str, str]) -> None:
    assert prices_of(HERE, place) is SPARK
    file = keep(calibration(), place)
    assert calibration_of(HERE, place) == calibration()
    found = prices_of(HERE, place)
    assert (found.sort_row, found.read_byte, found.shuffle_row) == (812, 1.235, SPARK.shuffle_row)
    assert (found.origin, SPARK.origin) == ("calibrated 2026-11-22 19:30 UTC", BUILT_IN)
    assert found.scaled(2.0).origin == found.origin
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert forget(HERE, place)
    assert not forget(HERE, place)
    assert prices_of(HERE, place) is SPARK


def test_another_machine_has_its_own(place: dict[str, str]) -> None:
    keep(calibration(), place)
    for other in ({"cpu": "one", "cores": "4"}, {"cpu": "two", "cores": "2"}, {"cpu": "one"}):
        assert prices_of(Machine(other), place) is SPARK
    assert Machine({"cores": "2", "cpu": "one"}).key == HERE.key


def test_they_can_be_left_out(place: dict[str, str]) -> None:
    keep(calibration(), place)
    off = place | {VARIABLE: "off"}
    assert prices_of(HERE, off) is SPARK
    assert file_of(HERE, off) is None
    with pytest.raises(TempuraError, match="CALIBRATION_NOT_KEPT"):
        keep(calibration(), off)
    assert not forget(HERE, off)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: text.replace('"cores": "2"', '"cores": "3"'),
        lambda text: text.replace("812.4", "81240.0"),
        lambda text: text.replace('"value": 812.4', '"value": NaN'),
        lambda text: text.replace('"built_in": 600.0', '"built_in": 300.0'),
        lambda text: text.replace("sort_row", "origin"),
        lambda text: text.replace("sort_row", "of_another_version"),
        lambda text: text.replace("2026-11-22T19:30:00+00:00", "yesterday"),
    ],
)
def test_a_file_that_is_not_right_is_not_used(change: Callable[[str], str], place: dict[str, str]) -> None:
    file = keep(calibration(), place)
    before = file.read_text()
    file.write_text(change(before))
    assert file.read_text() != before
    with pytest.warns(TempuraWarning, match="tempura calibrate") as told:
        assert prices_of(HERE, place) is SPARK
    assert len(told) == 1
    assert "\n" not in str(told[0].message)


def test_a_folder_that_cannot_be_written_to_is_told(place: dict[str, str]) -> None:
    Path(place["XDG_CACHE_HOME"], "tempura").write_text("a file")
    with pytest.raises(TempuraError, match="CALIBRATION_NOT_KEPT"):
        keep(calibration(), place)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({}, ""),
        ({"rounds": 2}, "only 2 rounds"),
        ({"noise": 0.4}, "CPU time of one job differs by 40%"),
        ({"waiting": 0.6}, "others are at work"),
    ],
)
def test_a_busy_machine_is_told(other: dict[str, Any], why: str) -> None:
    assert (calibration(**other).doubt != "") == bool(why)
    assert why in calibration(**other).doubt


def test_the_file_is_plain_and_says_what_it_is_of(place: dict[str, str]) -> None:
    data = json.loads(keep(calibration(), place).read_text())
    assert (data["format"], data["machine"], data["prices"]["sort_row"]["value"]) == (1, dict(HERE.about), 812.4)
    assert with_prices(calibration().prices, "x").origin == "x"
