"""A plan as a page."""

import os
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tempura.errors import TempuraError


def save_html(text: str, path: str | Path) -> None:
    """Write a plan's text as an HTML page that needs nothing else. Lines are as long as they are.

    Raises TempuraError FOLDER_MISSING when there is no folder for it.
    """
    if not Path(path).parent.is_dir():
        what = f"A page cannot be written to {path}: there is no folder {Path(path).parent}."
        raise TempuraError("FOLDER_MISSING", what, "Make the folder, or name another file.")
    lines = text.splitlines()
    console = Console(record=True, file=StringIO(), width=max(map(len, lines), default=80))
    for line in lines:
        heading = line.startswith(("method", "step", "alternatives"))
        console.print(Text(line, style="bold" if heading else ""), soft_wrap=True)
    temporary = Path(f"{path}.tmp")
    temporary.write_text(console.export_html(), encoding="utf-8")
    os.replace(temporary, path)
