"""Measures one case of a benchmark."""
import time

BUDGET_S = 3


def measure(name, run, count):
    """Prints "name median p10 count", in microseconds: of |count| runs, or of those that fit into BUDGET_S seconds."""
    for _ in range(20):
        run()
    times, end = [], time.perf_counter() + BUDGET_S
    while len(times) < count and time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1e6)
    times.sort()
    print(f"{name} {times[len(times) // 2]:.1f} {times[len(times) // 10]:.1f} {len(times)}", flush=True)
