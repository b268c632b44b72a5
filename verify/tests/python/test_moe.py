"""Expert parallelism from Python: a layer, forward and backward, against a dense computation."""
import numpy
import pytest
import weir
import weir.moe

EXPERTS, TOPK, TOKENS, HIDDEN = 6, 2, 9, 8


def inputs(rank, tokens=TOKENS, seed=1):
    """Tokens, choices (some none), and weights of a rank; every rank can make those of all."""
    random = numpy.random.default_rng(100 * seed + rank)
    x = random.integers(-4, 5, (tokens, HIDDEN)).astype("float32")
    chosen = numpy.argsort(random.random((tokens, EXPERTS)), 1)[:, :TOPK].astype("int32")
    chosen[random.random((tokens, TOPK)) < 0.1] = -1
    return x, numpy.ascontiguousarray(chosen), (random.integers(1, 5, (tokens, TOPK)) / 4).astype("float32")


def dense(x, chosen, weights):
    """Expert e multiplies by e + 1."""
    factors = numpy.where(chosen >= 0, (chosen + 1) * weights, 0).sum(1, keepdims=True)
    return (x * factors).astype("float32")


def experts_of(group, got):
    """Computes one output row for each received row."""
    outputs = numpy.zeros_like(got.rows)
    if group.layout == "expert":
        for e in range(group.local_experts):
            rows = slice(got.offsets[e], got.offsets[e] + got.counts[e])
            outputs[rows] = got.rows[rows] * (group.first_expert + e + 1)
        return outputs
    first, used = 0, []
    for source, count in enumerate(got.sources):
        first = source * group.max_tokens if group.layout == "rank" else first
        used += range(first, first + count)
        first += count
    for row in used:
        for e, weight in zip(got.experts[row], got.weights[row]):
            if e >= 0:
                outputs[row] += got.rows[row] * (group.first_expert + e + 1) * weight
    return outputs


@pytest.mark.parametrize("layout, options", [("expert", {}), ("expert", {"alignment": 4}), ("expert", {"expert_capacity": 30}),
                                             ("rank", {}), ("flat", {})])
def test_a_layer_against_a_dense_one(ranks, layout, options):
    def body(comm):
        with weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32", layout=layout, **options) as group:
            assert group.local_experts == EXPERTS // comm.size and group.first_expert == comm.rank * group.local_experts
            for step in range(3):
                x, chosen, weights = inputs(comm.rank, TOKENS - comm.rank * step, step)
                got = group.dispatch(x, chosen.astype("int64") if step == 1 else chosen, weights, handle=step % 2)
                assert got.rows.dtype == x.dtype and int(got.counts.sum()) > 0
                out = group.combine(experts_of(group, got), weights if layout == "expert" else None, handle=step % 2)
                assert (out == dense(x, chosen, weights)).all()
        return True
    assert ranks(body, 3) == [True] * 3


def test_the_rows_are_those_of_the_tokens(ranks):
    def body(comm):
        with weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32") as group:
            mine = inputs(comm.rank)
            got = group.dispatch(*mine)
            everyone = [inputs(rank) for rank in range(comm.size)]
            for e in range(group.local_experts):
                right = [x[token] for x, chosen, _ in everyone for token in range(TOKENS)
                         if (chosen[token] == group.first_expert + e).any()]
                rows = got.rows[got.offsets[e]:got.offsets[e] + got.counts[e]]
                assert len(right) == got.counts[e] and (rows == right).all()
            token, choice = next(zip(*numpy.nonzero(mine[1] >= 0)))
            rank, row = group.locate(int(token), int(choice))
            assert rank == mine[1][token, choice] // group.local_experts
            if rank == comm.rank:
                assert (got.rows[row] == mine[0][token]).all()
        return True
    assert ranks(body, 2) == [True, True]


def test_the_backward_pass(ranks):
    def body(comm):
        with weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32") as group:
            x, chosen, weights = inputs(comm.rank)
            got = group.dispatch(x, chosen, weights)
            outputs = experts_of(group, got)
            group.combine(outputs, weights)
            gradient = inputs(comm.rank, seed=7)[0]
            back = group.dispatch(gradient)
            row_grads, rows = (back.rows * outputs).sum(1), numpy.zeros_like(back.rows)
            for e in range(group.local_experts):
                at = slice(got.offsets[e], got.offsets[e] + got.counts[e])
                rows[at] = back.rows[at] * got.weights[at, None] * (group.first_expert + e + 1)
            of_x, of_weights = group.combine(rows, row_weight_grads=row_grads.astype("float32"))
            assert (of_x == dense(gradient, chosen, weights)).all()
            right = numpy.where(chosen >= 0, (gradient * x).sum(1, keepdims=True) * (chosen + 1), 0)
            assert (of_weights == right).all()
        return True
    assert ranks(body, 2) == [True, True]


