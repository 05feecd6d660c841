"""Jobs of Python and C workers: each calls the other by served names."""
import conftest
import gradwire as gw
import numpy as np
import pytest


@gw.function("describe_here")
def describe_here(x):
    return {"sum": float(np.sum(x)), "shape": list(np.shape(x))}


def with_c(rank):
    """Worker 0 is this one, worker 1 the C program stats_server, which serves "describe"."""
    x = np.arange(10.0)
    assert gw.rpc_sync("stats", "describe", (x,)) == {"count": 10, "mean": 4.5, "std": x.std(ddof=1)}
    r = gw.remote("stats", "describe", (x,))
    assert r.to_here()["count"] == 10 and r.owner_name() == "stats"
    with pytest.raises(gw.InvalidError) as info:
        gw.rpc_sync("stats", "describe", ("text",))
    assert info.value.worker == "stats"
    with pytest.raises(gw.NotFoundError):
        gw.rpc_sync("stats", describe_here, (x,))
    y = gw.rpc_async("stats", "gw.add", (x, gw.rpc_async(0, "gw.mul", (x, 2.0))))
    assert (y.wait() == 3 * x).all()


def test_python_calls_c():
    server = str(conftest.BUILD / "bin" / "stats_server")
    worker = " ".join(f"'{part}'" for part in conftest.command(with_c))
    script = f'if [ "$RANK" = 1 ]; then exec {server}; else exec {worker}; fi'
    ended = conftest.finish(conftest.start(conftest.launcher(2) + ["sh", "-c", script]))
    assert ended.code == 0, ended.errors


def serves(rank):
    pass


serves.__doc__ = "Only serves: shutdown blocks until the C program has called it."


@gw.function("describe")
def describe(x):
    return {"count": int(np.size(x)), "mean": float(np.mean(x)), "std": float(np.std(x, ddof=1))}


def test_c_calls_python():
    client = str(conftest.BUILD / "bin" / "stats_client")
    worker = " ".join(f"'{part}'" for part in conftest.command(serves, name="stats"))
    script = f'if [ "$RANK" = 1 ]; then exec {client}; else exec {worker}; fi'
    ended = conftest.finish(conftest.start(conftest.launcher(2) + ["sh", "-c", script]))
    assert ended.code == 0, ended.errors
    assert "mean" in ended.output
