"""Hashes of many values at once: that a sketch made of them is, byte by byte, the one that the library makes value by value."""

from collections.abc import Iterable, Sequence
from math import inf, nan
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datasketches import theta_intersection, theta_union, update_theta_sketch
from hypothesis import given, settings
from hypothesis import strategies as st

from tempura.warehouse.batches.hashes import hashes, least
from tempura.warehouse.batches.sketch import sketched

LG = 5


def by_library(values: Iterable[Any], lg: int = LG) -> bytes:
    sketch = update_theta_sketch(lg)
    for value in values:
        sketch.update(value)
    sketch.trim()
    return bytes(sketch.compact().serialize())


def at_once(values: Sequence[Any], type: pa.DataType, lg: int = LG) -> bytes:
    return bytes(least(hashes(pa.array(values, type)), lg).serialize())


@settings(max_examples=150)
@given(st.sets(st.integers(-(2**63), 2**63 - 1), max_size=200))
def test_integers(values: set[int]) -> None:
    assert at_once([*values], pa.int64()) == by_library(values)


@settings(max_examples=150)
@given(st.sets(st.floats(allow_nan=False).map(lambda value: value + 0.0), max_size=200))
def test_floats(values: set[float]) -> None:
    assert at_once([*values], pa.float64()) == by_library(values)


@settings(max_examples=150)
@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), max_size=200))
def test_texts(values: set[str]) -> None:
    assert at_once([*values], pa.string()) == by_library(values)


def test_texts_of_any_length() -> None:
    texts = ["x" * n + "é" * (n % 3) for n in range(130)]
    for text in texts:
        assert at_once([text], pa.string()) == by_library([text]), len(text)
    assert bytes(least(hashes(pa.array(["-", *texts])[1:]), LG).serialize()) == by_library(texts)
    assert len(hashes(pa.array([], pa.string()))) == 0


@pytest.mark.parametrize("values", [[True], [False], [True, False], []])
def test_truth_values_are_those_of_zero_and_one(values: list[bool]) -> None:
    assert at_once(values, pa.bool_()) == by_library(values) == by_library(map(int, values))


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 959, 960, 961, 20_000])
def test_any_number_of_values(count: int) -> None:
    values = Random(count).sample(range(10**9), count)
    assert at_once(values, pa.int64(), 9) == by_library(values, 9)


def test_what_is_made_here_and_there_is_merged() -> None:
    """Stored sketches of earlier versions were made value by value."""
    here, there = least(hashes(pa.array(range(3_000))), 9), update_theta_sketch(9)
    for value in range(1_000, 4_000):
        there.update(value)
    union, common = theta_union(9), theta_intersection()
    for sketch in (here, there.compact()):
        union.update(sketch)
        common.update(sketch)
    assert bytes(union.get_result().serialize()) == by_library(range(4_000), 9)
    assert common.get_result().get_estimate() == pytest.approx(2_000, rel=0.2)


def test_zeros_are_one_value_and_so_is_all_that_is_no_number() -> None:
    other = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    values = pa.array(np.array([0.0, -0.0, nan, *other, inf, 1.0]))
    found = sketched([values, values], 14)
    assert found is not None
    assert (found.distinct, found.repeated) == (4, 4)
    assert bytes(found.seen.serialize()) == by_library([0.0, nan, inf, 1.0], 9)
    assert found.shares() == {"0": pytest.approx(4 / 14), "1": pytest.approx(2 / 14)}
    assert found.spans == ()
