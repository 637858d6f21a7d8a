"""How kernels are compiled: once, whichever process needs them, and those called for every record without references.

A call that hands on the block model costs more than the work itself while numba counts references to each of its
arrays, with atomic operations, on the way in and out. Functions that create no arrays need no such counts. Nor do they
need a way in from Python: to unpack so many arrays is much code, and only writing it, for these and all other kernels,
took an eighth of the time that the first run spent on compiling.

Processes share the cache on the disk. One that needs what another is compiling waits for it, and finds it there.
"""

from __future__ import annotations

import contextlib
import fcntl
import signal
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

import numba as nb
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}
_LEAF: dict[str, Any] = {**_OPTIONS, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_LOCKS: dict[str, IO[bytes]] = {}  # by cache folder; to close one would free what the process holds in it


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python or other kernels call."""
    return _as(_Kernel, nb.njit(**_OPTIONS)(function))


def leaf(function: Callable[..., Any]) -> Any:
    """Compile a function that only other kernels call; called from Python it raises TypeError."""
    return _as(_Leaf, nb.njit(**_LEAF)(function))


def inlined_leaf(function: Callable[..., Any]) -> Any:
    """The same within its caller, which need not pass the model on at all: for what is called at few places."""
    return _as(_Leaf, nb.njit(**_LEAF, forceinline=True)(function))


class _Kernel(CPUDispatcher):
    """A compiled function that one process compiles at a time."""

    def compile(self, sig: Any) -> Any:
        # the compiler's lock first: of two threads one would else wait for it here, and the other for this one
        with global_compiler_lock, _held(self):
            return super().compile(sig)


class _Leaf(_Kernel):
    """A compiled function without a way in from Python, which tells who calls it in place of ending the process."""

    def __call__(self, *_arguments: object, **_named: object) -> None:
        raise TypeError(f"{self.py_func.__name__} is called by compiled functions only")


def _as(kind: type, dispatcher: Any) -> Any:
    if isinstance(dispatcher, CPUDispatcher):  # else nothing is compiled, by NUMBA_DISABLE_JIT
        dispatcher.__class__ = kind
    return dispatcher


def save_whole() -> None:
    """Let no SIGTERM end this process while it saves a compiled function; whoever sends one has to send it again.

    numba writes the index first and the code after it: between the two the index may tell of code of an earlier time.
    To be called in the main thread, which compiles.
    """
    cache_file: Any = IndexDataCacheFile
    save = cache_file.save

    def whole(self: Any, key: Any, data: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            save(self, key, data)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    cache_file.save = whole


@contextlib.contextmanager
def _held(dispatcher: Any) -> Iterator[None]:
    """Hold the function's place in the lock file of its cache folder; where there are no locks, go on without.

    A function holds its place while those it calls take theirs, so nobody waits for whoever waits for them.
    """
    function = dispatcher.py_func
    place = zlib.crc32(f"{function.__module__}.{function.__qualname__}".encode())
    file = None
    with contextlib.suppress(OSError, AttributeError):
        lock = _lock_file(dispatcher)
        fcntl.lockf(lock, fcntl.LOCK_EX, 1, place)
        file = lock
    try:
        yield
    finally:
        if file is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


def _lock_file(dispatcher: Any) -> IO[bytes]:
    folder = str(dispatcher.stats.cache_path)
    if folder not in _LOCKS:
        dispatcher._cache._impl.locator.ensure_cache_path()
        _LOCKS[folder] = open(f"{folder}/compiling.lock", "ab")  # noqa: SIM115
    return _LOCKS[folder]
