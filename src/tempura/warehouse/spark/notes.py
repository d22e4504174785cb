"""What Spark said of texts, schemas and the machine, noted, so that a command that only looks and plans does not start it.

A note is a JSON file in ``.tempura/noted``: ``{"format": 1, "of": INSTALLATION, "question": …, "answer": …}``. It is believed by an
installation of the same Tempura, Spark and settings of Spark only, and only until Spark runs: then Spark is asked. So it may be lost, or
be wrong, without harm; one that cannot be read is none.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import pyspark
from pyspark.find_spark_home import _find_spark_home

from tempura.frontend.start import driver_memory, usable_cores

FORMAT = 1

_UNUSED = 30 * 86_400
"""Seconds after which a note that nobody has asked for goes."""

_CODE = ("algebra", "frontend", "frontend/janino")
"""Whose code decides what a text means."""


class Notes:
    """The notes in a folder, which is made when something is noted. ``of`` is the installation; this process's, if it is not given."""

    def __init__(self, folder: Path, of: str | None = None) -> None:
        self._folder = folder
        # Now: pyspark sets variables of the environment when it starts Spark.
        self._of = installation() if of is None else of

    def answer(self, question: Mapping[str, Any]) -> Any | None:
        """What was noted of a question; None where nothing was, by this installation."""
        path = self._path(question)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            is_known = found["format"] == FORMAT and found["of"] == self._of and found["question"] == question
            answer = found["answer"] if is_known else None
        except (OSError, ValueError, TypeError, KeyError):
            return None
        with suppress(OSError):
            os.utime(path)
        return answer

    def note(self, question: Mapping[str, Any], answer: Any) -> None:
        """Note an answer, in the place of an earlier one. What cannot be written is not noted."""
        path = self._path(question)
        text = json.dumps({"format": FORMAT, "of": self._of, "question": question, "answer": answer}, indent=1)
        part = path.with_suffix(f".{os.getpid()}.part")
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            part.write_text(text, encoding="utf-8")
            part.replace(path)
            for other in self._folder.iterdir():
                if time.time() - other.stat().st_mtime > _UNUSED:
                    other.unlink(missing_ok=True)

    def _path(self, question: Mapping[str, Any]) -> Path:
        about = json.dumps(question, sort_keys=True).encode()
        return self._folder / f"{question['about']}-{hashlib.sha256(about).hexdigest()[:16]}.json"


def installation() -> str:
    """What decides how Spark would answer if it were started by Tempura: versions, code, settings, the machine's size."""
    spark = Path(_find_spark_home())
    conf = Path(os.environ.get("SPARK_CONF_DIR") or spark / "conf")
    environment = sorted(
        f"{name}={value}" for name, value in os.environ.items() if name.startswith(("SPARK_", "PYSPARK_"))
    )
    parts = [
        pyspark.__version__,
        str(spark),
        *(_content(conf / name) for name in ("spark-defaults.conf", "spark-env.sh")),
        *environment,
        os.environ.get("JAVA_HOME", ""),
        shutil.which("java") or "",
        str(usable_cores()),
        str(driver_memory()),
        *(_code(package) for package in _CODE),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _content(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _code(package: str) -> str:
    folder = resources.files("tempura").joinpath(package)
    files = sorted((file for file in folder.iterdir() if file.is_file()), key=lambda file: file.name)
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
