"""PyTorch's methods of parallel training, over the loaded NCCL library.

The losses or outputs of each model are compared with those of one process that has all ranks' data;
for the captured training, the weights are compared between ranks. Run by torch.sh under torchrun;
for the output see torch_checks.py.
"""
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.distributed import _functional_collectives as collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch_checks import (DEVICE, RANK, WORLD, demand_close, demand_equal, filled, main,
                          splits_of)

STEPS = 6


def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 48), nn.GELU(),
                         nn.Linear(48, 8)).to(DEVICE)


def weights_of(network):
    """Returns a copy of all weights as one tensor."""
    return torch.cat([one.detach().flatten() for one in network.parameters()])


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return (torch.randn(16, 32, generator=generator).to(DEVICE),
            torch.randn(16, 8, generator=generator).to(DEVICE))


def one_step(network, optimizer, data, wanted):
    loss = functional.mse_loss(network(data).float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def alone():
    """Returns the losses of one process that trains on the data of all ranks."""
    network = model()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    return [one_step(network, optimizer,
                     *map(torch.cat, zip(*(batch(step, rank) for rank in range(WORLD)))))
            for step in range(STEPS)]


def demand_same_losses(network, optimizer=None, tolerance=2e-4):
    optimizer = optimizer or torch.optim.AdamW(network.parameters(), lr=0.01)
    for step, expected in enumerate(alone()):
        loss = one_step(network, optimizer, *batch(step, RANK))
        dist.all_reduce(loss)
        demand_close(loss / WORLD, expected, tolerance)


def data_parallel():
    for options in ({}, {"bucket_cap_mb": 0.01}, {"find_unused_parameters": True},
                    {"static_graph": True}, {"gradient_as_bucket_view": True}):
        demand_same_losses(DistributedDataParallel(model(), device_ids=[DEVICE], **options))


def compressed_gradients():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    network = DistributedDataParallel(model(), device_ids=[DEVICE])
    network.register_comm_hook(None, default_hooks.fp16_compress_hook)
    demand_same_losses(network, tolerance=2e-2)


def sharded_optimizer():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    network = DistributedDataParallel(model(), device_ids=[DEVICE])
    demand_same_losses(network, ZeroRedundancyOptimizer(
        network.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01))


def fully_sharded():
    meshes = [init_device_mesh("cuda", (WORLD,))]
    if WORLD % 2 == 0 and WORLD > 2:
        meshes.append(init_device_mesh("cuda", (2, WORLD // 2), mesh_dim_names=("copy", "shard")))
    for mesh in meshes:
        network = model()
        for layer in network[::2]:
            fully_shard(layer, mesh=mesh)
        fully_shard(network, mesh=mesh)
        demand_same_losses(network)
    halves = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    demand_same_losses(fully_shard(model(), mesh=meshes[0], mp_policy=halves), tolerance=5e-2)


def tensor_parallel():
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)
    mesh = init_device_mesh("cuda", (WORLD,))
    split = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    whole = model()
    optimizers = [torch.optim.SGD(network.parameters(), lr=0.1, foreach=False)
                  for network in (split, whole)]
    for step in range(STEPS):
        losses = [one_step(network, optimizer, *batch(step, 0))
                  for network, optimizer in zip((split, whole), optimizers)]
        demand_close(losses[0], losses[1], 1e-4)


def redistributed():
    from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor
    mesh = init_device_mesh("cuda", (WORLD,))
    whole = torch.arange(30.0 * WORLD * WORLD, device=DEVICE).view(6 * WORLD, 5 * WORLD)
    by_columns = distribute_tensor(whole, mesh, [Shard(0)]).redistribute(mesh, [Shard(1)])
    demand_equal(by_columns.to_local(), whole.chunk(WORLD, 1)[RANK].contiguous())
    demand_equal(by_columns.full_tensor(), whole)
    uneven = torch.arange(13.0, device=DEVICE)
    demand_equal(distribute_tensor(uneven, mesh, [Shard(0)]).full_tensor(), uneven)
    terms = DTensor.from_local(filled((4 * WORLD, 3), 1.0), mesh, [Partial()])
    demand_equal(terms.redistribute(mesh, [Shard(0)]).to_local(), filled((4, 3), float(WORLD)))


def pipeline():
    from torch.distributed import pipelining
    torch.manual_seed(5)
    layers = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()).to(DEVICE) for _ in range(2 * WORLD)]
    data, wanted = (torch.randn(8 * WORLD, 16, device=DEVICE) for _ in range(2))
    for each, kind in ((1, pipelining.ScheduleGPipe), (1, pipelining.Schedule1F1B),
                       (2, pipelining.ScheduleInterleaved1F1B)):
        whole = nn.Sequential(*copy.deepcopy(layers[:each * WORLD]))
        functional.mse_loss(whole(data), wanted).backward()
        places = [RANK + i * WORLD for i in range(each)]
        parts = [copy.deepcopy(layers[place]) for place in places]
        stages = [pipelining.PipelineStage(part, place, each * WORLD, DEVICE)
                  for part, place in zip(parts, places)]
        schedule = kind(stages if each > 1 else stages[0], n_microbatches=2 * WORLD,
                        loss_fn=functional.mse_loss)
        schedule.step(*([data] if RANK == 0 else []),
                      **({"target": wanted} if RANK == WORLD - 1 else {}))
        for part, place in zip(parts, places):
            demand_close(part[0].weight.grad, whole[place][0].weight.grad, 1e-4)


def experts():
    """Sends rows to other ranks and their gradients back, with different splits on each call."""
    for step in range(10):
        table = splits_of(step)
        sent, taken = table[RANK], [table[f][RANK] for f in range(WORLD)]
        rows = torch.cat([filled((sent[t], 8), float(10 * RANK + t)) for t in range(WORLD)])
        rows.requires_grad_()
        out = collectives.all_to_all_single_autograd(rows, taken, sent, dist.group.WORLD) + 0
        demand_equal(out.detach(), torch.cat([filled((taken[f], 8), float(10 * f + RANK))
                                              for f in range(WORLD)]))
        (out * 2).sum().backward()
        demand_equal(rows.grad, torch.full_like(rows, 2.0))


def ring_attention():
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import context_parallel_unshard
    from torch.nn.attention import SDPBackend, sdpa_kernel
    mesh = init_device_mesh("cuda", (WORLD,))
    torch.manual_seed(4)
    whole = [torch.randn(2, 4, 64 * WORLD, 32, device=DEVICE, dtype=torch.bfloat16)
             for _ in range(3)]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        expected = functional.scaled_dot_product_attention(*whole, is_causal=True)
        parts = [one.clone() for one in whole]
        with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 3):
            part = functional.scaled_dot_product_attention(*parts, is_causal=True)
            out, = context_parallel_unshard(mesh, [part], [2])
    demand_close(out, expected, 5e-2)


