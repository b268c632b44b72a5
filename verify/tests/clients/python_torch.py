"""Checks the package weir under PyTorch: operators, gradients, torch.compile, CUDA graphs, torch.distributed.

One process per rank, with torchrun's variables. Runs the installed package.

    DEVICE=cpu|cuda    where the tensors are (default: cpu)
    BACKEND=weir|gloo  of torch.distributed; with another one than weir only the trainings run
    COMPILER=NAME      of torch.compile (default: aot_eager; inductor needs a C++ compiler or Triton)

Rank 0 prints "ok NAME" for each check and "loss NAME VALUES" for each training; a rank that finds a
fault prints "FAIL NAME reason" and ends with 1.
"""
import os
import sys

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
KIND, BACKEND = os.environ.get("DEVICE", "cpu"), os.environ.get("BACKEND", "weir")
COMPILER = os.environ.get("COMPILER", "aot_eager")
if KIND == "cuda":
    DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(DEVICE)
else:
    DEVICE = torch.device("cpu")
    torch.set_num_threads(1)
TOTAL = sum(range(WORLD))


def filled(shape, value, dtype=torch.float32):
    return torch.full((shape,) if isinstance(shape, int) else shape, value, dtype=dtype, device=DEVICE)


def by_rank(count):
    return torch.arange(WORLD, device=DEVICE).float().repeat_interleave(count)


def demand_equal(got, expected):
    if got.shape != expected.shape or not torch.equal(got, expected):
        raise AssertionError(f"got {tuple(got.shape)} {got.flatten()[:4].tolist()}, expected "
                             f"{tuple(expected.shape)} {expected.flatten()[:4].tolist()}")


def demand_raises(kind, words, call):
    try:
        call()
    except kind as error:
        if words in str(error):
            return
        raise AssertionError(f"'{words}' is not in: {error}") from error
    raise AssertionError(f"no {kind.__name__}: {words}")


def splits(step):
    """Rows from each rank to each; some are 0."""
    return [[(37 * step + 11 * f + 5 * t) % 4 for t in range(WORLD)] for f in range(WORLD)]


# --------------------------------------------------------------------- operators

def operators():
    ops = torch.ops.weir
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.float16, torch.uint8):
        data = filled((3, 4), RANK, dtype)
        demand_equal(ops.all_reduce(data), filled((3, 4), TOTAL, dtype))
        demand_equal(data, filled((3, 4), RANK, dtype))
        ops.all_reduce_(data, "max")
        demand_equal(data, filled((3, 4), WORLD - 1, dtype))
    demand_equal(ops.all_gather(filled((2, 3), float(RANK))), by_rank(6).view(2 * WORLD, 3))
    demand_equal(ops.reduce_scatter(by_rank(5) + RANK), filled(5, float(WORLD * RANK + TOTAL)))
    demand_equal(ops.broadcast(filled(7, float(RANK)), WORLD - 1), filled(7, WORLD - 1.0))
    demand_equal(ops.all_to_all_single(filled(2 * WORLD, float(RANK))), by_rank(2))
    transposed = torch.arange(6, device=DEVICE).float().view(2, 3).t()
    demand_equal(ops.all_reduce(transposed), transposed * WORLD)  # copied
    out = filled(4 * WORLD, -1.0)
    ops.all_gather_into(out, filled(4, float(RANK)))
    demand_equal(out, by_rank(4))


def splits_that_change():
    for step in range(10):
        table = splits(step)
        sent, received = table[RANK], [table[f][RANK] for f in range(WORLD)]
        data = torch.cat([filled((sent[t], 3), 100.0 * RANK + t) for t in range(WORLD)])
        right = torch.cat([filled((received[f], 3), 100.0 * f + RANK) for f in range(WORLD)])
        demand_equal(torch.ops.weir.all_to_all_single(data, received, sent), right)


