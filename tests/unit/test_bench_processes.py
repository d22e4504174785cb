"""What commands take as seen from outside, and what is said of it."""

import signal
import sys
from pathlib import Path

import pytest

from tempura.bench.outside import run_outside, staying
from tempura.bench.processes import APART, FOLLOWED, NOTHING_NEW, PLAIN, SAME_SESSION, TOGETHER, Processes, summarised
from tempura.bench.suites import SUITES, that_get_rows
from tempura.errors import TempuraError

_BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_cpu_of_a_process_that_outlives_the_command_is_counted(tmp_path: Path) -> None:
    """As Java outlives the program that has started it."""
    command = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_BUSY!r}]); print('done')"
    ended = run_outside([sys.executable, "-c", command], tmp_path, {})
    assert ended.printed == "done\n"
    assert ended.wall_s > 0
    if sys.platform.startswith("linux"):
        assert ended.cpu_s is not None
        assert ended.cpu_s >= 0.3


def test_it_runs_where_and_with_what_it_is_told(tmp_path: Path) -> None:
    command = "import os; print(os.getcwd(), os.environ['TEMPURA_TEST'], 'PATH' in os.environ)"
    printed = run_outside([sys.executable, "-c", command], tmp_path, {"TEMPURA_TEST": "here"}).printed
    assert printed.split() == [str(tmp_path.resolve()), "here", "True"]


def test_a_command_that_fails_is_an_error_with_what_it_said(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such table')"]
    with pytest.raises(TempuraError, match=r"ended with 1: no such table") as error:
        run_outside(command, tmp_path, {}, allowed=(0, 3))
    assert error.value.code == "BAD_BENCHMARK"
    assert run_outside([sys.executable, "-c", "exit(3)"], tmp_path, {}, allowed=(0, 3)).printed == ""


def test_arrivals_are_as_many_as_refreshes() -> None:
    asked = Processes("tpch", 1.0, 0.01, repeat=3, warm_ups=1)
    assert asked.cut.sizes == (1.0, *[0.01] * 8), "four by one command, four by one each"

    assert Processes("tpch", 1.0, 0.01, followed=3).cut.sizes == (1.0, *[0.01] * 11), "three by one that stays"


def test_a_command_that_stays_is_read_and_measured_while_it_goes_on(tmp_path: Path) -> None:
    """What its child takes is counted with it. The child begins when what was taken before has been read."""
    waiting = "import os, time\nwhile not os.path.exists('read'): time.sleep(0.01)\n"
    busy = f"{waiting}begun = time.process_time()\nwhile time.process_time() - begun < 0.3: pass\nprint('done', flush=True)\ntime.sleep(60)"
    child = f"import subprocess, sys\nprint('begun', flush=True)\nsubprocess.run([sys.executable, '-c', {busy!r}])"
    command = f"import signal, os\nsignal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))\n{child}"
    with staying([sys.executable, "-c", command], tmp_path, {}) as process:
        assert process.line() == "begun\n"
        before = process.cpu_s()
        (tmp_path / "read").touch()
        assert process.line() == "done\n"
        after = process.cpu_s()
        if sys.platform.startswith("linux"):
            assert before is not None
            assert after is not None
            assert after - before >= 0.2
    assert process.process.returncode == -signal.SIGKILL
    with (
        staying([sys.executable, "-c", "import sys; sys.exit('no such table')"], tmp_path, {}) as ended,
        pytest.raises(TempuraError, match="ended: no such table"),
    ):
        ended.line()


def test_the_summary_has_a_command_that_stays_where_there_was_one() -> None:
    rows = [
        {"who": who, "measured": 0, "wall_s": wall_s, "cpu_s": wall_s}
        for who, wall_s in ((PLAIN, 8.0), (SAME_SESSION, 8.0), (TOGETHER, 8.0), (APART, 8.0), (NOTHING_NEW, 8.0))
    ]
    assert FOLLOWED not in summarised(rows)
    more = [{"who": FOLLOWED, "measured": n, "wall_s": 1.0, "cpu_s": 2.0} for n in (None, 0, 1)]
    assert summarised([*rows, *more])[FOLLOWED] == {"wall_s": 1.0, "cpu_s": 2.0, "wall_ratio": 0.12, "cpu_ratio": 0.25}


def test_queries_to_which_no_rows_come_are_left_out_and_told() -> None:
    texts = {"few": "SELECT * FROM nation", "many": "SELECT COUNT(*) FROM LineItem, nation"}
    said: list[str] = []
    assert that_get_rows(texts, SUITES["tpch"], said.append) == {"many": texts["many"]}
    assert said == ["few: left out, because no rows arrive in its tables"]


def test_the_summary_is_of_medians_of_what_was_measured() -> None:
    def row(who: str, measured: int | None, wall_s: float, cpu_s: float | None) -> dict[str, object]:
        return {"who": who, "measured": measured, "wall_s": wall_s, "cpu_s": cpu_s}

    rows = [row(who, None, 100.0, 100.0) for who in (PLAIN, SAME_SESSION, TOGETHER, APART)]
    rows += [row(PLAIN, n, wall_s, 20.0) for n, wall_s in enumerate((10.0, 11.0, 30.0))]
    rows += [row(TOGETHER, 0, 5.5, 5.0), row(APART, 0, 22.0, 40.0), row(SAME_SESSION, 0, 9.9, None)]
    rows += [row(NOTHING_NEW, 0, 1.1, 1.0)]
    assert summarised(rows) == {
        PLAIN: {"wall_s": 11.0, "cpu_s": 20.0, "wall_ratio": 1.0, "cpu_ratio": 1.0},
        SAME_SESSION: {"wall_s": 9.9, "cpu_s": None, "wall_ratio": 0.9, "cpu_ratio": None},
        TOGETHER: {"wall_s": 5.5, "cpu_s": 5.0, "wall_ratio": 0.5, "cpu_ratio": 0.25},
        APART: {"wall_s": 22.0, "cpu_s": 40.0, "wall_ratio": 2.0, "cpu_ratio": 2.0},
        NOTHING_NEW: {"wall_s": 1.1, "cpu_s": 1.0, "wall_ratio": 0.1, "cpu_ratio": 0.05},
    }
