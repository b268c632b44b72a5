"""Measures dispatch and combine of weir.moe beside what others use, and compares their results.

    torchrun --nproc-per-node 2 verify/tests/clients/moe_peers.py --tokens 1,16,128 --hidden 1024

Candidates: `weir`; `torch`, rows packed by index_select, exchanged by all_to_all_single and added by index_add, as
programs do by hand; `deepep`, DeepEP's ElasticBuffer where it is installed, on GPUs. In each iteration every candidate's
received rows must be those of weir, as a set for each expert, and its result must agree within the rounding of the type.
Times are those of the slowest rank, the median of the iterations, in microseconds. Needs PyTorch and the package
weir. Exit code: 0; 1 if a result differs; 77 if a package is missing.
"""
import argparse
import importlib.util
import os
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
    import weir
    import weir.moe
except ImportError as missing:
    print(f"moe_peers: skipped: {missing}")
    sys.exit(77)

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class Weir:
    """weir.moe in layout "expert"."""

    def __init__(self, options, comm, tokens):
        self.group = weir.moe.Group(comm, options.experts, options.topk, tokens, options.hidden, dtype=options.dtype)

    def dispatch(self, x, experts, weights):
        self.weights = weights
        self.got = self.group.dispatch(x, experts)
        return self.got.rows

    def counts(self):
        return self.got.counts.tolist()

    def combine(self, outputs):
        return self.group.combine(outputs, self.weights)

    def close(self):
        self.group.close()


