"""Which items each replica of a DistributedSampler has, given an order of all of them."""

import torch
from torch.utils.data import DistributedSampler

import words

# Items, replicas, whether the last ones are dropped.
CASES = [
    (10, 1, False),
    (10, 2, False),
    (10, 3, False),
    (10, 3, True),
    (10, 4, True),
    (9, 3, True),
    (7, 4, False),
    (2, 5, False),
    (1, 4, False),
    (3, 5, True),
    (11, 7, False),
]


def record_samplers(out):
    for count, replicas, drop_last in CASES:
        for shuffle in (False, True):
            samplers = [
                DistributedSampler(range(count), replicas, rank, shuffle=shuffle, seed=3, drop_last=drop_last)
                for rank in range(replicas)
            ]
            order = torch.arange(count)
            if shuffle:
                generator = torch.Generator()
                generator.manual_seed(3 + 5)
                order = torch.randperm(count, generator=generator)
            out.write(f"\ncase {count} {replicas} {int(drop_last)}\n{words.tensor(order)}\n")
            for sampler in samplers:
                sampler.set_epoch(5)
                out.write(words.tensor(torch.tensor(list(sampler), dtype=torch.int64)) + "\n")
