"""One run at a time on a result directory: a file beside it that is locked while the run lives."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from vber_cli.errors import OutputError

# What file systems without such locks answer; a run there goes on without one.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


class OutputLock:
    """The lock of a result directory, held until `release`; the system frees it when its process ends, however.

    Parameters
    ----------
    directory
        The result directory, whose parent exists. The lock is a hidden file beside it that names the process.
    shown
        The directory as the user named it.

    Attributes
    ----------
    held
        False where the file system knows no locks.

    Raises
    ------
    OutputError
        Another run holds it; or the file cannot be written, or is none.
    """

    def __init__(self, directory: Path, shown: str) -> None:
        self.path = directory.with_name(f".{directory.name}.vber-lock")
        self._shown = shown
        self.held = True
        self._handle = self._acquire()

    def release(self) -> None:
        """Remove the file and free the lock; a second call does nothing."""
        if self._handle < 0:
            return
        with contextlib.suppress(OSError):
            self.path.unlink()  # while it is held, so that nobody else's is removed
        os.close(self._handle)
        self._handle = -1

    def _acquire(self) -> int:
        while True:
            handle = self._open()
            try:
                if self._lock(handle):
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, f"{os.getpid()}\n".encode("ascii"), 0)
                    return handle
            except OSError as error:
                os.close(handle)
                raise self._cannot(error) from error
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # its last holder removed the file before we had it: there is another by now, or none

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise self._cannot(error) from error

    def _lock(self, handle: int) -> bool:
        """Lock the open file; whether it is still the one at the path."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(
                f"{self._shown}: another run is writing there{self._holder(handle)}",
                "wait for it to end, or name another directory with --out",
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            self.held = False
        try:
            return os.path.samestat(os.fstat(handle), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def _holder(self, handle: int) -> str:
        text = os.pread(handle, 20, 0).strip()
        return f" (process {int(text)})" if text.isdigit() else ""

    def _cannot(self, error: OSError) -> OutputError:
        return OutputError(
            f"{self._shown}: {self.path.name} beside it cannot be locked ({error.strerror})",
            "free space, remove what has that name, or name another place with --out",
        )
