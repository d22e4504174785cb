"""CSV files and their headers, the options of text formats, and the column that tells changes apart: what needs no Spark."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tempura.errors import TempuraError

CHANGE = "_change"
"""The column that tells inserts, deletes and updates apart."""

FORMATS = ("parquet", "csv", "json", "delta", "iceberg", "kafka")

_BOTH = (
    "dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone", "locale", "encoding", "lineSep", "multiLine",
)  # fmt: skip
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "parquet": (),
    "delta": (),
    "iceberg": (),
    "csv": (
        *_BOTH, "header", "sep", "quote", "escape", "comment", "nullValue", "emptyValue", "nanValue", "positiveInf",
        "negativeInf", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace",
    ),
    "json": (
        *_BOTH, "primitivesAsString", "allowComments", "allowUnquotedFieldNames", "allowSingleQuotes",
        "allowNumericLeadingZeros", "allowNonNumericNumbers",
    ),
}  # fmt: skip
"""The options of Spark's readers that may be given per format. Those that would let rows be lost are not among them."""


REWRITE = "Write it again whole, or take it out of the folder."


def check_format(format: str, options: Mapping[str, str]) -> None:
    """Raises TempuraError UNSUPPORTED_FORMAT or BAD_OPTION."""
    if format not in OPTIONS:
        raise TempuraError(
            "UNSUPPORTED_FORMAT", f"Format {format!r} is not known.", f"Use one of {', '.join(FORMATS)}."
        )
    known = OPTIONS[format]
    for name, value in options.items():
        if name not in known:
            remedy = f"Known: {', '.join(known)}." if known else "Leave it out."
            raise TempuraError("BAD_OPTION", f"Format {format} has no option {name!r}.", remedy)
        if name in ("sep", "quote") and len(value) > 1:
            raise TempuraError("BAD_OPTION", f"Option {name} is {value!r}, more than one character.", "Use one.")


def has_header(options: Mapping[str, str]) -> bool:
    """Whether the first line of each CSV file names the columns: unless the options say otherwise."""
    return options.get("header", "true").lower() != "false"


def header(path: Path, options: Mapping[str, str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The columns of a CSV file in its order, ``_change`` among them if it holds changes. An empty file has those wanted.

    Raises TempuraError WRONG_SCHEMA when they are not those wanted, FILE_UNREADABLE, BAD_OPTION for an unknown encoding.
    """
    found = _first_record(path, options) if has_header(options) else None
    if found is None:
        return tuple(wanted)
    for name in found:
        if name not in (*wanted, CHANGE):
            raise _wrong(path, f"there is a column {name!r}, but the table expects {', '.join(wanted)}")
        if found.count(name) > 1:
            raise _wrong(path, f"two columns have the name {name!r}")
    for name in wanted:
        if name not in found:
            raise _wrong(path, f"column {name} is missing")
    return tuple(found)


def _first_record(path: Path, options: Mapping[str, str]) -> list[str] | None:
    encoding = options.get("encoding", "utf-8-sig")
    try:
        with pa.input_stream(path, compression="detect") as stream:
            text = io.TextIOWrapper(stream, encoding, newline="")
            lines = csv.reader(text, delimiter=options.get("sep", ","), quotechar=options.get("quote") or '"')
            comment = options.get("comment")
            return next((line for line in lines if line and not (comment and line[0].startswith(comment))), None)
    except (UnicodeError, csv.Error) as error:
        raise _wrong(path, f"its header cannot be read: {error}") from error
    except OSError as error:
        if error.errno is not None or isinstance(error, FileNotFoundError | PermissionError):
            raise
        # Of what is wrong within a compressed file Arrow gives a sentence and no number of the system's.
        raise TempuraError("FILE_UNREADABLE", f"{path} cannot be read: {error}.", REWRITE) from error
    except LookupError as error:
        raise TempuraError("BAD_OPTION", f"Encoding {encoding!r} is not known.", "Correct the option.") from error


def _wrong(path: Path, what: str) -> TempuraError:
    remedy = "Write the file again with the table's columns, or take it out of the folder."
    return TempuraError("WRONG_SCHEMA", f"{path}: {what}.", remedy)
