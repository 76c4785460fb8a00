"""PyTorch DDP with Gloo, on tensors of given shapes, between two processes.

    ddp_side.py SHAPES STEPS        SHAPES: a file, one tensor per line: "64 3 7 7"

Prints "with SECONDS without SECONDS VERSION": rank 0's medians of loss.backward()
with DDP's synchronisation and without it (inside no_sync). Otherwise both are the
same: the backward of a function of all parameters returns precomputed gradients,
and autograd adds each to parameter.grad, which is zero: one pass over the
gradients. The difference is the cost of DDP: its hooks, and Gloo's all-reduce of
its buckets. The settings favour DDP: gradients are views of the buckets
(gradient_as_bucket_view), buckets have the default size, the graph does not change.
"""

import multiprocessing
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

RANKS = 2
WARM_UP = 4  # DDP cuts its buckets again after the first step


class ReadyGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gradients, *parameters):
        ctx.gradients = gradients
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx, _):
        return (None, *ctx.gradients)


class Inventory(torch.nn.Module):
    def __init__(self, shapes):
        super().__init__()
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.zeros(shape)) for shape in shapes)
        self.gradients = [torch.ones(shape) for shape in shapes]

    def forward(self):
        return ReadyGradients.apply(self.gradients, *self.weights)


def backward_seconds(model):
    loss = model()
    dist.barrier()
    begin = time.perf_counter()
    loss.backward()
    return time.perf_counter() - begin


def run_rank(rank, shapes, steps, folder, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting",
                            rank=rank, world_size=RANKS)
    model = DistributedDataParallel(Inventory(shapes),
                                    gradient_as_bucket_view=True)
    synchronised, alone = [], []
    for step in range(WARM_UP + steps):
        model.zero_grad(set_to_none=False)
        seconds = backward_seconds(model)
        average = model.module.weights[0].grad.flatten()[0].item()
        assert average == 1.0, f"DDP's average of ones is {average}"
        model.zero_grad(set_to_none=False)
        with model.no_sync():
            without = backward_seconds(model)
        if step >= WARM_UP:
            synchronised.append(seconds)
            alone.append(without)
    dist.barrier()
    if rank == 0:
        results.put((statistics.median(synchronised), statistics.median(alone)))


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        shapes = [[int(size) for size in line.split()] for line in file]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=run_rank,
                                 args=(rank, shapes, int(sys.argv[2]), folder,
                                       results))
                 for rank in range(RANKS)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
    if any(rank.exitcode != 0 for rank in ranks):
        sys.exit("a rank of DDP failed")
    synchronised, alone = results.get()
    print(f"with {synchronised:.9f} without {alone:.9f} {torch.__version__}")


if __name__ == "__main__":
    main()