def gradients():
    """The gradient of each operator for a loss that is the sum over ranks of (weight * output)."""
    ops, weight = torch.ops.weir, float(RANK + 1)
    weights = sum(range(1, WORLD + 1))

    def gradient(function, data):
        data = data.clone().requires_grad_()
        (function(data) * weight).sum().backward()
        return data.grad

    four = filled((2, 2), 1.0)
    demand_equal(gradient(ops.all_reduce, four), filled((2, 2), float(weights)))
    demand_equal(gradient(lambda x: ops.all_reduce(x, "avg"), four), filled((2, 2), weights / WORLD))
    demand_equal(gradient(ops.all_gather, four), filled((2, 2), float(weights)))
    whole = filled((2 * WORLD, 2), 1.0)
    right = torch.arange(1, WORLD + 1, device=DEVICE).float().repeat_interleave(4).view(2 * WORLD, 2)
    demand_equal(gradient(ops.reduce_scatter, whole), right)
    demand_equal(gradient(ops.broadcast, four), filled((2, 2), float(weights) if RANK == 0 else 0.0))
    demand_equal(gradient(ops.all_to_all_single, whole), right)
    table = splits(1)
    sent, received = table[RANK], [table[f][RANK] for f in range(WORLD)]
    data = filled((sum(sent), 2), 1.0)
    right = torch.cat([filled((sent[t], 2), float(t + 1)) for t in range(WORLD)])
    demand_equal(gradient(lambda x: ops.all_to_all_single(x, received, sent), data), right)
    demand_raises(RuntimeError, "no gradient", lambda: gradient(lambda x: ops.all_reduce(x, "max"), four))


def compiled():
    """Without a graph break (fullgraph), forward and backward, and with an operator that writes."""
    ops = torch.ops.weir

    def layer(data, weight):
        hidden = torch.relu(data @ weight)
        whole = ops.all_gather(ops.all_reduce(hidden, "avg"))
        return ops.reduce_scatter(whole * 2).sum() + ops.all_to_all_single(whole).mean()

    def writes(data):
        twice = data * 2
        ops.all_reduce_(twice)
        return twice + 1

    torch.manual_seed(3)
    data, weight = torch.randn(WORLD * 2, 4, device=DEVICE), torch.randn(4, 4, device=DEVICE)
    results = []
    for function in (layer, torch.compile(layer, fullgraph=True, backend=COMPILER)):
        parameter = weight.clone().requires_grad_()
        loss = function(data + RANK, parameter)
        loss.backward()
        results.append((loss.detach(), parameter.grad))
    for eager, other in zip(*results):
        if not torch.allclose(eager, other, rtol=1e-5, atol=1e-5):
            raise AssertionError(f"compiled {other}, eager {eager}")
    for value in (1.0, 3.0):
        demand_equal(torch.compile(writes, fullgraph=True, backend=COMPILER)(filled(8, value)),
                     filled(8, 2 * value * WORLD + 1))


def norms():
    """Allreduce, residual and norm in one: the same as in steps, eager and compiled without a graph break."""
    ops = torch.ops.weir
    torch.manual_seed(5)
    shared, weight = torch.randn(6, 256, device=DEVICE), torch.randn(256, device=DEVICE)
    bias = torch.randn(256, device=DEVICE)

    def steps(data, residual, epsilon):
        total = ops.all_reduce(data) + residual
        scale = torch.rsqrt(total.float().pow(2).mean(-1, keepdim=True) + epsilon)
        return (total.float() * scale * weight.to(data.dtype).float()), total

    def fused(data, residual):
        return ops.all_reduce_rms_norm(data, residual, weight.to(data.dtype), 1e-6) * 1.0

    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 2 ** -8)):
        data = (shared * (RANK + 1)).to(dtype)
        expected, total = steps(data, shared.to(dtype), 1e-6)
        for function in (fused, torch.compile(fused, fullgraph=True, backend=COMPILER)):
            residual = shared.to(dtype)
            got = function(data, residual).float()
            demand_equal(residual, total)
            if not torch.allclose(got, expected, rtol=bound, atol=1e-6):
                raise AssertionError(f"{dtype}: got {got[0, :4]}, expected {expected[0, :4]}")
    for per, groups in (("token", (6, 1)), ("block", (6, 2))):
        out, scales = ops.all_reduce_rms_norm_fp8(data, shared.to(dtype), weight.to(dtype), 1e-6, per)
        found = out.float().view(6, groups[1], -1) * scales.view(6, groups[1], 1)
        if scales.shape != groups or not torch.allclose(found.view(6, 256), expected, rtol=2 ** -4, atol=0.02):
            raise AssertionError(f"per {per}: got {found[0, 0, :4]}, expected {expected[0, :4]}")
    summed = ops.all_reduce(shared)
    wanted = torch.nn.functional.layer_norm(summed, (256,), weight, bias)
    if not torch.allclose(ops.all_reduce_layer_norm(shared, None, weight, bias), wanted, rtol=1e-4, atol=1e-4):
        raise AssertionError("layer norm")
    demand_raises(ValueError, "multiple of 8", lambda: ops.all_reduce_rms_norm(shared[:, :12].contiguous()))


