"""Hashes of many values at once, as a theta sketch of Apache DataSketches has them, and the sketch that has the least of them.

To update a sketch with one value after the other takes a call from Python each. What it comes to is known: the hashes that are least, and
the next one as a bound (Beyer, Haas, Reinwald, Sismanis, Gemulla: On Synopses for Distinct-Value Estimation Under Multiset Operations,
SIGMOD 2007). The hash is what the library documents, the first half of MurmurHash3 with 128 bits, without its last bit; a sketch is made
of its portable bytes, version 3. So sketches that were made value by value can be merged with those that are made here.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from datasketches import compact_theta_sketch, update_theta_sketch
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
"""Of values that differ, each less than 2 ** 63; 0 of one that the library ignores."""

_SEED = np.uint64(9001)
_ONE, _OTHER = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_WORD = 8
"""Bytes that are multiplied at once; two words are a block."""
_PARTS = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)
"""The bits of a word's first bytes, by how many bytes."""
_VERSION, _FAMILY = 3, 3
_EMPTY, _FILLED = 0x1E, 0x1A
"""Flags of a compact sketch in order, without a value and with some."""
_SEED_MARK = update_theta_sketch(5).get_seed_hash().to_bytes(2, "little")


def hashes(values: pa.Array) -> Hashes:
    """Those of truth values, integers or floats of 64 bits, or texts, none of them NULL."""
    if pa.types.is_string(values.type):
        return _of_texts(values)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int64())
    words = values.to_numpy(zero_copy_only=False).view(np.uint64)
    first = np.full(len(words), _SEED)
    return _finished(first ^ _mixed(words, _ONE, 31, _OTHER), np.full(len(words), _SEED), np.uint64(_WORD))


def least(found: Hashes, lg: int) -> Any:
    """The compact theta sketch that keeps 2 ** ``lg`` of some hashes."""
    kept, most, bound = found[found != 0], 1 << lg, []
    if len(kept) > most:
        kept = np.partition(kept, most)[: most + 1]
        kept.sort()
        kept, bound = kept[:most], [kept[most]]
    else:
        kept.sort()
    # How many there are is left out of none and of one, the bound if there is no other hash.
    numbers = [*([len(kept)] if len(kept) > 1 else []), *bound]
    flags = _FILLED if len(kept) else _EMPTY
    head = bytes((1 + len(numbers), _VERSION, _FAMILY, 0, 0, flags)) + _SEED_MARK
    return compact_theta_sketch.deserialize(head + np.array(numbers, "<u8").tobytes() + kept.astype("<u8").tobytes())


def _of_texts(values: pa.Array) -> Hashes:
    """By blocks, all texts that are so long at once."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    size = int(ends[-1]) if len(values) else 0
    # Words begin at any byte, and the last ones end after the last text.
    bytes_ = np.zeros(size + 2 * _WORD, np.uint8)
    if size:
        bytes_[:size] = np.frombuffer(data, np.uint8, size)
    words = np.ndarray((size + _WORD,), "<u8", bytes_, strides=(1,))
    starts, lengths = ends[:-1], np.diff(ends)
    first, second = np.full(len(values), _SEED), np.full(len(values), _SEED)
    left = np.flatnonzero(lengths)
    block = 0
    while len(left):
        at, long = starts[left] + block, lengths[left] - block
        one = _mixed(words[at] & _PARTS[np.minimum(long, _WORD)], _ONE, 31, _OTHER)
        # What begins after the end of a text has no byte of it.
        other = words[np.minimum(at + _WORD, size)] & _PARTS[np.clip(long - _WORD, 0, _WORD)]
        first[left] ^= one
        whole = long >= 2 * _WORD
        inner = left[whole]
        first[inner] = (_turned(first[inner], 27) + second[inner]) * np.uint64(5) + np.uint64(0x52DCE729)
        second[left] ^= _mixed(other, _OTHER, 33, _ONE)
        second[inner] = (_turned(second[inner], 31) + first[inner]) * np.uint64(5) + np.uint64(0x38495AB5)
        left = left[long > 2 * _WORD]
        block += 2 * _WORD
    found = _finished(first, second, lengths.astype(np.uint64))
    found[lengths == 0] = 0
    return found


def _turned(words: Hashes, bits: int) -> Hashes:
    """Words with their bits rotated to the left."""
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _mixed(words: Hashes, factor: np.uint64, bits: int, after: np.uint64) -> Hashes:
    return _turned(words * factor, bits) * after


def _finished(first: Hashes, second: Hashes, lengths: Any) -> Hashes:
    first, second = first ^ lengths, second ^ lengths
    first = first + second
    second = second + first
    return (_spread(first) + _spread(second)) >> np.uint64(1)


def _spread(words: Hashes) -> Hashes:
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        words = (words ^ (words >> np.uint64(33))) * factor
    return words ^ (words >> np.uint64(33))
