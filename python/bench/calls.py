"""Times of calls between two Python workers, medians in microseconds.

    gradwire run -n 2 -- python3 python/bench/calls.py

Prints "case median p10 count". null: a call of an empty function; small: two numbers there and back; many: 64 empty calls at
once; rref: remote and to_here; echo: 4 MB there and back; send: 4 MB there; frozen: the same in memory of gradwire.empty.
"""

import gradwire as gw
import numpy as np

from measure import measure

OTHER = "worker1"


def empty():
    return None


def echo(x):
    return x


def length(x):
    return len(x)


def many():
    for future in [gw.rpc_async(OTHER, empty) for _ in range(64)]:
        future.wait()


def main():
    with gw.init():
        if gw.rank() != 0:
            return
        two, big = np.ones(2), np.ones(1 << 20, np.float32)
        measure("null", lambda: gw.rpc_sync(OTHER, empty), 5000)
        measure("small", lambda: gw.rpc_sync(OTHER, echo, (two,)), 5000)
        measure("many", many, 200)
        measure("rref", lambda: gw.remote(OTHER, echo, (1,)).to_here(), 2000)
        measure("echo", lambda: gw.rpc_sync(OTHER, echo, (big,)), 500)
        measure("send", lambda: gw.rpc_sync(OTHER, length, (big,)), 500)
        frozen = gw.empty(1 << 20)
        frozen[:] = 1
        gw.freeze(frozen)
        measure("frozen", lambda: gw.rpc_sync(OTHER, length, (frozen,)), 500)


if __name__ == "__main__":
    main()
