"""Plans that are put together before Spark looks at them."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tempura.errors import TempuraError
from tempura.execute import functions as fn
from tempura.execute.draft import Draft
from tempura.execute.naming import attribute


@pytest.mark.parametrize("name", ["", " ", "a.b`", "*", "count(1)", "ü\n"])
def test_a_name_means_the_column_of_exactly_that_name(spark: SparkSession, name: str) -> None:
    named = Draft.of(spark.range(2)).renamed(name)
    kept = named.select(name, (name, "other"), fn.lit(1).alias("one"))
    assert kept.dataframe().columns == [name, "other", "one"]
    counted = kept.aggregate([name], [fn.sum("one").alias("n")]).partitioned(2, [name])
    assert sorted(map(tuple, counted.dataframe().collect())) == [(0, 1), (1, 1)]


@pytest.mark.parametrize("name", ["a\0b", "\1", "a\2"])
def test_names_that_would_be_taken_for_others_are_refused(spark: SparkSession, name: str) -> None:
    rows = Draft.of(spark.range(2))
    makers: tuple[Callable[[], Draft], ...] = (
        lambda: rows.renamed(name),
        lambda: rows.select(("id", name)),
        lambda: rows.aggregate([name], []),
    )
    for make in makers:
        with pytest.raises(TempuraError) as refusal:
            make()
        assert refusal.value.code == "NOT_EXECUTABLE"


def test_values_and_names_keep_their_places(spark: SparkSession) -> None:
    rows = Draft.of(spark.range(3)).select(fn.lit("a").alias("x"), "id", (-attribute("id")).alias("y"), ("id", "z"))
    assert [tuple(row) for row in rows.sort(attribute("id").desc_nulls_last()).limit(1).dataframe().collect()] == [
        ("a", 2, -2, 2)
    ]
