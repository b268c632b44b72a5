"""torch.distributed over whatever NCCL is loaded: every call checked, a model trained.

Run by torch.sh under torchrun, once with the library that PyTorch brings and once with
libweir_nccl.so preloaded. Rank 0 prints a line a check: "ok NAME" or "FAIL NAME reason", and the
losses of the training with all their digits ("loss NAME VALUES"). With EAGER=1 the group is bound
to its device from the start: then PyTorch makes communicators at once, asks for ones that do not
block, and divides them for subgroups.
"""
import os
import random
import sys

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
TYPES = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32,
         torch.float64, torch.bfloat16]
failed = []


def tensor(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def demand_equal(got, expected):
    if not torch.equal(got, expected):
        raise AssertionError(f"got {got.flatten()[:4].tolist()}..., "
                             f"expected {expected.flatten()[:4].tolist()}...")


def filled(count, value, dtype=torch.float32):
    return torch.full((count,), value, dtype=dtype, device=DEVICE)


def all_reduce():
    results = {dist.ReduceOp.SUM: sum(1 + r % 2 for r in range(WORLD)),
               dist.ReduceOp.PRODUCT: 2 ** (WORLD // 2), dist.ReduceOp.MAX: min(WORLD, 2),
               dist.ReduceOp.MIN: 1}
    for dtype in TYPES:
        for op, result in results.items():
            for count in (1, 1000, 1 << 20):
                data = filled(count, 1 + RANK % 2, dtype)
                dist.all_reduce(data, op=op)
                demand_equal(data, filled(count, result, dtype))
    data = filled(99, 2.0 * RANK)
    dist.all_reduce(data, op=dist.ReduceOp.AVG)
    demand_equal(data, filled(99, WORLD - 1.0))


def gather_and_scatter():
    for count in (1, 777, 1 << 18):
        out = torch.empty(WORLD * count, device=DEVICE)
        dist.all_gather_into_tensor(out, filled(count, float(RANK)))
        expected = torch.arange(WORLD, device=DEVICE).float().repeat_interleave(count)
        demand_equal(out, expected)
        part = torch.empty(count, device=DEVICE)
        dist.reduce_scatter_tensor(part, expected + RANK)
        demand_equal(part, filled(count, float(WORLD * RANK + sum(range(WORLD)))))


def broadcast_and_reduce():
    for root in range(WORLD):
        data = filled(12345, float(RANK))
        dist.broadcast(data, root)
        demand_equal(data, filled(12345, float(root)))
        dist.reduce(data, root)
        if RANK == root:
            demand_equal(data, filled(12345, float(WORLD * root)))


def splits_of(turn):
    """Elements from each rank to each, other ones in each turn, some none."""
    return [[(37 * turn + 11 * f + 5 * t) % 9 * 100 for t in range(WORLD)] for f in range(WORLD)]


def all_to_all():
    equal = torch.arange(WORLD * 1000, device=DEVICE).float() + 1e5 * RANK
    out = torch.empty_like(equal)
    dist.all_to_all_single(out, equal)
    expected = torch.cat([torch.arange(1000, device=DEVICE).float() + 1000 * RANK + 1e5 * f
                          for f in range(WORLD)])
    demand_equal(out, expected)
    for turn in range(20):
        table = splits_of(turn)
        sent, taken = table[RANK], [table[f][RANK] for f in range(WORLD)]
        data = torch.cat([filled(sent[t], float(100 * RANK + t)) for t in range(WORLD)])
        out = torch.empty(sum(taken), device=DEVICE)
        dist.all_to_all_single(out, data, taken, sent)
        demand_equal(out, torch.cat([filled(taken[f], float(100 * f + RANK))
                                     for f in range(WORLD)]))


def batched_messages():
    right, left = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    for count in (1, 5000, 1 << 20):
        out = torch.empty(count, device=DEVICE)
        work = dist.batch_isend_irecv([dist.P2POp(dist.isend, filled(count, float(RANK)), right),
                                       dist.P2POp(dist.irecv, out, left)])
        for one in work:
            one.wait()
        demand_equal(out, filled(count, float(left)))


def mixed_messages():
    """Groups of short and long messages, several between two ranks, aligned and not."""
    chance, longest = random.Random(11), 6 << 20
    pattern = torch.arange(longest + 256 * WORLD, device=DEVICE).to(torch.uint8)
    for _ in range(20):
        messages = [(f, t, chance.choice((0, 0, 5, 16)), int(2 ** chance.uniform(0, 22.5)))
                    for f in range(WORLD) for t in range(WORLD) if f != t for _ in range(3)]
        operations, expected = [], []
        for number, (sender, receiver, offset, length) in enumerate(messages):
            data = pattern[sender + 3 * number:][:length]
            if sender == RANK:
                out = torch.empty(length + offset, dtype=torch.uint8, device=DEVICE)[offset:]
                operations.append(dist.P2POp(dist.isend, out.copy_(data), receiver))
            elif receiver == RANK:
                got = torch.full((offset + length + 16,), 170, dtype=torch.uint8, device=DEVICE)
                operations.append(dist.P2POp(dist.irecv, got[offset:][:length], sender))
                whole = torch.full_like(got, 170)
                whole[offset:][:length] = data
                expected.append((got, whole))
        for one in dist.batch_isend_irecv(operations):
            one.wait()
        for got, whole in expected:
            demand_equal(got, whole)


def subgroups():
    groups = [dist.new_group(list(range(first, WORLD, 2))) for first in range(min(2, WORLD))]
    data = filled(4096, 1.0)
    dist.all_reduce(data, group=groups[RANK % 2])
    demand_equal(data, filled(4096, float(len(range(RANK % 2, WORLD, 2)))))


def graph():
    data = filled(1 << 16, 1.0)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            dist.all_reduce(data)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        dist.all_reduce(data)
    for value in range(1, 6):
        data.fill_(float(value))
        captured.replay()
        torch.cuda.synchronize()
        demand_equal(data, filled(1 << 16, float(value * WORLD)))


def graph_branches():
    """Two branches of one graph, in turns: calls of one communicator never overlap."""
    values = [filled(1 << 20, 0.0), filled(1000, 0.0)]
    for one in values:
        dist.all_reduce(one)
    torch.cuda.synchronize()
    captured, branches = torch.cuda.CUDAGraph(), [torch.cuda.Stream() for _ in values]
    with torch.cuda.graph(captured):
        origin = torch.cuda.current_stream()
        for stream in branches:
            stream.wait_stream(origin)
        for _ in range(3):
            for stream, one in zip(branches, values):
                with torch.cuda.stream(stream):
                    dist.all_reduce(one)
        for stream in branches:
            origin.wait_stream(stream)
    for start in range(1, 6):
        for one in values:
            one.fill_(float(start))
        captured.replay()
        torch.cuda.synchronize()
        for one in values:
            demand_equal(one, torch.full_like(one, float(start * WORLD ** 3)))


def graph_beside_calls():
    """A graph and calls in another stream, with nothing between them but their order here."""
    data, other, side = filled(1 << 20, 0.0), filled(1 << 18, 0.0), torch.cuda.Stream()
    dist.all_reduce(data)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(3):
            dist.all_reduce(data)
    for start in range(1, 6):
        data.fill_(float(start))
        other.fill_(float(start))
        torch.cuda.synchronize()
        captured.replay()
        with torch.cuda.stream(side):
            for _ in range(3):
                dist.all_reduce(other)
        captured.replay()
        torch.cuda.synchronize()
        demand_equal(data, torch.full_like(data, float(start * WORLD ** 6)))
        demand_equal(other, torch.full_like(other, float(start * WORLD ** 3)))


def train():
    """A small model in DistributedDataParallel; the losses of all ranks together."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    model = torch.nn.parallel.DistributedDataParallel(model.to(DEVICE), device_ids=[DEVICE])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(100 + RANK)
    losses = []
    for _ in range(30):
        data = torch.randn(128, 64, generator=generator).to(DEVICE)
        loss = ((model(data) - data.sum(1, keepdim=True) / 8) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / WORLD)
    if losses[-1] > losses[0]:
        raise AssertionError(f"the loss grew from {losses[0]} to {losses[-1]}")
    if RANK == 0:
        print("loss ddp " + " ".join(f"{loss:.9g}" for loss in losses), flush=True)


def run(check):
    why = ""
    try:
        check()
        torch.cuda.synchronize()
    except Exception as error:  # pylint: disable=broad-except
        why = f"rank {RANK}: {type(error).__name__}: {error}".replace("\n", " ")[:300]
        failed.append(check.__name__)
    if why:
        print(f"FAIL {check.__name__} {why}", flush=True)
    elif RANK == 0:
        print(f"ok {check.__name__}", flush=True)


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE if os.environ.get("EAGER") == "1" else None)
    for check in (all_reduce, gather_and_scatter, broadcast_and_reduce, all_to_all,
                  batched_messages, mixed_messages, subgroups, graph, graph_branches,
                  graph_beside_calls, train):
        run(check)
        if failed:
            os._exit(1)  # the others' next call would wait for this rank
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.exit(0)
