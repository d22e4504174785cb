"""The archive of Java's classes: when there is one, who makes it, and that nobody is harmed by it. That Spark starts with one is in
``tests/spark/test_archive_spark.py``."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tempura.execute.machine import _machine_options
from tempura.frontend.archive import Archive, make, own_folder

HOTSPOT = 'openjdk version "17.0.1"\nOpenJDK 64-Bit Server VM (build 17.0.1, mixed mode)'


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A Java that makes an archive of a list of classes: its arguments. It fails when there is no list."""
    program = tmp_path / "java"
    program.write_text(
        "#!/bin/sh\nfor a; do case $a in\n-XX:SharedClassListFile=* | -XX:AOTConfiguration=*) list=${a#*=} ;;\n"
        "-XX:SharedArchiveFile=* | -XX:AOTCache=*) to=${a#*=} ;;\n"
        'esac; done\n[ -f "$list" ] || exit 1\nprintf "%s\\n" "$@" >"$to"\n'
    )
    program.chmod(0o755)
    return program


def archive(tmp_path: Path, java: Path, says: str = HOTSPOT, version: int = 17) -> Archive:
    found = Archive.of(java, version, says, {"XDG_CACHE_HOME": str(tmp_path)})
    assert found
    return found


def test_each_java_has_one_of_its_own(tmp_path: Path, java: Path) -> None:
    first = archive(tmp_path, java)
    assert first == archive(tmp_path, java)
    assert first.path != archive(tmp_path, java, HOTSPOT.replace("17.0.1", "17.0.2")).path
    other = tmp_path / "other"
    other.touch()
    assert first.path != archive(tmp_path, other).path


def test_another_spark_has_another(tmp_path: Path, java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = archive(tmp_path, java)
    for name in ("a", "b"):
        (tmp_path / name / "jars").mkdir(parents=True)
        monkeypatch.setenv("SPARK_HOME", str(tmp_path / name))
        assert archive(tmp_path, java).path != first.path
        first = archive(tmp_path, java)
    os.utime(tmp_path / "b" / "jars", (1, 1))
    assert archive(tmp_path, java).path != first.path
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "c"))
    assert Archive.of(java, 17, HOTSPOT, {"XDG_CACHE_HOME": str(tmp_path)}) is None


def test_there_is_none_for_another_virtual_machine_or_when_it_is_turned_off(tmp_path: Path, java: Path) -> None:
    here = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert Archive.of(java, 17, "Eclipse OpenJ9 VM", here) is None
    assert Archive.of(java, 17, HOTSPOT, here | {"TEMPURA_CLASS_ARCHIVE": "off"}) is None
    assert not (tmp_path / "cache").exists()


def test_the_folder_is_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert own_folder({}) == tmp_path / ".cache" / "tempura"
    assert (tmp_path / ".cache" / "tempura").stat().st_mode & 0o777 == 0o700
    assert own_folder({"XDG_CACHE_HOME": str(tmp_path / "x")}) == tmp_path / "x" / "tempura"
    (tmp_path / "x" / "tempura").chmod(0o777)
    assert own_folder({"XDG_CACHE_HOME": str(tmp_path / "x")}) is None, "others could put classes there"
    (tmp_path / "file").touch()
    assert own_folder({"XDG_CACHE_HOME": str(tmp_path / "file")}) is None

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert own_folder({}) is None


def test_the_first_session_notes_and_those_after_it_map(tmp_path: Path, java: Path) -> None:
    found = archive(tmp_path, java)
    assert found.is_wanted
    assert found.options(noting=False) == ()
    assert found.options(noting=True)[0] == f"-XX:DumpLoadedClassList={found.classes}"
    found.path.touch()
    os.utime(found.path, (1, 1))
    assert not found.is_wanted
    assert found.options(noting=False)[0] == found.options(noting=True)[0] == f"-XX:SharedArchiveFile={found.path}"
    assert time.time() - found.path.stat().st_mtime < 60, "it is used, so it stays"


def test_a_java_that_can_keeps_what_it_has_learnt_of_the_code_too(tmp_path: Path, java: Path) -> None:
    assert [archive(tmp_path, java, version=version).path.suffix for version in (17, 24, 25, 29)] == [
        ".jsa",
        ".jsa",
        ".aot",
        ".aot",
    ]
    found = archive(tmp_path, java, version=25)
    assert found.options(noting=True)[:2] == ("-XX:AOTMode=record", f"-XX:AOTConfiguration={found.classes}")
    found.path.touch()
    assert found.options(noting=True)[0] == f"-XX:AOTCache={found.path}"


@pytest.mark.parametrize("version", [17, 25])
def test_a_session_that_notes_or_maps_is_no_other_machine(tmp_path: Path, java: Path, version: int) -> None:
    """What was calibrated, and what is noted of queries, is found by the machine, its options included."""
    found = archive(tmp_path, java, version=version)
    noting = found.options(noting=True)
    found.path.touch()
    for options in (noting, found.options(noting=True)):
        assert options
        assert _machine_options(" ".join(("-XX:+UseSerialGC", *options))) == ["-XX:+UseSerialGC"]


@pytest.mark.parametrize("version", [17, 25])
def test_it_is_made_when_the_process_has_ended(tmp_path: Path, java: Path, version: int) -> None:
    found = archive(tmp_path, java, version=version)
    program = (
        "from pathlib import Path; from tempura.frontend.archive import Archive; import os\n"
        f"found = Archive(Path({str(found.path)!r}), Path({str(java)!r}))\n"
        "found.make_after(os.getpid(), 'a.jar:b.jar', ['--add-opens=here=there'])\n"
        "found.classes.write_text('Some')\n"
        "assert found.is_wanted\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"PYTHONPATH": "src"})
    assert not found.is_wanted, "one tries it at a time"
    for _ in range(600):
        if found.is_there:
            break
        time.sleep(0.05)
    given = found.path.read_text().splitlines()
    assert (given[1], given[-2:]) == ("--add-opens=here=there", ["-cp", "a.jar:b.jar"])
    for _ in range(600):
        if not list(found.path.parent.glob("*.list")):
            break
        time.sleep(0.05)
    left = {path.suffix for path in found.path.parent.iterdir()}
    assert left == {".jsa" if version < 25 else ".aot", ".tried"}


def test_what_cannot_be_made_is_tried_again_a_day_later(tmp_path: Path, java: Path) -> None:
    found = archive(tmp_path, java)
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert not make(ended.pid, found, found.classes, "a.jar")
    assert not list(found.path.parent.iterdir()), "no part of it is left"
    tried = found.path.with_suffix(".tried")
    tried.touch()
    assert not found.is_wanted
    os.utime(tried, (time.time() - 90_000,) * 2)
    assert found.is_wanted


def test_archives_that_nobody_uses_go(tmp_path: Path, java: Path) -> None:
    found = archive(tmp_path, java)
    old, new = (found.path.with_name(f"classes-{name}.jsa") for name in ("old", "new"))
    for path, days in ((old, 40), (new, 20)):
        path.touch()
        os.utime(path, (time.time() - days * 86_400,) * 2)
    found.classes.write_text("Some")
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert make(ended.pid, found, found.classes, "a.jar")
    assert (found.is_there, new.exists(), old.exists()) == (True, True, False)
