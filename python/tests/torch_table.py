"""Runs PyTorch's tests of torch.distributed.rpc with gradwire and with TensorPipe, and prints what differs.

    python3 torch_table.py [-k TEXT] [--chosen] [--limit SECONDS] [--backends Gradwire TensorPipe] [--only-failed]

With --chosen, some tests of each kind run. With --only-failed, TensorPipe runs the tests that fail with gradwire. The
exit status is 1 if a test fails with gradwire, and does not fail with TensorPipe.
"""
import argparse
import os
import signal
import sys
import tempfile
import time
import unittest

import torch_suite

PREFIXES = ("Gradwire", "TensorPipe")

# What `make test` runs where the backend is built: a test or two of each kind, and those that have found faults.
CHOSEN = ("RpcTest.test_all_gather", "RpcTest.test_duplicate_name", "RpcTest.test_worker_id",
          "RpcTest.test_py_built_in",
          "RpcTest.test_nested_rpc", "RpcTest.test_nested_rref_stress", "RpcTest.test_callback_with_ret",
          "RpcTest.test_rref_forward_chain", "RpcTest.test_py_rref_args_user_share", "RpcTest.test_rpc_timeouts",
          "RpcTest.test_async_function_simple", "RpcTest.test_shutdown_errors",
          "RpcTest.test_profiler_with_sync_rpc_udf",
          "RpcTest.test_user_rrefs_confirmed_remote", "DistAutogradTest.test_backward_simple",
          "DistAutogradTest.test_nested_backward_accumulate_grads", "DistOptimizerTest.test_dist_optim",
          "JitRpcTest.test_torchscript_function", "RemoteModuleTest.test_forward_sync",
          "DdpComparisonTest.test_ddp_comparison")


def tests_of(prefix, text):
    """Returns the names of all tests of a backend, "RpcTest.test_add", that contain |text|."""
    names = []
    for class_name, test_class in sorted(vars(torch_suite).items()):
        if class_name.startswith(prefix) and isinstance(test_class, type) and issubclass(test_class, unittest.TestCase):
            methods = unittest.defaultTestLoader.getTestCaseNames(test_class)
            names += [f"{class_name[len(prefix):]}.{method}" for method in methods]
    return [name for name in names if text in name]


def run_here(prefix, name):
    """Runs one test in this process, and ends it: 0 passed, 1 failed, 2 skipped."""
    os.setpgid(0, 0)
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromName(prefix + name, torch_suite).run(result)
    for _, text in result.errors + result.failures:
        print(text)
    sys.stdout.flush()
    os._exit(2 if result.skipped else 0 if result.wasSuccessful() else 1)


def wait_for(pid, limit_s):
    """Waits for a process group; returns the status, or None if the limit has passed."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def run_one(prefix, name, limit_s):
    """Runs one test in processes of its own; returns the word for its result, and its output."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        pid = os.fork()
        if pid == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            run_here(prefix, name)
        status = wait_for(pid, limit_s)
        output.seek(0)
        return {0: "passed", 2: "skipped", None: "hung"}.get(status, "failed"), output.read()


def run_all(prefix, names, limit_s):
    """Runs tests one after the other; returns their results."""
    results = {}
    for i, name in enumerate(names):
        results[name], output = run_one(prefix, name, limit_s)
        print(f"{i + 1}/{len(names)} {prefix} {name}: {results[name]}", flush=True)
        if results[name] in ("failed", "hung"):
            print(output[-6000:], flush=True)
    return results


def print_table(results):
    """Prints the numbers of each backend, and the tests whose results are not "passed" or "skipped"."""
    for prefix, by_name in results.items():
        counts = {word: list(by_name.values()).count(word) for word in ("passed", "failed", "hung", "skipped")}
        print(f"| {prefix} | " + " | ".join(f"{n} {word}" for word, n in counts.items()) + " |")
    ours, theirs = (results.get(prefix, {}) for prefix in PREFIXES)
    for name in sorted({**ours, **theirs}):
        pair = ours.get(name, "not run"), theirs.get(name, "not run")
        if {"failed", "hung"} & set(pair):
            print(f"| `{name}` | {pair[0]} | {pair[1]} |")
    bad = [name for name in ours if ours[name] in ("failed", "hung")]
    return [name for name in bad if theirs.get(name, "passed") == "passed"]


def main():
    """Runs what the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-k", default="", metavar="TEXT")
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--backends", nargs="+", default=PREFIXES, choices=PREFIXES)
    parser.add_argument("--chosen", action="store_true")
    parser.add_argument("--only-failed", action="store_true")
    o = parser.parse_args()
    results = {}
    for prefix in o.backends:
        names = [name for name in tests_of(prefix, o.k) if name in CHOSEN or not o.chosen]
        if o.only_failed and prefix == PREFIXES[1]:
            names = [name for name in names if results[PREFIXES[0]].get(name) in ("failed", "hung")]
        results[prefix] = run_all(prefix, names, o.limit)
    sys.exit(1 if print_table(results) else 0)


if __name__ == "__main__":
    main()
