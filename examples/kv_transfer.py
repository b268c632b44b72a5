"""A paged KV cache that moves from a prefill to a decode process.

    python kv_transfer.py                # starts both processes on this node

Prefill computes the keys and values of each request, page by page, puts them into pages that decode has chosen, and
tags the transfer with the request's number. Decode starts on a request when its pages are there, and compares the
attention over its pages with the same computation without a cache. Needs NumPy and the Python package of weir.
"""
import numpy
import weir
import weir.blocks

LAYERS, PAGES, PAGE_TOKENS, SIZE = 4, 64, 8, 32
PROMPTS = [20, 5, 64]  # tokens of each request
PAGE_BYTES = PAGE_TOKENS * SIZE * 4
PREFILL, DECODE = 0, 1


def prompt_of(request):
    return numpy.random.default_rng(request).standard_normal((PROMPTS[request], SIZE)).astype("float32")


def keys_and_values(x, layer):
    """[2, tokens, SIZE], with weights that both processes know."""
    weights = numpy.random.default_rng(100 + layer).standard_normal((2, SIZE, SIZE)).astype("float32")
    return x @ weights


def attend(query, keys, values):
    scores = numpy.exp(keys @ query / SIZE ** 0.5)
    return scores @ values / scores.sum()


def pages_of(request, seed):
    """The pages that a process has given to a request: any, as a cache in use has them."""
    count = [-(-tokens // PAGE_TOKENS) for tokens in PROMPTS]
    order = numpy.random.default_rng(seed).permutation(PAGES)
    return order[sum(count[:request]):sum(count[:request + 1])]


def prefill(cache, blocks):
    for request, tokens in enumerate(PROMPTS):
        own, theirs = pages_of(request, PREFILL), pages_of(request, DECODE)
        for layer in range(LAYERS):
            for part in range(2):
                padded = numpy.zeros((len(own) * PAGE_TOKENS, SIZE), "float32")
                padded[:tokens] = keys_and_values(prompt_of(request), layer)[part]
                cache[layer, part, own] = padded.reshape(len(own), PAGE_TOKENS, SIZE)
        entries = numpy.stack([own, theirs], 1) * PAGE_BYTES
        stride = PAGES * PAGE_BYTES  # keys and values of all layers follow each other
        blocks.put(DECODE, entries, block_bytes=PAGE_BYTES, dims=[(LAYERS * 2, stride, stride)], slot=request, tag=1)


def decode(cache, blocks):
    worst = 0.0
    for request, tokens in enumerate(PROMPTS):
        blocks.wait(PREFILL, request, 1, timeout_s=20)
        query = numpy.ones(SIZE, "float32")
        for layer in range(LAYERS):
            keys, values = (part.reshape(-1, SIZE)[:tokens] for part in cache[layer][:, pages_of(request, DECODE)])
            expected = attend(query, *keys_and_values(prompt_of(request), layer))
            worst = max(worst, float(abs(attend(query, keys, values) - expected).max()))
        print(f"request {request}: {tokens} tokens in {len(pages_of(request, DECODE))} pages", flush=True)
    return worst


def run(comm):
    cache = comm.empty((LAYERS, 2, PAGES, PAGE_TOKENS, SIZE), "float32")
    with weir.blocks.Blocks(comm, cache) as blocks:
        worst = (prefill if comm.rank == PREFILL else decode)(cache, blocks)
    del cache
    return worst


if __name__ == "__main__":
    difference = weir.spawn(run, 2, backend="host")[DECODE]
    assert difference < 1e-5, difference
    print(f"largest difference: {difference:.1e}")
