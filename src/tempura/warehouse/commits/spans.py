"""Ranges of a numbered sequence that are kept together as it grows: sixteen of one length make one of the next.

A range is ``(after, upto)``: the entries after one number up to another. Whatever has been kept together is found again in few
ranges: at most fifteen of each length, and the last entries one by one.
"""

from collections.abc import Iterator

Span = tuple[int, int]

FAN = 16
"""How many ranges of one length make one of the next."""


def spans(count: int, after: int = 0) -> Iterator[Span]:
    """The longest ranges of 16, 256, 4096 … entries, each beginning at a multiple of its length, that make up the entries after one up to
    the last, but for the last few. ``after`` is a multiple of 16."""
    at = after
    while count - at >= FAN:
        length = FAN
        while at % (length * FAN) == 0 and at + length * FAN <= count:
            length *= FAN
        yield at, at + length
        at += length
