"""Fixtures shared by all tests: one Spark session for the whole run, and golden texts (``pytest --rewrite`` regenerates them)."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from tempura.frontend.start import many_small_jobs, start_session

# Each checkout would leave an archive of 200 MB in the user's cache, and what is measured would depend on whether there is one.
os.environ.setdefault("TEMPURA_CLASS_ARCHIVE", "off")
# Plans are compared with texts, and chosen by prices: those that are built in, whatever was measured on this machine.
os.environ["TEMPURA_CALIBRATION"] = "off"
# How long an example takes is the machine's affair.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# What this process has left behind is not to be taken apart in a child that is forked off: some of it has threads, which the child has not.
os.register_at_fork(after_in_child=gc.freeze)


@pytest.fixture(scope="session", autouse=True)
def seldom_collected() -> None:
    """Python's collector of cycles walks through the many small objects of planning again and again, and finds next to nothing."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def not_flushed() -> Iterator[None]:
    """What a process has written outlives it: only a machine that stops loses what was not flushed, and here none does. That files are
    flushed in the right order is seen by those who watch ``Files``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session, started by the first test that needs Spark."""
    session = start_session("tempura-tests", cores=2, config=many_small_jobs() | {"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write the golden texts in tests/golden instead of comparing"
    )
    parser.addoption("--full", action="store_true", help="run the tests marked full as well: they take minutes each")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked ``full`` unless they are asked for."""
    if not config.getoption("--full"):
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)`` compares a text with ``tests/golden/<name>.txt``."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / f"{name}.txt"
        if request.config.getoption("--rewrite"):
            path.write_text(text + "\n", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text + "\n"

    return check