class Torch:
    """all_to_all_single of rows that index_select has packed by expert."""

    def __init__(self, options, comm, tokens):
        self.experts, self.local = options.experts, options.experts // WORLD

    def dispatch(self, x, experts, weights):
        chosen = experts.flatten()
        order = torch.argsort(chosen, stable=True)
        order = order[int((chosen < 0).sum()):]  # masked choices come first
        sent = torch.bincount(chosen[order], minlength=self.experts)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        received = received.view(WORLD, self.local)
        self.order, self.weights, self.like = order, weights, x
        self.sent = sent.view(WORLD, self.local).sum(1).tolist()
        self.received = received.sum(1).tolist()
        packed = x.index_select(0, order // experts.shape[1])
        arrived = x.new_empty(sum(self.received), x.shape[1])
        dist.all_to_all_single(arrived, packed, self.received, self.sent)
        # Rows arrive by rank, in that by expert; `places` has them by expert.
        labels = torch.arange(self.local, device=x.device).repeat(WORLD).repeat_interleave(received.flatten())
        self.places, self.received_by_expert = torch.argsort(labels, stable=True), received.sum(0)
        return arrived.index_select(0, self.places)

    def counts(self):
        return self.received_by_expert.tolist()

    def combine(self, outputs):
        arrived = torch.empty_like(outputs)
        arrived[self.places] = outputs
        packed = outputs.new_empty(len(self.order), outputs.shape[1])
        dist.all_to_all_single(packed, arrived, self.sent, self.received)
        weighted = packed.float() * self.weights.flatten()[self.order].unsqueeze(1)
        total = torch.zeros(self.like.shape, dtype=torch.float32, device=outputs.device)
        return total.index_add_(0, self.order // self.weights.shape[1], weighted).to(outputs.dtype)

    def close(self):
        pass


class DeepEP:
    """DeepEP's ElasticBuffer with a row for each choice; weights are multiplied before its combine."""

    def __init__(self, options, comm, tokens):
        from deep_ep import ElasticBuffer
        self.tokens, self.experts = tokens, options.experts
        self.buffer = ElasticBuffer(dist.group.WORLD, num_max_tokens_per_rank=tokens, hidden=options.hidden,
                                    num_topk=options.topk)

    def dispatch(self, x, experts, weights):
        rows, _, self.row_weights, self.handle, _ = self.buffer.dispatch(
            x, topk_idx=experts.long(), topk_weights=weights, num_experts=self.experts,
            num_max_tokens_per_rank=self.tokens, expert_alignment=1, do_expand=True)
        return rows

    def counts(self):
        return list(self.handle.num_recv_tokens_per_expert_list)

    def combine(self, outputs):
        weighted = (outputs.float() * self.row_weights.view(-1, 1)).to(outputs.dtype)
        return self.buffer.combine(weighted, handle=self.handle)[0]

    def close(self):
        self.buffer.destroy()


# ----------------------------------------------------------------------------- data

def tokens_of(options, tokens, turn, device):
    """Rows whose first three elements name rank, token and turn exactly in every type, experts and weights."""
    generator = torch.Generator().manual_seed(1 + RANK + WORLD * turn)
    x = torch.randn(tokens, options.hidden, generator=generator)
    number = torch.arange(tokens)
    x[:, 0], x[:, 1], x[:, 2] = RANK * 8 + turn % 8, number // 128, number % 128
    experts = torch.rand(tokens, options.experts, generator=generator).topk(options.topk).indices.int()
    if options.masked:
        experts[torch.rand(experts.shape, generator=generator) < options.masked] = -1
    weights = torch.rand(tokens, options.topk, generator=generator)
    return x.to(getattr(torch, options.dtype)).to(device), experts.to(device), weights.to(device)


def outputs_of(rows, counts, first):
    """The output of expert e: its rows, multiplied by e mod 7 + 1."""
    factors = torch.tensor([float((first + e) % 7 + 1) for e in range(len(counts))], device=rows.device)
    used = sum(counts)
    outputs = torch.zeros_like(rows)
    outputs[:used] = rows[:used] * factors.repeat_interleave(torch.tensor(counts, device=rows.device)).unsqueeze(1)
    return outputs


def ordered(rows, counts):
    """The rows that are in use, those of each expert by rank and token."""
    used = rows[:sum(counts)].cpu()
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    keys = ((labels * 8192 + used[:, 0].long()) * 1024 + used[:, 1].long()) * 128 + used[:, 2].long()
    return used[torch.argsort(keys, stable=True)]


def difference(rows, counts, y, expected):
    """What differs from weir's rows, counts and result; None: nothing."""
    if counts != expected["counts"]:
        return f"counts {counts[:8]}, weir has {expected['counts'][:8]}"
    wrong = (ordered(rows, counts) != expected["rows"]).any(1).nonzero().flatten()
    if len(wrong):
        return f"{len(wrong)} rows differ from weir's, the first is row {int(wrong[0])} in the order of experts and tokens"
    least, allowed = 0.02, 1e-5 if y.dtype == torch.float32 else 8 / 256
    error = (y.float() - expected["y"].float()).abs() / expected["y"].float().abs().clamp(min=least)
    if not bool((error < allowed).all()):
        return f"the result differs from weir's by {float(error.max()):.2g} (relative), {allowed:.2g} is allowed"
    return None


# ------------------------------------------------------------------------- measurement

def timed(call, device):
    """Returns the result and the time on this rank. Checks of a rank that is done must not delay others."""
    dist.barrier()
    start = time.perf_counter()
    result = call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    us = (time.perf_counter() - start) * 1e6
    dist.barrier()
    return result, us


def run_turn(name, candidate, options, data, device, expected):
    """One dispatch and combine. Returns the times and what is wrong."""
    x, experts, weights = data
    rows, dispatch_us = timed(lambda: candidate.dispatch(x, experts, weights), device)
    counts = candidate.counts()
    if options.inject == name and RANK == 0 and counts and sum(counts):
        rows[sum(counts) - 1, -1] += 1  # the check must find it
    outputs = outputs_of(rows, counts, RANK * (options.experts // WORLD))
    y, combine_us = timed(lambda: candidate.combine(outputs), device)
    if name == "weir":
        expected.update(rows=ordered(rows, counts), counts=counts, y=y.clone())
        return (dispatch_us, combine_us), None
    return (dispatch_us, combine_us), difference(rows, counts, y, expected)


def slowest(us):
    """The medians over iterations of the slowest rank's times."""
    times = torch.tensor(us, dtype=torch.float64)
    device = torch.device("cuda") if dist.get_backend() == "nccl" else torch.device("cpu")
    times = times.to(device)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return [statistics.median(column) for column in times.cpu().t().tolist()]


def measure(options, comm, tokens, device, kinds):
    """Prints a line for each phase and candidate. Returns how many turns were wrong on this rank."""
    candidates = {name: kind(options, comm, tokens) for name, kind in kinds.items()}
    us, wrong = {name: [] for name in candidates}, 0
    for turn in range(-options.warmups, options.iters):
        data, expected = tokens_of(options, tokens, turn + options.warmups, device), {}
        for name, candidate in candidates.items():
            times, fault = run_turn(name, candidate, options, data, device, expected)
            if fault:
                wrong += 1
                print(f"moe_peers: rank {RANK}, {tokens} tokens, turn {turn}, {name}: {fault}", file=sys.stderr)
            if turn >= 0:
                us[name].append(times)
    medians = {name: slowest(of) for name, of in us.items()}
    for phase, word in enumerate(("dispatch", "combine")):
        for name, of in medians.items():
            if RANK == 0:
                print(f"{tokens:8} {word:9} {name:8} {of[phase]:12.1f} {of[phase] / medians['weir'][phase]:10.2f}", flush=True)
    for candidate in candidates.values():
        candidate.close()
    return wrong


def parse():
    parser = argparse.ArgumentParser(description="weir.moe beside PyTorch's all_to_all_single and DeepEP")
    parser.add_argument("--tokens", default="1,16,128", help="tokens per rank, separated by commas")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--experts", type=int, default=0, help="on all ranks (default: 4 for each)")
    parser.add_argument("--topk", type=int, default=2)
    parser.add_argument("--masked", type=float, default=0, help="probability that a choice is masked")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--warmups", type=int, default=3)
    parser.add_argument("--inject", default="", help="candidate of which a received element is changed")
    return parser.parse_args()


def main():
    options = parse()
    options.experts = options.experts or 4 * WORLD
    device = torch.device(options.device, int(os.environ.get("LOCAL_RANK", "0")) if options.device == "cuda" else None)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    comm = weir.init(backend="cuda" if device.type == "cuda" else "host")
    kinds = {"weir": Weir, "torch": Torch}
    if device.type == "cuda" and options.dtype == "bfloat16" and importlib.util.find_spec("deep_ep"):
        kinds["deepep"] = DeepEP
    if RANK == 0:
        print(f"# {WORLD} ranks, {device.type}, hidden {options.hidden}, {options.experts} experts, top-{options.topk}, "
              f"{options.dtype}; PyTorch {torch.__version__}, {dist.get_backend()}\n"
              f"#{'tokens':>7} {'phase':9} {'candidate':8} {'us':>11} {'to weir':>10}")
    wrong = sum(measure(options, comm, int(tokens), device, kinds) for tokens in options.tokens.split(","))
    total = torch.tensor([wrong], device=device)
    dist.all_reduce(total)
    comm.destroy()
    dist.destroy_process_group()
    return int(total) > 0


if __name__ == "__main__":
    sys.exit(main())