def dispatch():
    """PyTorch's own tests of an operator: schema, fake tensors, autograd registration."""
    data = torch.rand(WORLD * 2, 3, device=DEVICE, requires_grad=True)
    for operator, arguments in ((torch.ops.weir.all_reduce, (data, "sum")), (torch.ops.weir.all_gather, (data,)),
                                (torch.ops.weir.reduce_scatter, (data, "sum")), (torch.ops.weir.broadcast, (data, 0)),
                                (torch.ops.weir.all_to_all_single, (data,))):
        torch.library.opcheck(operator.default, arguments,
                              test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


def wrong_use():
    ops = torch.ops.weir
    demand_raises(RuntimeError, "no group 'none'", lambda: ops.all_reduce(filled(1, 1.0), "sum", "none"))
    demand_raises(RuntimeError, "op 'mean'", lambda: ops.all_reduce(filled(1, 1.0), "mean"))
    demand_raises(RuntimeError, "not contiguous", lambda: ops.all_reduce_(filled((4, 4), 1.0).t()[:3]))
    demand_raises(RuntimeError, "multiple of", lambda: ops.reduce_scatter(filled(WORLD + 1, 1.0)))
    demand_raises(RuntimeError, "weir reduces", lambda: ops.all_reduce(filled(1, 1, torch.complex64)))


def communicator():
    import weir.torch
    comm = weir.torch.group().comm(filled(1, 0.0))
    data = filled((5, 5), float(RANK))
    if comm.all_reduce(data) is not data:
        raise AssertionError("all_reduce returns its array")
    demand_equal(data, filled((5, 5), float(TOTAL)))
    demand_equal(comm.all_gather(filled(3, float(RANK))), by_rank(3))
    call = comm.prepare("all_reduce", data)
    data.fill_(1.0)
    call()
    demand_equal(data, filled((5, 5), float(WORLD)))


class Skipped(Exception):
    """What a check needs is not there."""


def experts():
    """Dispatch and combine of a mixture-of-experts layer, with gradients; the expert e multiplies by e + 1."""
    import weir.moe
    import weir.torch
    comm = weir.torch.group().comm(filled(1, 0.0))
    try:
        moe = weir.moe.Group(comm, 4 * WORLD, 2, 16, 64, dtype="float32", expert_capacity=32 * WORLD)
    except weir.UnsupportedError as error:
        raise Skipped(str(error)) from error
    with moe:
        x = (torch.arange(16 * 64, device=DEVICE).float().view(16, 64) % 7 + RANK).requires_grad_()
        chosen = (torch.arange(16, device=DEVICE)[:, None] + torch.tensor([RANK, RANK + 3], device=DEVICE)) % (4 * WORLD)
        weights = filled((16, 2), 0.5).requires_grad_()
        got = weir.torch.moe_dispatch(moe, x, chosen, weights)
        factor = torch.arange(moe.local_experts, device=DEVICE).float() + moe.first_expert + 1
        outputs = got.rows * factor.repeat_interleave(moe.expert_stride)[:, None]
        out = weir.torch.moe_combine(moe, outputs, got, weights)
        out.sum().backward()
        if KIND == "cuda":
            torch.cuda.synchronize()
        moe.check()
        right = (chosen + 1).float()
        demand_equal(out.detach(), x.detach() * (right.sum(1, keepdim=True) * 0.5))
        demand_equal(x.grad, (right.sum(1, keepdim=True) * 0.5).expand(16, 64))
        demand_equal(weights.grad, right * x.detach().sum(1, keepdim=True))


def results_on_a_stream():
    """Memory that the current stream still writes to is not that of a result on another stream; needs a GPU."""
    import weir.torch
    comm = weir.torch.group().comm(filled(1, 0.0))
    other, count = torch.cuda.Stream(), 1 << 20
    data = filled(WORLD * count, RANK + 1.0)
    calls = [(lambda: comm.all_gather(data[:count], stream=other), by_rank(count) + 1),
             (lambda: comm.reduce_scatter(data, stream=other), filled(count, float(TOTAL + WORLD))),
             (lambda: comm.all_to_all(data, stream=other), by_rank(count) + 1),
             (lambda: comm.all_to_all_v(data, [count] * WORLD, recv_counts=[count] * WORLD, stream=other), by_rank(count) + 1)]
    torch.cuda.synchronize()
    for call, right in calls:
        late = torch.empty_like(right)
        torch.cuda._sleep(50_000_000)
        late.fill_(-1.0)
        del late
        got = call()
        torch.cuda.synchronize()
        demand_equal(got, right)


def experts_on_a_stream():
    """Dispatch and combine on a stream that does not wait for the current one, which is late; needs a GPU."""
    import weir.moe
    import weir.torch
    comm = weir.torch.group().comm(filled(1, 0.0))
    try:
        moe = weir.moe.Group(comm, 2 * WORLD, 2, 8, 64, dtype="float32", layout="rank")
    except weir.UnsupportedError as error:
        raise Skipped(str(error)) from error
    with moe:
        x, weights = filled((8, 64), RANK + 1.0), filled((8, 2), 0.5)
        chosen = (torch.arange(8, device=DEVICE)[:, None] + torch.tensor([0, 1], device=DEVICE)) % (2 * WORLD)
        right = moe.dispatch(x, chosen, weights)
        sums = moe.combine(right.rows)
        torch.cuda.synchronize()
        other, kept = torch.cuda.Stream(), None
        for stream in (other, other.cuda_stream):
            for again in (None, kept):
                torch.cuda._sleep(50_000_000)
                kept = moe.dispatch(x, chosen, weights, out=again, stream=stream)
                out = moe.combine(kept.rows, stream=stream)
                torch.cuda.synchronize()
                moe.check()
                for name in ("weights", "experts", "counts", "sources"):
                    demand_equal(getattr(kept, name), getattr(right, name))
                demand_equal(out, sums)


class Stateless:
    """What the engines' StatelessProcessGroup offers to a communicator."""

    rank, world_size = RANK, WORLD

    @staticmethod
    def broadcast_obj(obj, src):
        held = [obj]
        dist.broadcast_object_list(held, src=src)
        return held[0]


def engine():
    """The communicator for vLLM and SGLang, in place of their custom all-reduce and of PyNccl."""
    from weir.engines import EngineCommunicator
    for group in (dist.new_group(backend="gloo"), Stateless()):
        one = EngineCommunicator(group, DEVICE, max_size=1 << 16)
        data = filled((16, 32), RANK + 1.0, torch.bfloat16)
        right = filled((16, 32), float(TOTAL + WORLD), torch.bfloat16)
        if not one.should_custom_ar(data) or one.disabled or not one.available:
            raise AssertionError(f"disabled: {one.reason}")
        with one.capture():
            demand_equal(one.custom_all_reduce(data), right)
        for refused in (filled((1 << 16) + 1, 1.0), filled((4, 4), 1.0).t()[1:, :2], filled(4, 1, torch.int32)):
            if one.should_custom_ar(refused) or one.custom_all_reduce(refused) is not None:
                raise AssertionError(f"accepted {refused.shape} {refused.dtype}")
        demand_equal(one.all_reduce(data), right)
        with one.change_state(enable=False):
            if one.all_reduce(data) is not None:
                raise AssertionError("served a call while disabled")
        demand_equal(one.all_reduce(data, op=dist.ReduceOp.MAX), filled((16, 32), float(WORLD), torch.bfloat16))
        out = filled(3 * WORLD, -1.0)
        one.all_gather(out, filled(3, float(RANK)))
        demand_equal(out, by_rank(3))
        part = filled(3, -1.0)
        one.reduce_scatter(part, by_rank(3))
        demand_equal(part, filled(3, float(WORLD * RANK)))
        sizes = [2 + rank for rank in range(WORLD)]
        out = filled((sum(sizes), 2), -1.0)
        one.all_gatherv(out, filled((sizes[RANK], 2), float(RANK)), sizes)
        demand_equal(out, torch.cat([filled((sizes[rank], 2), float(rank)) for rank in range(WORLD)]))
        data = filled(4, float(RANK))
        one.broadcast(data, WORLD - 1)
        demand_equal(data, filled(4, WORLD - 1.0))
        if RANK == 0:
            one.send(filled(5, 5.0), 1)
        elif RANK == 1:
            data = filled(5, 0.0)
            one.recv(data, 0)
            demand_equal(data, filled(5, 5.0))
        one.close()
        if one.all_reduce(data) is not None or one.should_custom_ar(data):
            raise AssertionError("served a call after close")


def graphs():
    """A captured graph, replayed on new contents; needs a GPU."""
    data, out = filled(1 << 12, 1.0), filled((1 << 12) * WORLD, 0.0)
    ops = torch.ops.weir
    ops.all_gather_into(out, ops.all_reduce(data))
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        total = ops.all_reduce(data)
        ops.all_reduce_(total, "max")
        ops.all_gather_into(out, total)
    for value in range(1, 6):
        data.fill_(float(value + RANK))
        captured.replay()
        torch.cuda.synchronize()
        demand_equal(out, filled(len(out), float(WORLD * value + TOTAL)))


def streams():
    """Calls on several streams are ordered; needs a GPU."""
    data, side = filled(1 << 20, 1.0), torch.cuda.Stream()
    for _ in range(20):
        first, second = data.clone(), data.clone()
        side.wait_stream(torch.cuda.current_stream())
        torch.ops.weir.all_reduce_(first)
        with torch.cuda.stream(side):
            torch.ops.weir.all_reduce_(second)
        torch.cuda.current_stream().wait_stream(side)
        demand_equal(first, filled(1 << 20, float(WORLD)))
        demand_equal(second, first)


def pool():
    """Tensors in registered memory, also symmetric, in calls and graphs; the memory returns. Needs a GPU."""
    import weir.torch
    if weir.torch.is_registered(filled(4, 0.0)):
        raise AssertionError("ordinary memory counts as registered")
    with weir.torch.use_pool(symmetric=True):
        data, out = filled(1 << 20, float(RANK)), filled((1 << 20) * WORLD, -1.0)
    with weir.torch.use_pool():
        small = [filled(100 + i, float(i)) for i in range(20)]
    for one in (data, out, *small):
        if not weir.torch.is_registered(one):
            raise AssertionError("a tensor of the pool is not in registered memory")
    if weir.torch.is_registered(filled(1 << 20, 0.0)):
        raise AssertionError("a tensor after the block is in registered memory")
    torch.ops.weir.all_gather_into(out, data)
    demand_equal(out, by_rank(1 << 20))
    torch.ops.weir.all_reduce_(data)
    demand_equal(data, filled(1 << 20, float(TOTAL)))
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        torch.ops.weir.all_reduce_(data)
    for value in (1.0, 2.0):
        data.fill_(value)
        captured.replay()
        demand_equal(data, filled(1 << 20, value * WORLD))
    for i, one in enumerate(small):
        torch.ops.weir.all_reduce_(one)
        demand_equal(one, filled(100 + i, float(i * WORLD)))
    found = weir.torch.group()
    demand_raises(weir.InvalidError, "tensors of use_pool are in use", found.pool.close)
    del data, out, small, one, captured
    found.pool.close()
    found.pool = None


def no_pool():
    """On the CPU the reason is given."""
    import weir.torch

    def enter():
        with weir.torch.use_pool():
            raise AssertionError("entered")

    if torch.cuda.is_available():
        return
    demand_raises(weir.UnsupportedError, "no GPU here; in memory of the process, Communicator.empty", enter)


# ----------------------------------------------------------- torch.distributed

def distributed():
    for op, right in ((dist.ReduceOp.SUM, TOTAL), (dist.ReduceOp.MAX, WORLD - 1), (dist.ReduceOp.MIN, 0),
                      (dist.ReduceOp.AVG, TOTAL / WORLD)):
        data = filled(1000, float(RANK))
        work = dist.all_reduce(data, op=op, async_op=True)
        work.wait()
        demand_equal(data, filled(1000, float(right)))
    strided = filled((4, 4), float(RANK)).t()[1:]
    dist.all_reduce(strided)
    demand_equal(strided, filled((3, 4), float(TOTAL)))
    out = filled(5 * WORLD, -1.0)
    dist.all_gather_into_tensor(out, filled(5, float(RANK)))
    demand_equal(out, by_rank(5))
    part = filled(5, -1.0)
    dist.reduce_scatter_tensor(part, by_rank(5) + RANK)
    demand_equal(part, filled(5, float(WORLD * RANK + TOTAL)))
    for root in range(WORLD):
        data = filled(10, float(RANK))
        dist.broadcast(data, root)
        demand_equal(data, filled(10, float(root)))
        dist.reduce(data, root)
        if RANK == root:
            demand_equal(data, filled(10, float(WORLD * root)))
    out = filled(2 * WORLD, -1.0)
    dist.all_to_all_single(out, filled(2 * WORLD, float(RANK)))
    demand_equal(out, by_rank(2))
    dist.barrier()
    demand_raises(RuntimeError, "expected SUM", lambda: dist.all_reduce(filled(1, 1, torch.int32), op=dist.ReduceOp.BAND))


def lists():
    lengths = [5 + 10 * rank for rank in range(WORLD)]
    for sizes in (lengths, [7] * WORLD):
        outs = [filled(length, -1.0) for length in sizes]
        dist.all_gather(outs, filled(sizes[RANK], float(RANK)))
        for rank, out in enumerate(outs):
            demand_equal(out, filled(sizes[rank], float(rank)))
        part = filled(sizes[RANK], -1.0)
        dist.reduce_scatter(part, [filled(length, float(RANK)) for length in sizes])
        demand_equal(part, filled(sizes[RANK], float(TOTAL)))
    outs = [filled(10 * (rank + 1) + RANK, -1.0) for rank in range(WORLD)]
    dist.all_to_all(outs, [filled(10 * (RANK + 1) + rank, float(RANK)) for rank in range(WORLD)])
    for rank, out in enumerate(outs):
        demand_equal(out, filled(10 * (rank + 1) + RANK, float(rank)))
    for root in range(WORLD):
        outs = [filled(7, -1.0) for _ in range(WORLD)] if RANK == root else None
        dist.gather(filled(7, float(RANK)), outs, dst=root)
        for rank, out in enumerate(outs or []):
            demand_equal(out, filled(7, float(rank)))
        out = filled(5, -1.0)
        dist.scatter(out, [filled(5, float(rank)) for rank in range(WORLD)] if RANK == root else None, src=root)
        demand_equal(out, filled(5, float(RANK)))


def one_tensor():
    """gather_single and the coalesced calls, where this PyTorch has them."""
    if hasattr(dist, "gather_single"):
        for root in range(WORLD):
            out = filled(3 * WORLD, -1.0) if RANK == root else None
            dist.gather_single(filled(3, float(RANK)), out, root)
            if RANK == root:
                demand_equal(out, by_rank(3))
    gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
    scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    outs, parts = [filled(2 * WORLD, -1.0) for _ in range(3)], [filled(2, -1.0) for _ in range(3)]
    with dist._coalescing_manager(device=DEVICE):
        for i, out in enumerate(outs):
            gather(out, filled(2, float(RANK + i)))
    with dist._coalescing_manager(device=DEVICE):
        for i, part in enumerate(parts):
            scatter(part, by_rank(2) + i)
    for i in range(3):
        demand_equal(outs[i], by_rank(2) + i)
        demand_equal(parts[i], filled(2, float(WORLD * (RANK + i))))


def objects():
    found = [None] * WORLD
    dist.all_gather_object(found, {"rank": RANK, "text": "x" * 100 * RANK})
    if [one["rank"] for one in found] != list(range(WORLD)):
        raise AssertionError(f"got {found}")
    held = ["from root", 5] if RANK == 0 else [None, None]
    dist.broadcast_object_list(held, src=0)
    if held != ["from root", 5]:
        raise AssertionError(f"got {held}")


def messages():
    if RANK < 2 <= WORLD:
        data = filled(1000, float(RANK))
        if RANK == 0:
            dist.send(data, 1)
            dist.recv(data, 1)
            demand_equal(data, filled(1000, 7.0))
        else:
            dist.recv(data, 0)
            demand_equal(data, filled(1000, 0.0))
            dist.send(filled(1000, 7.0), 0)


def groups():
    for step in range(3):
        members = sorted({step % WORLD, (step + 1) % WORLD})
        group = dist.new_group(members)
        if RANK in members:
            data = filled(10, 1.0)
            dist.all_reduce(data, group=group)
            demand_equal(data, filled(10, float(len(members))))
            dist.destroy_process_group(group)


def functional():
    """The functional collectives of PyTorch, eager and compiled, over the backend."""
    import torch.distributed._functional_collectives as functions
    group = dist.group.WORLD

    def body(data):
        total = functions.all_reduce(data, "sum", group)
        return functions.all_gather_tensor(total + 1, 0, group)

    right = filled(3 * WORLD, TOTAL + 1.0)
    demand_equal(body(filled(3, float(RANK))) + 0, right)
    demand_equal(torch.compile(body, fullgraph=True, backend=COMPILER)(filled(3, float(RANK))) + 0, right)


def untraced():
    """torch.compile leaves the backend and the communicator alone, where compiled code and C++ call them."""
    import weir.torch
    from torch._dynamo.convert_frame import register_bytecode_hook
    package = os.path.dirname(weir.__file__) + os.sep
    compiled_code, seen = [], []
    hook = register_bytecode_hook(lambda code, _: compiled_code.append((code.co_filename, code.co_name)))
    comm, right = weir.torch.group().comm(filled(1, 0.0)), weir.torch.Group.comm

    def spy(self, tensor):
        seen.append(torch.compiler.is_compiling())
        return right(self, tensor)

    def body(data):
        twice = data * 2
        dist.all_reduce(twice)
        comm.all_reduce(twice)
        torch.ops.weir.all_reduce_(twice)
        return twice + 1

    weir.torch.Group.comm = spy
    try:
        demand_equal(torch.compile(body, backend=COMPILER)(filled(4, 1.0)), filled(4, 2.0 * WORLD ** 3 + 1))
        model = torch.compile(torch.nn.parallel.DistributedDataParallel(network()), backend=COMPILER)
        model(filled((2, 64), 1.0)).sum().backward()
    finally:
        weir.torch.Group.comm = right
        hook.remove()
    if len(seen) < 3 or any(seen):
        raise AssertionError(f"traced: {seen}")
    if not compiled_code or any(file.startswith(package) for file, _ in compiled_code):
        raise AssertionError(f"compiled: {compiled_code}")


# ---------------------------------------------------------------------- trainings

def network():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64),
                               torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(DEVICE)


