"""Keep what is resident within a limit: large blocks of memory live in a file, and leave when room is needed.

With a limit, numpy's arrays, those that kernels make and what Python itself asks for in one piece are served from one
range of addresses, behind which lies a file without a name. Whatever is too much for the limit is let go of there; the
system reads it again when it is used. So a run within little memory is the same run: nothing of it knows.

It needs Linux: elsewhere, and where something is missing, `keep_within` returns None.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import mmap
import os
import sys
import tempfile
import threading
import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

_SIZES = tuple(1 << bits for bits in range(40, 31, -1))  # bytes of the range of addresses, the first that there is
_SHARE_OF_DISK = 2  # one part of so many of what is free: the rest is for the results, and for others
_LEAST, _NOTHING = 1 << 18, 1 << 62  # bytes of a block that is worth a place in the file, and of none
_MARGIN = 64 << 20, 4  # bytes, and one part of so many of the limit: what may come in between two looks
_NO_RESERVE, _SHARED, _READ_WRITE = 0x4000, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE
_DONT_FORK = 10  # MADV_DONTFORK
_SET_HANDLER, _GET_HANDLER = 304, 305  # of numpy's C interface: PyDataMem_SetHandler, PyDataMem_GetHandler
_HANDLER = b"mem_handler"
_RAW_DOMAIN = 0  # PYMEM_DOMAIN_RAW


class _Allocator(ctypes.Structure):
    """PyMemAllocatorEx, and numpy's PyDataMemAllocator."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("context", "malloc", "calloc", "realloc", "free")]


class _Handler(ctypes.Structure):
    """numpy's PyDataMem_Handler (NEP 49)."""

    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator)]