def test_halves_with_work_between(ranks):
    def body(comm):
        with weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32") as group:
            x, chosen, weights = inputs(comm.rank)
            pending = group.dispatch_send(x, chosen, weights)
            got = pending.complete()
            with pytest.raises(weir.InvalidError, match="completed before"):
                pending.complete()
            sent = group.combine_send(experts_of(group, got), weights)
            assert (sent.complete() == dense(x, chosen, weights)).all()
        return True
    assert ranks(body, 2) == [True, True]


@pytest.mark.parametrize("layout, options", [("expert", {}), ("expert", {"alignment": 4}), ("rank", {}), ("flat", {})])
def test_arrays_that_are_used_again(ranks, layout, options):
    """A dispatch into the arrays of an earlier one, with another routing and fewer tokens."""
    def body(comm):
        with weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32", layout=layout, **options) as group:
            kept = group.dispatch(*inputs(comm.rank))
            at = [getattr(kept, name).__array_interface__["data"] for name in ("rows", "counts", "sources", "weights")]
            for step in range(1, 4):
                x, chosen, weights = inputs(comm.rank, TOKENS - step, step)
                fresh = group.dispatch(x, chosen, weights, handle=1)
                if step == 3:
                    got = group.dispatch_send(x, chosen, weights, out=kept).complete()
                else:
                    got = group.dispatch(x, chosen, weights, out=kept)
                assert got is kept and got.handle == 0
                assert at == [getattr(got, name).__array_interface__["data"] for name in ("rows", "counts", "sources", "weights")]
                for name in ("counts", "sources", "offsets", "weights", "experts"):
                    one, other = getattr(got, name), getattr(fresh, name)
                    assert (one is None and other is None) or (one == other).all(), name
                assert got.rows.shape == fresh.rows.shape
                out = group.combine(experts_of(group, got), weights if layout == "expert" else None)
                assert (out == dense(x, chosen, weights)).all()
        return True
    assert ranks(body, 3) == [True] * 3


def test_arrays_that_cannot_be_used_again(alone):
    x, chosen, weights = inputs(0)
    with weir.moe.Group(alone, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32") as group, \
            weir.moe.Group(alone, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32") as other:
        kept, bare = group.dispatch(x, chosen, weights), group.dispatch(x, chosen)
        fixed = numpy.empty((group.recv_rows, HIDDEN), "float32")
        fixed.flags.writeable = False
        for call, words in ((lambda: other.dispatch(x, chosen, weights, out=kept), "by a dispatch of this group"),
                            (lambda: group.dispatch(x, chosen, weights, out=kept.rows), "by a dispatch of this group"),
                            (lambda: group.dispatch(x, chosen, weights, out=bare), "out has no weights"),
                            (lambda: group.dispatch(x, chosen, out=kept), "out has weights"),
                            (lambda: group.dispatch(x, chosen, weights, out=kept, rows=numpy.empty_like(fixed)), "rows and out"),
                            (lambda: group.dispatch(x, chosen, weights, rows=fixed), "rows is read-only"),
                            (lambda: group.combine(kept.rows, out=fixed[:TOKENS]), "out is read-only")):
            with pytest.raises(weir.InvalidError, match=words):
                call()


def test_wrong_use(ranks):
    def body(comm):
        for options, words in (({"layout": "square"}, "layout 'square'"), ({"dtype": "int8"}, "dtype 'int8'"), ({"experts": 7}, "experts"),
                               ({"hidden": 3}, "multiple of 16 bytes")):
            with pytest.raises(weir.InvalidError, match=words):
                weir.moe.Group(comm, **{"experts": EXPERTS, "topk": TOPK, "max_tokens": TOKENS, "hidden": HIDDEN, "dtype": "float32", **options})
        with pytest.raises(weir.MismatchError, match="hidden"):
            weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN * (1 + comm.rank), dtype="float32")
        group = weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32")
        x, chosen, weights = inputs(comm.rank)
        cases = [(lambda: group.dispatch(x.astype("float64"), chosen), "x has the wrong type; expected float"),
                 (lambda: group.dispatch(x[:, :4].copy(), chosen), "x has shape .*expected .any, 8"),
                 (lambda: group.dispatch(x, chosen[:, :1].copy()), "topk_experts has shape"),
                 (lambda: group.dispatch(x, chosen, weights.astype("float64")), "topk_weights has the wrong type"),
                 (lambda: group.dispatch(x, chosen, handle=2), "handle 2: expected 0 to 1"),
                 (lambda: group.combine(x, handle=1), "handle 1 holds no routing"), (comm.destroy, "groups of weir.moe open: 1")]
        for call, words in cases:
            with pytest.raises(weir.InvalidError, match=words):
                call()
        # What only one rank does wrong fails on all, and the group goes on.
        wrong = chosen.copy()
        wrong[0, 1] = EXPERTS + 1 if comm.rank == 1 else wrong[0, 1]
        with pytest.raises(weir.InvalidError, match="rank 1.*names expert 7"):
            group.dispatch(x, wrong, weights)
        got = group.dispatch(x, chosen, weights)
        assert (group.combine(experts_of(group, got), weights) == dense(x, chosen, weights)).all()
        group.close()
        group.close()
        with pytest.raises(weir.InvalidError, match="the group was closed"):
            group.dispatch(x, chosen)
        return True
    assert ranks(body, 2) == [True, True]


