"""Texts in JSON: whether a text is one value and nothing else. Spark's parser reads the first value of a text and drops what follows."""

from collections.abc import Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as fn

_END = "_tempura_end"
_READ = f"ARRAY<ARRAY<STRUCT<{_END} BOOLEAN>>>"
_SPACE = " \t\r\n\ufeff"
_DEPTH = 6
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_OTHER = "[^{}\"'/#]*+"
"""Neither braces, nor what a text or a comment may begin with."""


def _braced(depth: int) -> str:
    inner = f"(?:{_STRING}|{_braced(depth - 1)})" if depth else _STRING
    return rf"\{{{_OTHER}(?:{inner}{_OTHER})*+\}}"


_OBJECT = rf"^[\s\x{{FEFF}}]*+(?:(?:\{{[^{{}}]*+\}}|{_braced(_DEPTH)})\s*+)?$"
"""Blank, or ends with the brace that belongs to the first. Possessive throughout: time is linear, and nothing is stacked up."""


def is_one_value(text: SparkColumn, options: Mapping[str, str]) -> SparkColumn:
    """Whether nothing follows the first value of a text, which is well formed under the options of Spark's parser; so of a blank one.

    Most objects are told by their braces, in a fraction of the time of parsing; the others are parsed once more.
    """
    return fn.when(text.rlike(_OBJECT), fn.lit(True)).otherwise(_ends_alone(fn.trim(text, fn.lit(_SPACE)), options))


def _ends_alone(text: SparkColumn, options: Mapping[str, str]) -> SparkColumn:
    """Whether a mark after the text is found where it has to be."""
    is_list = text.startswith("[")
    values = fn.when(is_list, text).otherwise(fn.concat(fn.lit("["), text, fn.lit("\n]")))
    marked = fn.concat(fn.lit("["), values, fn.lit(f'\n,[{{"{_END}": true}}]]'))
    read = fn.from_json(marked, _READ, dict(options))
    alone = (fn.size(read) == 2) & read[1][0][_END] & (is_list | (fn.size(read[0]) == 1))
    return (text == "") | fn.coalesce(alone, fn.lit(False))
