"""A program for processes of their own: a query that needs more memory than Spark has (main), and one that needs less (again).

Prints the code of the error and what is said; then how many runs are committed, how much is left of the attempt, and the rows of the
result, and whether it is right. Arguments: main or again, and a folder.
"""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import tempura as tp
from tempura.errors import TempuraError

COUNT = "SELECT COUNT(*) AS n FROM t WHERE size(array_repeat(k, {})) > 0"


def main(folder: Path) -> None:
    (folder / "lake").mkdir()
    pq.write_table(pa.table({"k": [1, 2]}), folder / "lake" / "a.parquet")
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    wh = tp.open(folder / "wh", spark=spark)
    wh.add_table("t", path=folder / "lake")
    query = wh.add_query("q", COUNT.format(400_000_000))
    try:
        query.run()
    except TempuraError as error:
        print(error.code, error.what, sep="|", flush=True)


def again(folder: Path) -> None:
    """In a new process, with a query that needs less."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    wh = tp.open(folder / "wh", spark=spark)
    print(len(wh.query("q").history()))
    wh.gc()
    print(len(list((wh.path / "queries/q/attempts").iterdir())))
    wh.replace_query("q", COUNT.format(4))
    print(wh.query("q").run().rows, bool(wh.query("q").verify()), flush=True)


if __name__ == "__main__":
    {"main": main, "again": again}[sys.argv[1]](Path(sys.argv[2]))
