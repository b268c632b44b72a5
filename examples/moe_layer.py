"""A mixture-of-experts layer of PyTorch over weir, trained beside a dense one.

    python moe_layer.py                  # starts 4 ranks on this node

Each rank holds a part of the experts and a part of the tokens. dispatch and combine have gradients, so the layer
is trained by autograd like any other. Needs PyTorch and the Python package of weir.
"""
import sys

import torch
import weir
import weir.moe
from weir.torch import moe_combine, moe_dispatch

RANKS, EXPERTS, TOPK, TOKENS, HIDDEN, STEPS = 4, 8, 2, 32, 64, 5


class MoE(torch.nn.Module):
    """The layer of one rank: the router, which is the same on all ranks, and this rank's experts."""

    def __init__(self, comm):
        super().__init__()
        self.moe = weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32")
        self.router, experts = parameters()
        mine = slice(self.moe.first_expert, self.moe.first_expert + self.moe.local_experts)
        self.experts = torch.nn.Parameter(experts[mine].detach().clone())

    def forward(self, x):
        weights, chosen = choose(x @ self.router)
        got = moe_dispatch(self.moe, x, chosen, weights)
        parts = [got.rows[first:first + count] @ expert for first, count, expert in
                 zip(got.offsets.tolist(), got.counts.tolist(), self.experts)]
        return moe_combine(self.moe, torch.cat(parts), got, weights)


def parameters():
    generator = torch.Generator().manual_seed(1)
    router = torch.nn.Parameter(torch.randn(HIDDEN, EXPERTS, generator=generator) / HIDDEN)
    return router, torch.nn.Parameter(torch.randn(EXPERTS, HIDDEN, HIDDEN, generator=generator) / HIDDEN ** 0.5)


def choose(scores):
    """The top-k experts of each token, and the weights of their outputs."""
    best, chosen = scores.softmax(-1).topk(TOPK)
    return best / best.sum(-1, keepdim=True), chosen


def dense(x, router, experts):
    """The same layer without dispatch: every expert sees every token."""
    weights, chosen = choose(x @ router)
    scale = torch.zeros(len(x), EXPERTS).scatter(1, chosen, weights)
    return torch.einsum("tx,th,xho->to", scale, x, experts)


def train(comm):
    """Returns the largest difference between the losses of this rank's layer and of the dense one."""
    torch.set_num_threads(1)
    layer, (router, experts), worst = MoE(comm), parameters(), 0.0
    data = torch.Generator().manual_seed(100 + comm.rank)
    for _ in range(STEPS):
        x = torch.randn(TOKENS, HIDDEN, generator=data)
        losses = [(out - x.roll(1, -1)).square().mean() for out in (layer(x), dense(x, router, experts))]
        sum(losses).backward()
        for one in (layer.router, router, experts):
            comm.all_reduce(one.grad)  # all ranks' tokens; the gradients of layer.experts are those already
        with torch.no_grad():
            for one in (layer.router, layer.experts, router, experts):
                one -= one.grad
                one.grad = None
        worst = max(worst, abs(losses[0].item() - losses[1].item()))
    layer.moe.close()
    return worst


if __name__ == "__main__":
    differences = weir.spawn(train, RANKS, backend="host")
    print(f"{STEPS} steps on {RANKS} ranks; the losses differ from the dense layer's by at most {max(differences):.1e}")
    sys.exit(max(differences) > 1e-5)
