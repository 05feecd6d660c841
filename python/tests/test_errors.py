"""Errors: exceptions of functions on other workers, statuses of the library, and input that is wrong."""
import pickle
import threading

import gradwire as gw
import pytest
from gradwire import _core

OTHER = "worker1"


class Special(Exception):
    def __init__(self, code, *, hint=None):
        super().__init__(code)
        self.code, self.hint = code, hint


class Unloadable(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a}-{b}")


def fail(what):
    if what == "special":
        error = Special(7)
        error.hint = "look there"
        error.add_note("a note")
        raise error
    if what == "unloadable":
        raise Unloadable(1, 2)
    if what == "long":
        raise ValueError("x" * 1_000_000)
    if what == "nul":
        raise ValueError("a\0b")
    if what == "exit":
        raise SystemExit(3)
    if what == "interrupt":
        raise KeyboardInterrupt
    if what == "deep":
        return fail(what)
    if what == "lock":
        return [1, {"a": threading.Lock()}]
    raise ValueError("bad", what)


def raised(what, call=None):
    with pytest.raises(BaseException) as info:
        (call or (lambda: gw.rpc_sync(OTHER, fail, (what,))))()
    return info.value


def exceptions(rank):
    if rank != 0:
        return
    error = raised("x")
    assert type(error) is ValueError and error.args == ("bad", "x")
    cause = error.__cause__
    assert isinstance(cause, gw.RemoteTraceback) and "in fail" in str(cause) and "test_errors.py" in str(cause)
    assert (cause.worker, cause.outcome, cause.function) == (OTHER, "ran and failed", "py.call")
    error = raised("special")
    assert type(error) is Special and error.code == 7 and error.hint == "look there" and error.__notes__ == ["a note"]
    assert type(raised("nul")) is ValueError and raised("nul").args == ("a\0b",)
    assert type(raised("exit")) is SystemExit and type(raised("interrupt")) is KeyboardInterrupt
    assert type(raised("deep")) is RecursionError
    assert gw.rpc_sync(OTHER, len, ("ok",)) == 2  # the worker continues


def test_exceptions_are_raised_with_their_class(job):
    job(2, exceptions)


def not_carried(rank):
    if rank != 0:
        return
    error = raised("unloadable")
    assert type(error) is gw.RemoteError and "Unloadable: 1-2" in str(error) and "in fail" in str(error.__cause__)
    error = raised("long")
    assert isinstance(error, (ValueError, gw.RemoteError)) and "ValueError: xxx" in error.__cause__.trace
    error = raised("lock")
    assert type(error) is TypeError and "result[1]['a']" in str(error)
    for f in (lambda: 1, fail_inside()):
        assert "define it at the top" in str(raised("", lambda: gw.rpc_sync(OTHER, f)))
    error = raised("", lambda: gw.rpc_sync(OTHER, len, ([threading.Lock()],)))
    assert type(error) is TypeError and "[0]" in str(error)
    assert gw.stats()["calls_served"] == 0


def fail_inside():
    def inner():
        return 1

    return inner


def test_what_cannot_be_carried_is_an_error_of_its_call(job):
    job(2, not_carried)


def everywhere(rank):
    if rank != 0:
        return
    future = gw.rpc_async(OTHER, fail, ("x",))
    for _ in range(2):
        assert type(raised("", future.wait)) is ValueError
    assert type(future.exception()) is ValueError and future.done()
    after = future.then(lambda f: f.value())
    assert type(raised("", after.wait)) is ValueError
    ref = gw.remote(OTHER, fail, ("x",))
    for _ in range(2):
        assert type(raised("", ref.to_here)) is ValueError
    assert type(raised("", lambda: ref.rpc_sync().anything())) is ValueError
    # A failed future, or reference, as an argument.
    assert type(raised("", lambda: gw.rpc_sync(OTHER, len, (future,)))) is ValueError
    assert type(raised("", gw.collect_all([future]).wait()[0].value)) is ValueError
    assert type(raised("", lambda: gw.wait_all([gw.rpc_async(OTHER, len, ("a",)), future]))) is ValueError


def test_futures_and_references_have_the_exception(job):
    job(2, everywhere)


def reraise():
    return gw.rpc_sync("worker2", fail, ("special",))


def passes_on(rank):
    if rank == 0:
        error = raised("", lambda: gw.rpc_sync(OTHER, reraise))
        assert type(error) is Special and error.code == 7
        assert "reraise" in str(error.__cause__) and "in fail" in str(error.__cause__)


def test_an_exception_passes_through_a_worker(job):
    job(3, passes_on)


