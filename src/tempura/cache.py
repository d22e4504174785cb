"""Where Tempura keeps what can be made again: generated data, an archive of Java's classes."""

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """``tempura`` in the user's cache folder; whether it exists or not. Raises RuntimeError when the user has no home."""
    known = os.environ if environment is None else environment
    return Path(known.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tempura"
