"""Large blocks of memory within one mapped file, and the watch that keeps what is resident below a limit.

The state of an arena is an int64 array: the numbers named below, then a table of blocks, which lie one after the other
and fill the arena's range of addresses; neighbours that are free are one block. A block is `START`, `LENGTH` (whole
pages) and `FREE`. The first that is large enough is taken: what was freed is used again, and the file stays as small as
the most that was used at once.

A hook is an int64 array as well: the arena's address, and the allocator that was there before, which serves whatever is
small, or finds no room here. The functions at the end are called by numpy and by Python in place of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from vber_cli.model.compile_kernels import kernel, leaf

BASE, SIZE, FILE, PAGE = range(4)  # the range of addresses in bytes, the file behind it, the size of a page
LEAST = 4  # bytes of the smallest block that is served
N_BLOCKS, USED, MOST_USED, REFUSED = range(5, 9)  # bytes in use now and at most; how often there was no room
RESERVED, TOUCHED = 9, 10  # bytes from the base on that have room on the disk, and that were ever given out
STATM, AIM, LIMIT = range(11, 14)  # /proc/self/statm; bytes that should be resident at most, and that must not be more
PROGRAM, MOST_OUTSIDE = range(14, 16)  # bytes resident of the program's files; most bytes that no file is behind
STOP, HAND, EVICTED = range(16, 19)  # whether to end, where to go on, bytes let go of
ROOM = 19  # bytes that the file may have: the rest of the disk is for others
LOCK = 24  # eight words: a mutex of the C library, for which zeros are an open one
TEXT_OF_WATCH, TEXT_OF_OTHERS, _TEXT = 32, 40, 64  # where the bytes of statm are read to, and how many
TABLE, WIDTH, START, LENGTH, FREE = 48, 3, 0, 1, 2
MOST_BLOCKS = 1 << 14
STATE_LENGTH = TABLE + WIDTH * MOST_BLOCKS

ARENA, CONTEXT, MALLOC, CALLOC, REALLOC, RELEASE = range(6)
HOOK_LENGTH = 6

_RESERVED_AT_ONCE = 1 << 26  # bytes of the file
_TICK, _LONG_TICK = 500, 50_000  # microseconds between looks; where nothing more can be let go of
_SLICES = 32  # of the aim: what is let go of between two looks
_MOST_AHEAD = 8  # one part of so many of the aim: what room is made for before it is asked for
_LOWER = 16  # one part of so many of the aim
_WINDOW = 1 << 26  # bytes of the arena that may be resident whatever the aim is, while the limit allows it
_DONT_NEED = 4  # MADV_DONTNEED: of a mapped file the pages leave the process, and keep what was written

_word = nb.types.int64


def _c_function(name: str, n_arguments: int, returns: Any = _word) -> Any:
    """A function of the C library; what is narrower than a word is passed as one."""
    return nb.types.ExternalFunction(name, returns(*[_word] * n_arguments))


_fallocate = _c_function("posix_fallocate", 3, nb.types.int32)
_ftruncate = _c_function("ftruncate", 2, nb.types.int32)
_madvise = _c_function("madvise", 3, nb.types.int32)
_usleep = _c_function("usleep", 1, nb.types.int32)
_lock, _unlock = (
    _c_function("pthread_mutex_lock", 1, nb.types.int32),
    _c_function("pthread_mutex_unlock", 1, nb.types.int32),
)
_pread, _memset, _memcpy = _c_function("pread", 4), _c_function("memset", 3), _c_function("memcpy", 3)


@leaf
def take(arena: np.ndarray, size: int) -> tuple[int, bool]:
    """Take a free block of at least so many bytes.

    Returns
    -------
    tuple
        Its address, 0 where there is no room; and whether it was never in use, so that it holds zeros.
    """
    length = (size + arena[PAGE] - 1) // arena[PAGE] * arena[PAGE]
    for i in range(arena[N_BLOCKS]):
        at = TABLE + WIDTH * i
        if arena[at + FREE] == 0 or arena[at + LENGTH] < length:
            continue
        split = arena[at + LENGTH] > length
        end = arena[at + START] + length - arena[BASE]
        if split and arena[N_BLOCKS] == MOST_BLOCKS:
            continue
        if not _reserve(arena, end):
            arena[REFUSED] += 1
            break
        if split:
            for j in range(TABLE + WIDTH * arena[N_BLOCKS] - 1, at - 1, -1):
                arena[j + WIDTH] = arena[j]
            arena[N_BLOCKS] += 1
            arena[at + LENGTH] = length
            arena[at + WIDTH + START] += length
            arena[at + WIDTH + LENGTH] -= length
        arena[at + FREE] = 0
        arena[USED] += length
        arena[MOST_USED] = max(arena[MOST_USED], arena[USED])
        fresh = arena[at + START] - arena[BASE] >= arena[TOUCHED]
        arena[TOUCHED] = max(arena[TOUCHED], end)
        return arena[at + START], fresh
    return 0, False


@leaf
def _reserve(arena: np.ndarray, end: int) -> bool:
    """Make sure that the disk has room for the file up to there: to write where it has none would end the process."""
    more = end - arena[RESERVED]
    if more <= 0:
        return True
    if end > arena[ROOM]:
        return False
    generous = max(more, min(_RESERVED_AT_ONCE, arena[ROOM] - arena[RESERVED]))
    for length in (generous, more):
        if _fallocate(arena[FILE], arena[RESERVED], length) == 0:
            arena[RESERVED] += length
            return True
        _ftruncate(arena[FILE], arena[RESERVED])  # what it had taken of the disk before it failed
    return False


@leaf
def give_back(arena: np.ndarray, address: int) -> None:
    """Free a block; what it becomes one with may be before or behind it."""
    i = block_at(arena, address)
    at = TABLE + WIDTH * i
    arena[at + FREE] = 1
    arena[USED] -= arena[at + LENGTH]
    if i + 1 < arena[N_BLOCKS] and arena[at + WIDTH + FREE] == 1:
        _join_next(arena, at)
    if i > 0 and arena[at - WIDTH + FREE] == 1:
        _join_next(arena, at - WIDTH)


@leaf
def _join_next(arena: np.ndarray, at: int) -> None:
    arena[at + LENGTH] += arena[at + WIDTH + LENGTH]
    arena[N_BLOCKS] -= 1
    for j in range(at + WIDTH, TABLE + WIDTH * arena[N_BLOCKS]):
        arena[j] = arena[j + WIDTH]


@leaf
def block_at(arena: np.ndarray, address: int) -> int:
    """Which block in the table begins at an address, or holds it."""
    low, high = 0, arena[N_BLOCKS] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if arena[TABLE + WIDTH * middle + START] <= address:
            low = middle
        else:
            high = middle - 1
    return low


@leaf
def _within(arena: np.ndarray, address: int) -> bool:
    return bool(arena[BASE] <= address < arena[BASE] + arena[SIZE])


@leaf
def resident_bytes(arena: np.ndarray, text: int) -> tuple[int, int]:
    """How much of the process is resident, and how much of that no file is behind.

    It is the second number of /proc/self/statm, in pages, and what that is more than the third. They are read to
    `arena[text]`.
    """
    n = _pread(arena[STATM], arena.ctypes.data + text * arena.itemsize, _TEXT, 0)
    spaces, resident, of_files = 0, 0, 0
    for i in range(n):
        letter = (arena[text + i // 8] >> (8 * (i % 8))) & 0xFF
        if letter == ord(" "):
            spaces += 1
        elif spaces == 1:
            resident = 10 * resident + letter - ord("0")
        elif spaces == 2:
            of_files = 10 * of_files + letter - ord("0")
    outside = (resident - of_files) * arena[PAGE]
    arena[MOST_OUTSIDE] = max(arena[MOST_OUTSIDE], outside)
    return resident * arena[PAGE], outside


@leaf
def _excess(arena: np.ndarray, text: int) -> int:
    """How many bytes more are resident than should be; negative where there is room."""
    resident, outside = resident_bytes(arena, text)
    return int(resident - max(arena[AIM], min(outside + arena[PROGRAM] + _WINDOW, arena[LIMIT])))


@leaf
def make_room(arena: np.ndarray, size: int, text: int) -> bool:
    """Let go of the arena's pages, some at a time and round by round, until so much more may be resident.

    What is let go of comes back from the file when it is used: that takes time and changes nothing, whoever uses
    it meanwhile.

    Returns
    -------
    bool
        Whether there is so much room now.
    """
    part = max(arena[AIM] // _SLICES // arena[PAGE], 1) * arena[PAGE]
    done = 0
    while _excess(arena, text) + size > 0:
        if done >= arena[TOUCHED]:  # what others use comes back meanwhile: all at once leaves them no time for that
            _madvise(arena[BASE], arena[TOUCHED], _DONT_NEED)
            return bool(_excess(arena, text) + size <= 0)
        if arena[HAND] >= arena[TOUCHED]:
            arena[HAND] = 0
        length = min(part, arena[TOUCHED] - arena[HAND])
        _madvise(arena[BASE] + arena[HAND], length, _DONT_NEED)
        arena[HAND] += length
        arena[EVICTED] += length
        done += length
    return True


@kernel
def watch_kernel(arena: np.ndarray) -> None:
    """Make room whenever more is resident than should be, until told to stop.

    Where more than the limit was resident, the looks were too far between for what the run does: it aims lower then.
    """
    lowest = arena[LIMIT] // 2
    while arena[STOP] == 0:
        _usleep(_TICK)
        if resident_bytes(arena, TEXT_OF_WATCH)[0] > arena[LIMIT]:
            arena[AIM] = max(arena[AIM] - arena[AIM] // _LOWER, min(arena[AIM], lowest))
        if not make_room(arena, 0, TEXT_OF_WATCH):
            _usleep(_LONG_TICK)


def _type_words_at(_context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
    """An address as a pointer to words."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())

    pointer: Any = nb.types.CPointer
    return pointer(_word)(address), generate