def never():
    global held
    held = gw.Future()
    return held.wait()


def let_go():
    held.set_result(5)


def statuses(rank):
    if rank != 0:
        return
    error = raised("", lambda: gw.rpc_sync("no_worker", len, ("a",)))
    assert isinstance(error, gw.NotFoundError) and isinstance(error, LookupError) and error.status == "not found"
    assert isinstance(raised("", lambda: gw.rpc_sync(9, len, ("a",))), gw.NotFoundError)
    error = raised("", lambda: gw.rpc_sync(OTHER, "no_such_name"))
    assert isinstance(error, gw.NotFoundError) and error.outcome == "not delivered"
    error = raised("", lambda: gw.rpc_sync(OTHER, never, timeout=0.05))
    assert isinstance(error, TimeoutError) and isinstance(error, gw.TimeoutError)
    assert error.outcome  # each of them, since the function has the same deadline
    future = gw.rpc_async(OTHER, never)
    assert isinstance(raised("", lambda: future.wait(0.05)), gw.TimeoutError) and not future.done()
    future.cancel()
    assert isinstance(raised("", future.wait), gw.CancelledError)
    assert isinstance(raised("", lambda: gw.rpc_sync(1.5, len)), TypeError)
    assert isinstance(raised("", lambda: gw.rpc_sync(OTHER, len, timeout=-1)), ValueError)


def test_each_status_has_a_class(job):
    job(2, statuses)


def bad_pickles(rank):
    if rank != 0:
        return
    good = pickle.dumps((len, ("abc",), {}), 5)
    for bytes_ in (b"", good[:-3], b"\x80\x06.", b"\x80\x05\x8e" + b"\xff" * 8, b"(" * 100_000, b"\x80\x05N.", b"no"):
        error = raised("", lambda: _core.call(OTHER, "py.call", (bytes_,), -1, 0, False))
        assert isinstance(error, Exception), bytes_
    for index in range(len(good)):
        changed = good[:index] + bytes([good[index] ^ 0x11]) + good[index + 1:]
        try:
            _core.call(OTHER, "py.call", (changed,), -1, 0, False)
        except Exception:
            pass
    for values in ((), (1,), (None,), ("text",), ([],), (b"\x80\x05N.", 3)):
        assert isinstance(raised("", lambda: _core.call(OTHER, "py.call", values, -1, 0, False)), Exception)
    assert gw.rpc_sync(OTHER, len, ("abc",)) == 3


def test_bad_pickles_fail_their_calls_alone(job):
    job(2, bad_pickles)


def missing(rank):
    if rank == 0:
        payload = b"\x80\x05\x8c\x09no_module\x8c\x01f\x93))\x87."  # (no_module.f, (), ())
        assert isinstance(raised("", lambda: _core.call(OTHER, "py.call", (payload,), -1, 0, False)), ImportError)
        payload = payload.replace(b"\x09no_module", b"\x0btest_errors")
        assert isinstance(raised("", lambda: _core.call(OTHER, "py.call", (payload,), -1, 0, False)), AttributeError)


def test_what_the_callee_cannot_import_is_an_error_of_the_caller(job):
    job(2, missing)


@gw.function("relay")
def relay(count):
    if count == 0:
        raise ValueError("\u00e9" * 400)
    return gw.rpc_sync(1 - gw.rank(), "relay", (count - 1,))


def long_texts(rank):
    """The text of an error, with all workers that it has passed, has at most 767 bytes: it may be cut in a character."""
    if rank == 0:
        for count in range(12):
            with pytest.raises(gw.Error) as info:
                gw.rpc_sync(OTHER, "relay", (count,))
            str(info.value).encode()
            assert "relay" in str(info.value) and (count > 2 or "\u00e9" in str(info.value))


def test_texts_that_are_cut_in_a_character_are_read(job):
    job(2, long_texts, pickle=False)


def test_without_a_job():
    for call in (gw.rank, gw.Future, lambda: gw.rpc_sync(0, len), lambda: gw.RRef(3)):
        with pytest.raises(gw.WrongStateError):
            call()
    gw.shutdown()
    gw.leave()
    with pytest.raises(TypeError):
        gw.init(3)
    with pytest.raises(ValueError):
        gw.init(group="other")
    with pytest.raises(gw.InvalidError):
        gw.init("no spaces", rank=0, world_size=1)


def test_sub_interpreters_are_refused():
    interpreters = pytest.importorskip("_xxsubinterpreters")
    interpreter = interpreters.create()
    with pytest.raises(Exception, match="sub-interpreter"):
        interpreters.run_string(interpreter, "import gradwire")
    interpreters.destroy(interpreter)
