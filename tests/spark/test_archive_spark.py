"""Sessions that map the classes of an archive, and sessions that find one that is no good."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tempura.frontend.archive import Archive
from tempura.frontend.start import find_java

_SESSION = """
import sys
from tempura.frontend.start import start_session
spark = start_session(cores=1, config={"spark.driver.extraJavaOptions": " ".join(sys.argv[2:])}, noting=sys.argv[1] == "noting")
print(spark.range(3).count())
"""


def session(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "TEMPURA_CLASS_ARCHIVE": "on",
        "XDG_CACHE_HOME": str(cache),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", _SESSION, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def archive(cache: Path) -> Archive:
    java = find_java()
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
@pytest.mark.full
def test_a_session_maps_what_an_earlier_one_has_loaded(tmp_path: Path) -> None:
    cache = tmp_path / "a cache"
    found = archive(cache)
    first = session(cache, "noting")
    assert (first.returncode, first.stdout, first.stderr) == (0, "3\n", "")
    for _ in range(600):
        if found.is_there:
            break
        time.sleep(0.2)
    assert found.is_there
    # With this option Java does not start where it cannot use the archive.
    or_nothing = "-Xshare:on" if found.path.suffix == ".jsa" else "-XX:AOTMode=on"
    second = session(cache, "noting", or_nothing)
    assert (second.returncode, second.stdout, second.stderr) == (0, "3\n", "")
    found.path.write_text("no archive")
    assert session(cache, "noting", or_nothing).returncode != 0, "the option does what this test relies on"
