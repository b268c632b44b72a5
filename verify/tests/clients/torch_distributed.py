"""Checks every call of torch.distributed over the loaded NCCL library, and trains a model.

Run by torch.sh under torchrun, with PyTorch's own library and with libweir_nccl.so preloaded. For
the output see torch_checks.py; in addition rank 0 prints the losses of the training with all their
digits ("loss NAME VALUES").
"""
import random

import torch
import torch.distributed as dist
from torch_checks import (DEVICE, IS_EAGER, RANK, WORLD, by_rank, demand_equal, filled, main,
                          splits_of)

TYPES = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32,
         torch.float64, torch.bfloat16]
SUM_OF_RANKS = float(sum(range(WORLD)))


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
        demand_equal(out, by_rank(count))
        part = torch.empty(count, device=DEVICE)
        dist.reduce_scatter_tensor(part, by_rank(count) + RANK)
        demand_equal(part, filled(count, WORLD * RANK + SUM_OF_RANKS))


def lists():
    """Calls with one tensor per rank, of different lengths."""
    lengths = [5 + 100 * rank for rank in range(WORLD)]
    outs = [filled(length, -1.0) for length in lengths]
    dist.all_gather(outs, filled(lengths[RANK], float(RANK)))
    for rank, out in enumerate(outs):
        demand_equal(out, filled(lengths[rank], float(rank)))
    part = filled(lengths[RANK], -1.0)
    dist.reduce_scatter(part, [filled(length, float(RANK)) for length in lengths])
    demand_equal(part, filled(lengths[RANK], SUM_OF_RANKS))
    outs = [filled(10 * (rank + 1) + RANK, -1.0) for rank in range(WORLD)]
    dist.all_to_all(outs, [filled(10 * (RANK + 1) + rank, float(RANK)) for rank in range(WORLD)])
    for rank, out in enumerate(outs):
        demand_equal(out, filled(10 * (rank + 1) + RANK, float(rank)))
    for root in range(WORLD):
        outs = [filled(777, -1.0) for _ in range(WORLD)] if RANK == root else None
        dist.gather(filled(777, float(RANK)), outs, dst=root)
        for rank, out in enumerate(outs or []):
            demand_equal(out, filled(777, float(rank)))
        out = filled(55, -1.0)
        dist.scatter(out, [filled(55, float(rank)) for rank in range(WORLD)]
                     if RANK == root else None, src=root)
        demand_equal(out, filled(55, float(RANK)))


def objects():
    gathered = [None] * WORLD
    dist.all_gather_object(gathered, {"rank": RANK, "text": "x" * 1000 * RANK})
    mine = [None]
    dist.scatter_object_list(mine, [("for", rank) for rank in range(WORLD)], src=0)
    if [one["rank"] for one in gathered] != list(range(WORLD)) or mine != [("for", RANK)]:
        raise AssertionError(f"got {gathered}, {mine}")


def groups_of_calls():
    """Calls that PyTorch combines into one NCCL group."""
    counts = (1, 10, 100000, 7)
    values = [filled(count, float(RANK)) for count in counts]
    with dist._coalescing_manager(device=DEVICE, async_ops=True) as pending:
        for one in values:
            dist.all_reduce(one)
    pending.wait()
    wholes = [filled(WORLD * count, -1.0) for count in counts]
    with dist._coalescing_manager(device=DEVICE):
        for whole, count in zip(wholes, counts):
            dist.all_gather_into_tensor(whole, filled(count, float(RANK)))
    parts = [filled(count, -1.0) for count in counts]
    with dist._coalescing_manager(device=DEVICE):
        for part, whole in zip(parts, wholes):
            dist.reduce_scatter_tensor(part, whole)
    for index, count in enumerate(counts):
        demand_equal(values[index], filled(count, SUM_OF_RANKS))
        demand_equal(wholes[index], by_rank(count))
        demand_equal(parts[index], filled(count, float(WORLD * RANK)))


def scaled_sums():
    for factor in (0.5, torch.tensor([2.0], device=DEVICE)):
        data = filled(1000, float(RANK))
        dist.all_reduce(data, op=dist._make_nccl_premul_sum(factor))
        demand_equal(data, filled(1000, SUM_OF_RANKS * float(factor)))


def floats_of_8_bits():
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        whole = torch.empty(WORLD * 1000, dtype=dtype, device=DEVICE)
        dist.all_gather_into_tensor(whole, filled(1000, float(RANK)).to(dtype))
        demand_equal(whole.float(), by_rank(1000))
        data = filled(1000, 1.0).to(dtype)
        dist.all_reduce(data)
        demand_equal(data.float(), filled(1000, float(WORLD)))


def broadcast_and_reduce():
    for root in range(WORLD):
        data = filled(12345, float(RANK))
        dist.broadcast(data, root)
        demand_equal(data, filled(12345, float(root)))
        dist.reduce(data, root)
        if RANK == root:
            demand_equal(data, filled(12345, float(WORLD * root)))


def all_to_all():
    equal = torch.arange(WORLD * 1000, device=DEVICE).float() + 1e5 * RANK
    out = torch.empty_like(equal)
    dist.all_to_all_single(out, equal)
    expected = torch.cat([torch.arange(1000, device=DEVICE).float() + 1000 * RANK + 1e5 * f
                          for f in range(WORLD)])
    demand_equal(out, expected)
    for step in range(20):
        table = splits_of(step)
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
    """Groups of short and long messages, several per pair of ranks, aligned and unaligned."""
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
    for step in range(12):  # groups are created and destroyed
        pair = sorted({step % WORLD, (step + 1) % WORLD})
        group = dist.new_group(pair)
        if RANK in pair:
            data = filled(100, 1.0)
            dist.all_reduce(data, group=group)
            demand_equal(data, filled(100, float(len(pair))))
            torch.cuda.synchronize()
            dist.destroy_process_group(group)


def registered():
    """Memory that PyTorch registers, first as buffers, then as symmetric windows."""
    backend, pool = dist.group.WORLD._get_backend(DEVICE), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        data = filled(1 << 20, 0.0)
    for is_window in (False, True):
        backend.register_mem_pool(pool, symm=is_window)
        data.fill_(float(RANK))
        dist.all_reduce(data)
        demand_equal(data, filled(1 << 20, SUM_OF_RANKS))
        torch.cuda.synchronize()
        backend.deregister_mem_pool(pool)


def without_the_last():
    """A communicator of all ranks but one; PyTorch then aborts the communicator of all ranks."""
    store = dist.distributed_c10d._get_default_store()
    if RANK == WORLD - 1:
        store.wait(["shrunk"])
        dist.distributed_c10d._abort_process_group()
        return
    data = filled(10, 1.0)
    dist.all_reduce(data, group=dist.shrink_group([WORLD - 1]))
    demand_equal(data, filled(10, WORLD - 1.0))
    store.set("shrunk", "")


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
    """Two branches of one graph alternate; calls of one communicator must not overlap."""
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
    """A graph and calls in another stream, ordered only by the order of the calls on the host."""
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
    """Trains a small model with DistributedDataParallel and prints the mean losses of all ranks."""
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


if __name__ == "__main__":
    main([all_reduce, gather_and_scatter, lists, objects, broadcast_and_reduce, groups_of_calls,
          scaled_sums, floats_of_8_bits, all_to_all, batched_messages, mixed_messages, subgroups,
          graph, graph_branches, graph_beside_calls, train]
         # PyTorch supports these only in a group that is bound to a device.
         + [registered] * IS_EAGER
         + [without_the_last] * (IS_EAGER and WORLD > 2))
