"""Data-parallel training on processors: several processes take every step together, each with a part of its rows.

In a program that does not call `run` with more than one process, there is one rank and the functions here leave their arguments as they are.
"""
import os
import sys
import tempfile

import torch

RANK, COUNT = 0, 1


def run(count, train, args):
    """Calls `train(args)` in `count` processes, each on a core of its own; exits with the status of one that fails or pauses."""
    if count == 1:
        return train(args)
    with tempfile.TemporaryDirectory() as folder:
        try:
            torch.multiprocessing.spawn(join, (count, f"file://{folder}/store", train, args), nprocs=count)
        except torch.multiprocessing.ProcessExitedException as e:
            sys.exit(e.exit_code)


def join(rank, count, store, train, args):
    global RANK, COUNT
    RANK, COUNT = rank, count
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group("gloo", store, rank=rank, world_size=count)
    train(args)


def broadcast(numbers):
    """The numbers of the first rank."""
    if COUNT == 1:
        return numbers
    x = torch.tensor(numbers, dtype=torch.float64)
    torch.distributed.broadcast(x, 0)
    return x.tolist()


def copy_first(tensors):
    """Writes the tensors of the first rank into those of the others."""
    if COUNT > 1:
        for x in tensors:
            torch.distributed.broadcast(x, 0)


def all_reduce(tensors):
    """Writes the sum over the ranks into every tensor, with one call for all of them."""
    if COUNT > 1:
        flat = torch.cat([x.flatten() for x in tensors])
        torch.distributed.all_reduce(flat)
        for x, part in zip(tensors, flat.split([x.numel() for x in tensors])):
            x.copy_(part.view_as(x))


def barrier():
    """Waits until every rank is here."""
    if COUNT > 1:
        torch.distributed.barrier()