def _type_called(_context: Any, function: Any, arguments: Any) -> tuple[Any, Callable[..., Any]]:
    """What the C function at an address returns for a tuple of words."""

    def generate(_context: Any, builder: Any, _signature: Any, words: Any) -> Any:
        given = [builder.extract_value(words[1], i) for i in range(len(arguments))]
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * len(given))
        return builder.call(builder.inttoptr(words[0], kind.as_pointer()), given)

    return _word(function, arguments), generate


_words_at: Any = intrinsic(_type_words_at)
_called: Any = intrinsic(_type_called)
_array: Any = nb.carray  # type: ignore[attr-defined]


@leaf
def _block_for(arena: np.ndarray, size: int) -> tuple[int, bool]:
    """A block of the arena, or 0, for something small or where there is no room."""
    if size < arena[LEAST]:
        return 0, False
    _lock(arena.ctypes.data + LOCK * arena.itemsize)
    address, fresh = take(arena, size)
    make_room(arena, min(size, arena[AIM] // _MOST_AHEAD), TEXT_OF_OTHERS)
    _unlock(arena.ctypes.data + LOCK * arena.itemsize)
    return address, fresh


@leaf
def _release(arena: np.ndarray, address: int) -> None:
    _lock(arena.ctypes.data + LOCK * arena.itemsize)
    give_back(arena, address)
    _unlock(arena.ctypes.data + LOCK * arena.itemsize)


@leaf
def _length_of(arena: np.ndarray, address: int) -> int:
    _lock(arena.ctypes.data + LOCK * arena.itemsize)
    length = int(arena[TABLE + WIDTH * block_at(arena, address) + LENGTH])
    _unlock(arena.ctypes.data + LOCK * arena.itemsize)
    return length


@nb.cfunc(_word(_word, _word), cache=True)
def allocate(at: int, size: int) -> int:
    """`malloc` of a hook."""
    hook = _array(_words_at(at), (HOOK_LENGTH,))
    address, _ = _block_for(_array(_words_at(hook[ARENA]), (STATE_LENGTH,)), size)
    if address == 0:
        address = _called(hook[MALLOC], (hook[CONTEXT], size))
    return int(address)


@nb.cfunc(_word(_word, _word, _word), cache=True)
def allocate_zeros(at: int, n: int, size: int) -> int:
    """`calloc` of a hook."""
    hook = _array(_words_at(at), (HOOK_LENGTH,))
    arena = _array(_words_at(hook[ARENA]), (STATE_LENGTH,))
    address, fresh = _block_for(arena, n * size if size == 0 or n <= arena[SIZE] // size else arena[SIZE])
    if address == 0:
        return int(_called(hook[CALLOC], (hook[CONTEXT], n, size)))
    if not fresh:
        _memset(address, 0, n * size)
    return int(address)


@nb.cfunc(_word(_word, _word, _word), cache=True)
def reallocate(at: int, old: int, size: int) -> int:
    """`realloc` of a hook; what is not in the arena stays outside."""
    hook = _array(_words_at(at), (HOOK_LENGTH,))
    arena = _array(_words_at(hook[ARENA]), (STATE_LENGTH,))
    if not _within(arena, old):
        return int(_called(hook[REALLOC], (hook[CONTEXT], old, size)))
    length = _length_of(arena, old)
    if length // 2 < size <= length:
        return old
    new, _ = _block_for(arena, size)
    if new == 0:
        new = _called(hook[MALLOC], (hook[CONTEXT], size))
    if new != 0:
        _memcpy(new, old, min(length, size))
        _release(arena, old)
    return int(new)


@nb.cfunc(nb.types.void(_word, _word), cache=True)
def release(at: int, address: int) -> None:
    """`free` of a hook of Python."""
    hook = _array(_words_at(at), (HOOK_LENGTH,))
    arena = _array(_words_at(hook[ARENA]), (STATE_LENGTH,))
    if _within(arena, address):
        _release(arena, address)
    else:
        _called(hook[RELEASE], (hook[CONTEXT], address))


@nb.cfunc(nb.types.void(_word, _word, _word), cache=True)
def release_sized(at: int, address: int, size: int) -> None:
    """`free` of a hook of numpy, which tells the size."""
    hook = _array(_words_at(at), (HOOK_LENGTH,))
    arena = _array(_words_at(hook[ARENA]), (STATE_LENGTH,))
    if _within(arena, address):
        _release(arena, address)
    else:
        _called(hook[RELEASE], (hook[CONTEXT], address, size))