class Arena:
    """The file, the range of addresses before it, and the watch.

    Parameters
    ----------
    folder
        Where the file is made; it has no name, and its room is free again when the process ends.

    Raises
    ------
    OSError
        There can be no such file, or no such range.
    """

    def __init__(self, folder: Path) -> None:
        from vber_cli.memory import arena_kernels as kernels  # compiled or loaded only for those who need it

        self._kernels = kernels
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._statm = open("/proc/self/statm", "rb", buffering=0)  # noqa: SIM115
        self._library = ctypes.CDLL(None, use_errno=True)
        self._state = np.zeros(kernels.STATE_LENGTH, dtype=np.int64)
        self._state[kernels.FILE], self._state[kernels.PAGE] = self._file.fileno(), mmap.PAGESIZE
        base, size = self._map()
        self._state[kernels.BASE], self._state[kernels.SIZE] = base, size
        self._state[kernels.LEAST], self._state[kernels.STATM] = _NOTHING, self._statm.fileno()
        self._state[kernels.N_BLOCKS] = 1
        self._state[kernels.TABLE : kernels.TABLE + kernels.WIDTH] = base, size, 1
        self._state[kernels.PROGRAM] = int(self._statm.read().split()[2]) * mmap.PAGESIZE
        self._watch: threading.Thread | None = None
        self._kept: list[Any] = []

    def _map(self) -> tuple[int, int]:
        """The base and the length of a range of addresses before the file; a child of this process has none."""
        self._library.mmap.restype = ctypes.c_void_p
        self._library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        for size in _SIZES:
            base = self._library.mmap(None, size, _READ_WRITE, _SHARED | _NO_RESERVE, self._file.fileno(), 0)
            if base not in (None, ctypes.c_size_t(-1).value):
                self._library.madvise(ctypes.c_void_p(base), ctypes.c_size_t(size), _DONT_FORK)
                return int(base), size
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def hold(self, limit: int) -> None:
        """Let no more than so many bytes be resident from now on, as far as the arena's pages can make room."""
        margin, part = _MARGIN
        limit = min(limit, int(self._state[self._kernels.SIZE]))
        self._stop()
        disk = os.fstatvfs(self._file.fileno())
        room = disk.f_bavail * disk.f_frsize // _SHARE_OF_DISK + int(self._state[self._kernels.RESERVED])
        self._state[self._kernels.ROOM] = min(room, int(self._state[self._kernels.SIZE]))
        self._state[self._kernels.STOP] = 1
        self._kernels.watch_kernel(self._state)  # compiled or loaded now, not while nobody watches
        self._state[self._kernels.STOP], self._state[self._kernels.LEAST] = 0, _LEAST
        self._state[self._kernels.AIM] = max(limit - margin - limit // part, 0)
        self._state[self._kernels.LIMIT] = max(limit - margin, 0)
        self._watch = threading.Thread(
            target=self._kernels.watch_kernel, args=(self._state,), name="vber-watch", daemon=True
        )
        self._watch.start()

    def let_be(self) -> None:
        """Watch no longer, and take no more blocks; those that are here stay."""
        self._stop()
        self._state[self._kernels.LEAST] = _NOTHING

    def _stop(self) -> None:
        if self._watch is not None:
            self._state[self._kernels.STOP] = 1
            self._watch.join()
            self._watch = None

    def serve(self) -> None:
        """Serve numpy, in this context and those copied from it, and Python, as long as the process lives."""
        self._serve_numpy()
        watched = sys.flags.dev_mode or os.environ.get("PYTHONMALLOC") or tracemalloc.is_tracing()
        if not watched:  # by others, who want to free what they have seen
            self._serve_python()
        # to be called, as long as there is a process, by whoever frees a block
        for kept in (self, self._kept, self._kernels):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        atexit.register(self._stop)

    def _serve_numpy(self) -> None:
        core = "_core" if hasattr(np, "_core") else "core"  # before numpy 2
        numpy: Any = import_module(f"numpy.{core}._multiarray_umath")
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        table = ctypes.cast(pointer_of(numpy._ARRAY_API, None) or 0, ctypes.POINTER(ctypes.c_void_p))
        get_handler = ctypes.PYFUNCTYPE(ctypes.py_object)(table[_GET_HANDLER] or 0)
        set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER] or 0)
        before = get_handler()
        replaced = ctypes.cast(pointer_of(before, _HANDLER) or 0, ctypes.POINTER(_Handler)).contents.allocator
        handler = _Handler(b"vber", 1, self._hooked(replaced, self._kernels.release_sized))
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule = new_capsule(ctypes.addressof(handler), _HANDLER, None)
        self._kept += [before, handler, _HANDLER, capsule]
        set_handler(capsule)

    def _serve_python(self) -> None:
        """Python's raw memory, and through it what kernels allocate: numba asks it for all that it needs."""
        replaced = _Allocator()
        ctypes.pythonapi.PyMem_GetAllocator(_RAW_DOMAIN, ctypes.byref(replaced))
        allocator = self._hooked(replaced, self._kernels.release)
        ctypes.pythonapi.PyMem_SetAllocator(_RAW_DOMAIN, ctypes.byref(allocator))

    def _hooked(self, replaced: _Allocator, release: Any) -> _Allocator:
        """An allocator that asks the arena first."""
        before = (replaced.context or 0, replaced.malloc, replaced.calloc, replaced.realloc, replaced.free)
        hook = np.array([self._state.ctypes.data, *before], dtype=np.int64)
        self._kept.append(hook)
        kernels = self._kernels
        return _Allocator(
            hook.ctypes.data, kernels.allocate.address, kernels.allocate_zeros.address, kernels.reallocate.address,
            release.address,
        )  # fmt: skip

    @property
    def most_used(self) -> int:
        """The most bytes that were in use here at once."""
        return int(self._state[self._kernels.MOST_USED])

    @property
    def most_outside(self) -> int:
        """The most bytes of the process that no file was behind."""
        return int(self._state[self._kernels.MOST_OUTSIDE])

    @property
    def evicted(self) -> int:
        """How many bytes of addresses were let go of so far."""
        return int(self._state[self._kernels.EVICTED])

    @property
    def refused(self) -> int:
        """How often there was no room on the disk."""
        return int(self._state[self._kernels.REFUSED])


_arenas: list[Arena] = []  # at most one: once it serves, it serves as long as the process lives


def keep_within(limit: int, folder: Path) -> Arena | None:
    """Let large blocks live in a file of `folder` from now on, and no more than `limit` bytes be resident.

    Parameters
    ----------
    limit
        In bytes, of the whole process. What is no large block has to fit.
    folder
        Where the file is made, by the first call in a process.

    Returns
    -------
    Arena or None
        None where the system has no way to do it.
    """
    if not _arenas:
        if not sys.platform.startswith("linux"):
            return None
        with contextlib.suppress(OSError):
            arena = Arena(folder)
            arena.serve()
            _arenas.append(arena)
    for arena in _arenas:
        arena.hold(limit)
    return _arenas[0] if _arenas else None
