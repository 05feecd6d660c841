"""Errors: one class for each status of the library, and exceptions that functions have raised on other workers."""
from __future__ import annotations

import builtins
import pickle
import traceback
from typing import Any, Optional


class Error(Exception):
    """An error of gradwire.

    ``status`` names what failed ("timeout"); ``outcome`` is what is known about the call: "not delivered" (the function
    did not run), "may have run", "ran and failed", or None if the error is not that of a call; ``worker`` and
    ``function`` are where the error was made; ``trace`` is the text with all workers that it has passed.
    """

    status: str = ""
    outcome: Optional[str] = None
    worker: str = ""
    function: str = ""
    trace: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[Error], args: tuple[Any, ...], fields: dict[str, Any]) -> Error:
    error = cls(*args)
    error.__dict__.update(fields)
    return error


class InvalidError(Error, ValueError):
    """An argument, a shape, a type or a name is wrong."""


class NotFoundError(Error, LookupError):
    """There is no worker, function, class or method of this name."""


class DuplicateError(Error):
    """The name or the rank is taken."""


class MismatchError(Error):
    """Two workers disagree, for example about the arguments of a collective."""


class WrongStateError(Error, RuntimeError):
    """Not possible now: before init, after shutdown, or a second result of a future."""


class WouldBlockError(Error, RuntimeError):
    """A wait where no wait is allowed."""


class UnsupportedError(Error):
    """Not supported on this worker, for this caller or for this type."""


class LimitError(Error):
    """A limit of the library is reached; the text names it."""


class TimeoutError(Error, builtins.TimeoutError):
    """The deadline has passed."""


class CancelledError(Error):
    """The operation was cancelled."""


class OverloadedError(Error):
    """Too many requests to this worker are under way."""


class DisconnectedError(Error, ConnectionError):
    """The worker is gone."""


class RefLostError(Error, LookupError):
    """The owner of the reference is gone."""


class FencedError(Error, ConnectionError):
    """The other workers continue without this one, which may join again."""


class RemoteError(Error, RuntimeError):
    """A function has failed on another worker, with an error that is no exception of Python or cannot be loaded."""


class ProtocolError(Error):
    """The peer has sent malformed bytes."""


class OutOfMemoryError(Error, MemoryError):
    """There is no memory."""


class AddressInUseError(Error, OSError):
    """Another process listens at the address."""


class SystemError(Error, OSError):
    """A call of the operating system has failed; the text names it."""


class RemoteTraceback(Error):
    """The traceback of an exception on the worker that raised it: the ``__cause__`` of the exception here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


_CLASSES: dict[str, type[Error]] = {
    "invalid": InvalidError,
    "not found": NotFoundError,
    "duplicate": DuplicateError,
    "mismatch": MismatchError,
    "wrong state": WrongStateError,
    "would block": WouldBlockError,
    "unsupported": UnsupportedError,
    "limit": LimitError,
    "timeout": TimeoutError,
    "cancelled": CancelledError,
    "overloaded": OverloadedError,
    "disconnected": DisconnectedError,
    "reference lost": RefLostError,
    "fenced": FencedError,
    "remote": RemoteError,
    "protocol": ProtocolError,
    "no memory": OutOfMemoryError,
    "address in use": AddressInUseError,
    "system": SystemError,
}

# The library takes values of errors up to 64 KiB; the text of an error has at most 767 bytes.
_VALUE_BYTES = 60 * 1024
_TEXT_BYTES = 500


def _describe(error: Error, status: str, outcome: Optional[str], worker: str, function: str, text: str) -> Error:
    error.status, error.outcome, error.worker, error.function, error.trace = status, outcome, worker, function, text
    return error


def wrong_state(text: str) -> WrongStateError:
    """Makes a WrongStateError of this worker."""
    error = WrongStateError(text)
    _describe(error, "wrong state", None, "", "", text)
    return error


# ---- Exceptions as errors of the library ---------------------------------------------------------------
def encode(exception: BaseException, pickles: bool) -> tuple[str, Optional[bytes]]:
    """Returns the text of |exception| for an error of the library, and its pickle if it has a short one."""
    text = "".join(traceback.format_exception_only(exception)).strip().replace("\n", " ").replace("\0", "?")
    text = text.encode(errors="replace")[:_TEXT_BYTES].decode(errors="ignore")
    if not pickles:
        return text, None
    trace = "".join(traceback.format_exception(exception))
    try:
        value = pickle.dumps((_dump(exception), trace), 5)
        if len(value) > _VALUE_BYTES:
            value = pickle.dumps((_dump(exception), trace[-8000:]), 5)
        return text, value if len(value) <= _VALUE_BYTES else pickle.dumps((b"", trace[-8000:]), 5)
    except Exception:
        return text, pickle.dumps((b"", trace[-8000:]), 5)


def _dump(exception: BaseException) -> bytes:
    try:
        return pickle.dumps(exception, 5)
    except Exception:
        return b""


def _load(value: bytes, text: str, loads: Any) -> tuple[BaseException, str]:
    trace = text
    try:
        pickled, trace = loads(value)
        exception = loads(pickled) if pickled else RemoteError(text)
        if isinstance(exception, BaseException):
            return exception, trace
    except Exception:
        pass  # the class is not here, or is not made of its arguments
    return RemoteError(text), trace


def decode(status: str, outcome: Optional[str], worker: str, function: str, text: str, value: Optional[bytes],
           loads: Any) -> BaseException:
    """Makes the exception of an error of the library; |loads| unpickles, or is None."""
    if value is None or loads is None:
        return _describe(_CLASSES.get(status, Error)(text), status, outcome, worker, function, text)
    exception, trace = _load(value, text, loads)
    if isinstance(exception, RemoteError):
        _describe(exception, status, outcome, worker, function, text)
    exception.__cause__ = _describe(RemoteTraceback(trace), status, outcome, worker, function, text)
    return exception
