"""Log acts that SQLite silently drops from the write-ahead log, because an earlier part of it is damaged.

Each page in the log has a checksum over all before it, and reading ends at a wrong one. After a loss of power that is
the start of the last, unfinished act. Every act is on disk before the next begins. So two finished acts behind that
position were once acknowledged, and are lost (SQLite file format, sections 4.1 and 4.2).
"""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path
from typing import IO, Final

import numpy as np
import numpy.typing as npt

_HEAD: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
_PAGE_SIZES: Final = frozenset(1 << power for power in range(9, 17))
_MASK: Final = 0xFFFFFFFF
_Weights = npt.NDArray[np.uint64]


def lost_acts(log: Path) -> int:
    """Return how many finished acts lie behind a damaged position; 0 for a sound log, or one that ends in a single
    act.

    Reads a log while others write to it: one that is started again meanwhile has lost nothing.
    """
    try:
        with log.open("rb") as file:
            head = file.read(_HEAD.size)
            n_lost = _finished_behind(head, file)
            file.seek(0)
            return n_lost if n_lost > 1 and file.read(_HEAD.size) == head else 0
    except FileNotFoundError:
        return 0


def _finished_behind(head: bytes, file: IO[bytes]) -> int:
    if len(head) < _HEAD.size:
        return 0
    magic, _, page_size, _, *salts, first, second = _HEAD.unpack(head)
    order = ">" if magic & 1 else "<"
    sums = _checksum(head[:-8], order, (0, 0))
    is_whole = magic | 1 == _MAGIC | 1 and page_size in _PAGE_SIZES and sums == (first, second)
    if not is_whole:  # then the pages say best how large they are
        page_size, salts = _guessed(file)
    n_lost = 0
    while len(frame := file.read(_FRAME.size + page_size)) == _FRAME.size + page_size:
        _, n_pages, *of_frame, first, second = _FRAME.unpack_from(frame)
        if of_frame != salts:  # from before the log was started again
            break
        if is_whole:
            sums = _checksum(frame[:8] + frame[_FRAME.size :], order, sums)
            is_whole = sums == (first, second)
        if not is_whole and n_pages:
            n_lost += 1
    return n_lost


def _guessed(file: IO[bytes]) -> tuple[int, list[int]]:
    """Page size and salts by which the first page is followed by the next, where the log's own head is damaged."""
    content = file.read(2 * _FRAME.size + max(_PAGE_SIZES))
    file.seek(_HEAD.size)
    salts = content[8:16]
    sizes = [size for size in _PAGE_SIZES if content[_FRAME.size + size :][8:16] == salts]
    return min(sizes, default=max(_PAGE_SIZES)), [int.from_bytes(salts[:4]), int.from_bytes(salts[4:])]


def _checksum(content: bytes, order: str, before: tuple[int, int]) -> tuple[int, int]:
    """SQLite's running sum ``s0 += x[i] + s1; s1 += x[i+1] + s0``, over all words at once."""
    words = np.frombuffer(content, f"{order}u4").astype(np.uint64)
    of_words, of_before = _weights(len(words))
    sums = (of_words @ words) + (of_before @ np.array(before, np.uint64))
    return int(sums[0]) & _MASK, int(sums[1]) & _MASK


@lru_cache(maxsize=8)
def _weights(n_words: int) -> tuple[_Weights, _Weights]:
    """Return how often each word, and each of the two previous sums, counts in the two next sums; modulo 2 ** 32."""
    of_words = np.zeros((2, n_words), np.uint64)
    sums = np.eye(2, dtype=np.uint64)
    mask = np.uint64(_MASK)
    for index in range(n_words - 2, -2, -2):  # from the end: what a pair adds goes through all later pairs
        of_words[:, index] = sums[:, 0] + sums[:, 1]
        of_words[:, index + 1] = sums[:, 1]
        sums = np.stack([sums[:, 0] + sums[:, 1], sums[:, 0] + 2 * sums[:, 1]], axis=1) & mask
        of_words &= mask
    return of_words, sums