def compiled():
    """Compiled code, for which the compiler orders collectives by the library's time estimates."""
    from torch._inductor import config, config_comms
    config.reorder_for_compute_comm_overlap = True
    config_comms.runtime_estimations_use_nccl_lib_estimations = True
    group, weights = dist.group.WORLD, torch.eye(32, device=DEVICE)

    def chain(data):
        whole = collectives.all_gather_tensor(data, 0, group) @ weights
        part = collectives.reduce_scatter_tensor(whole, "sum", 0, group)
        total = collectives.all_reduce(part, "sum", group).repeat(WORLD, 1)
        return collectives.all_to_all_single(total, None, None, group) + 1

    data = filled((64, 32), float(RANK))
    demand_close(torch.compile(chain)(data), chain(data), 1e-4)
    demand_same_losses(torch.compile(DistributedDataParallel(model(), device_ids=[DEVICE])))


def captured_training():
    """Captures a training step in a graph: after its replays all ranks have equal weights."""
    side = torch.cuda.Stream()
    data, wanted = batch(0, RANK)
    with torch.cuda.stream(side):
        network = DistributedDataParallel(model(), device_ids=[DEVICE])
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for _ in range(11):  # as PyTorch requires
            one_step(network, optimizer, data, wanted)
    torch.cuda.synchronize()
    step = torch.cuda.CUDAGraph()
    before = weights_of(network)
    with torch.cuda.graph(step):
        one_step(network, optimizer, data, wanted)
    for _ in range(5):
        step.replay()
    weights = weights_of(network)
    if torch.equal(weights, before):
        raise AssertionError("the graph did not train")
    gathered = [torch.empty_like(weights) for _ in range(WORLD)]
    dist.all_gather(gathered, weights)
    for one in gathered:
        demand_equal(one, weights)


if __name__ == "__main__":
    main([data_parallel, compressed_gradients, sharded_optimizer, fully_sharded, tensor_parallel,
          redistributed, pipeline, experts, ring_attention, compiled, captured_training])
