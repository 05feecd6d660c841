#!/usr/bin/python3
"""Records what PyTorch computes, for tests to compare with.

Run with Debian's python3-torch, from anywhere:

    apt-get install python3-torch
    tools/record/record.py

It writes src/testing/recordings/*.txt, which are committed. The format is described in
src/testing/recording.h. The same PyTorch writes the same files: all inputs are made here, from a
small generator of our own.
"""

import os
import sys

import torch

sys.dont_write_bytecode = True

import autocast_cases  # noqa: E402
import data_cases  # noqa: E402
import layer_cases  # noqa: E402
import number_cases  # noqa: E402
import operator_cases  # noqa: E402
import optimizer_cases  # noqa: E402
import picking_cases  # noqa: E402
import replica_cases  # noqa: E402
import schedule_cases  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDINGS = os.path.join(HERE, "..", "..", "src", "testing", "recordings")


def main():
    torch.set_num_threads(1)
    os.makedirs(RECORDINGS, exist_ok=True)
    for name, record in (
        ("operators.txt", operator_cases.record_operators),
        ("picking.txt", picking_cases.record_picking),
        ("numbers.txt", number_cases.record_numbers),
        ("autocast.txt", autocast_cases.record_autocast),
        ("texts.txt", operator_cases.record_texts),
        ("categorical.txt", operator_cases.record_categorical),
        ("normal.txt", number_cases.record_normal),
        ("layers.txt", layer_cases.record_layers),
        ("optimizers.txt", optimizer_cases.record_optimizers),
        ("sparse_optimizers.txt", optimizer_cases.record_sparse),
        ("clip.txt", optimizer_cases.record_clipping),
        ("samplers.txt", data_cases.record_samplers),
        ("schedules.txt", schedule_cases.record_schedules),
        ("replicas.txt", replica_cases.record_replicas),
    ):
        with open(os.path.join(RECORDINGS, name), "w", encoding="ascii") as out:
            out.write(f"# Written by tools/record/record.py with PyTorch {torch.__version__}.\n")
            record(out)


if __name__ == "__main__":
    main()