def train(name, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator, losses = torch.Generator().manual_seed(100 + RANK), []
    for _ in range(20):
        data = torch.randn(128, 64, generator=generator).to(DEVICE)
        loss = ((model(data) - data.sum(1, keepdim=True) / 8) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / WORLD)
    if sum(losses[-4:]) > 0.95 * sum(losses[:4]):
        raise AssertionError(f"the loss did not fall: {losses}")
    if RANK == 0:
        print(f"loss {name} " + " ".join(f"{loss:.9g}" for loss in losses), flush=True)


def data_parallel():
    train("ddp", torch.nn.parallel.DistributedDataParallel(network()))


def data_parallel_compiled():
    train("compiled", torch.compile(torch.nn.parallel.DistributedDataParallel(network()), backend=COMPILER))


def fully_sharded():
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh
    model, mesh = network(), init_device_mesh(KIND, (WORLD,))
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    train("fsdp", fully_shard(model, mesh=mesh))


def run(check):
    why = ""
    try:
        check()
        if KIND == "cuda":
            torch.cuda.synchronize()
    except Skipped as error:
        if RANK == 0:
            print(f"skip {check.__name__} {error}", flush=True)
        return
    except Exception as error:
        if os.environ.get("TRACE"):
            raise
        why = f"rank {RANK}: {type(error).__name__}: {error}".replace("\n", " ")[:400]
    if why:
        print(f"FAIL {check.__name__} {why}", flush=True)
        os._exit(1)  # otherwise the other ranks would wait for this one in their next call
    elif RANK == 0:
        print(f"ok {check.__name__}", flush=True)


def main():
    if BACKEND == "weir":
        import weir.torch  # noqa: F401 - registers the backend
    dist.init_process_group(BACKEND)
    checks = [data_parallel, data_parallel_compiled, fully_sharded]
    if BACKEND == "weir":
        checks = [operators, splits_that_change, gradients, compiled, norms, dispatch, wrong_use, communicator, experts, engine] + \
            ([graphs, streams, results_on_a_stream, experts_on_a_stream, pool] if KIND == "cuda" else [no_pool]) + [distributed, lists, one_tensor, objects, messages, groups, functional, untraced] + \
            checks
    chosen = os.environ.get("CHECKS", "").split()
    for check in checks:
        if not chosen or check.__name__ in chosen:
            run(check)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