def test_a_capacity_that_is_exceeded(ranks):
    def body(comm):
        with weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32", recv_capacity=4) as group:
            x, chosen, weights = inputs(comm.rank)
            with pytest.raises(weir.InvalidError, match="rank"):
                group.dispatch(x, chosen, weights)
            few = numpy.full_like(chosen, -1)
            few[0, 0] = 0
            assert int(group.dispatch(x, few, weights).counts.sum()) == (2 if comm.rank == 0 else 0)
        return True
    assert ranks(body, 2) == [True, True]


def test_fp8_and_bfloat16(ranks):
    ml_dtypes = pytest.importorskip("ml_dtypes")

    def body(comm):
        with weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN, dispatch_dtype="float8_e4m3fn") as group:
            x, chosen, _ = inputs(comm.rank)
            got = group.dispatch(x.astype(ml_dtypes.bfloat16), chosen)
            assert got.rows.dtype == ml_dtypes.float8_e4m3fn and got.scales.shape[1] == 1 and got.weights is None
            values = got.rows.astype("float32") * got.scales
            assert numpy.isfinite(values).all() and abs(values).max() <= 4.01
        return True
    assert ranks(body, 2) == [True, True]


def test_gradients_in_pytorch(ranks):
    """The layer of PyTorch with its gradients, in all layouts, against PyTorch's own of the dense layer."""
    torch = pytest.importorskip("torch")

    def dense_layer(x, chosen, weights, matrices):
        out = torch.zeros_like(x)
        for k in range(TOPK):
            picked = matrices[chosen[:, k].clamp(min=0).long()]
            row = torch.einsum("th,tho->to", x, picked) * weights[:, k:k + 1]
            out = out + row * (chosen[:, k:k + 1] >= 0)
        return out

    def layer(moe, x, chosen, weights, matrices):
        from weir.torch import moe_combine, moe_dispatch
        got = moe_dispatch(moe, x, chosen, weights)
        mine = matrices[moe.first_expert:moe.first_expert + moe.local_experts]
        if moe.layout == "expert":
            ends = [*got.offsets[1:].tolist(), len(got.rows)]  # gaps, too, as grouped matrix products do
            outputs = torch.cat([got.rows[got.offsets[e]:end] @ mine[e] for e, end in enumerate(ends)])
            return moe_combine(moe, outputs, got, weights)
        outputs = torch.zeros_like(got.rows)
        for e in range(len(mine)):
            scale = torch.where(got.experts == e, got.weights, torch.zeros(())).sum(1, keepdim=True)
            outputs = outputs + (got.rows @ mine[e]) * scale
        return moe_combine(moe, outputs, got)

    def body(comm):
        torch.set_num_threads(1)
        torch.manual_seed(5)
        matrices = torch.randn(EXPERTS, HIDDEN, HIDDEN, dtype=torch.float32)
        for layout, options in (("expert", {}), ("expert", {"alignment": 4}), ("expert", {"expert_capacity": 20}), ("rank", {}), ("flat", {})):
            with weir.moe.Group(comm, EXPERTS, TOPK, TOKENS, HIDDEN, dtype="float32", layout=layout, **options) as moe:
                results = []
                for function in (dense_layer, lambda *arguments: layer(moe, *arguments)):
                    x, chosen, weights = (torch.from_numpy(one) for one in inputs(comm.rank))
                    held = [one.clone().requires_grad_() for one in (x, weights, matrices)]
                    out = function(held[0], chosen, held[1], held[2])
                    (out * (1 + torch.arange(HIDDEN))).sum().backward()
                    results.append([out.detach(), *(one.grad for one in held)])
                for name, right, ours in zip(("out", "x", "weights"), *results):
                    assert torch.allclose(right, ours, rtol=1e-4, atol=1e-3), (layout, name, right, ours)
                # The experts' gradients are those of all ranks' tokens, here of this rank's experts.
                total = torch.from_numpy(comm.all_reduce(results[0][3].numpy()))
                mine = slice(moe.first_expert, moe.first_expert + moe.local_experts)
                assert torch.allclose(total[mine], results[1][3][mine], rtol=1e-4, atol=1e-3), layout
        return True
    assert ranks(body, 2) == [True, True]
