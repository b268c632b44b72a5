# %% [markdown]
# # weir from Python: a tutorial
#
# Open this file in Jupyter (with jupytext), in VS Code or in Spyder, which show it as a notebook, or run it with `python`.
# It needs NumPy and [the package](python.md). Lines that begin with `#>` show what a cell prints; weir's tests
# run every cell and compare.

# %%
import numpy
import weir
import weir.plan
import weir.results

print(weir.__version__, weir.version().split()[0])
#> 0.1.0 weir

# %% [markdown]
# ## Ranks in a notebook
#
# Programs get their ranks from a launcher and call `weir.init()`. In a notebook `weir.spawn` starts ranks on this node: it runs a
# function on each of them, with a communicator, and returns their results.


# %%
def mean_of(comm):
    data = numpy.arange(4, dtype="float32") + comm.rank
    comm.all_reduce(data, op="avg")                       # in place
    return data.tolist()


print(weir.spawn(mean_of, 4)[0])
#> [1.5, 2.5, 3.5, 4.5]

# %% [markdown]
# ## Moving data
#
# `all_gather` and `all_to_all` return new arrays unless `out` is passed. Blocks of different lengths go by `all_to_all_v`;
# the receivers need not know the lengths.


# %%
def exchange(comm):
    mine = numpy.full((2, 3), comm.rank)
    whole = comm.all_gather(mine)
    sent = [rank + 1 for rank in range(comm.size)]        # rank r gets r + 1 rows of each rank
    rows = comm.all_to_all_v(numpy.full((sum(sent), 1), 10 * comm.rank), sent)
    return whole.shape, rows.ravel().tolist()


for rank, result in enumerate(weir.spawn(exchange, 2)):
    print(rank, *result)
#> 0 (4, 3) [0, 10]
#> 1 (4, 3) [0, 0, 10, 10]

# %% [markdown]
# ## When a rank dies
#
# Every wait has a deadline and notices dead ranks. The other ranks get `PeerError`, which names the dead one, and can then only
# destroy the communicator, which leaving `spawn` does. `spawn` itself raises `RankError` for the rank that caused it.


# %%
def die(comm):
    if comm.rank == 1:
        import os
        os._exit(1)
    comm.all_reduce(numpy.ones(4))


try:
    weir.spawn(die, 3)
except weir.RankError as error:
    print(str(error).splitlines()[0])
#> rank 1: ended with code 1

# %% [markdown]
# ## Measuring
#
# `python -m weir.bench` prints tables, and the C benchmarks measure more carefully and write CSV files for `weir.results.load`.
# Your measurements can be plotted as well: rows need the columns below. Registered memory (`comm.empty`) is shared
# with the other ranks, so that long calls need no copies.


# %%
def sweep(comm):
    import time
    rows = []
    for kind in ("numpy", "registered"):
        for size in (1 << n for n in range(3, 21, 3)):
            data = numpy.ones(size, "uint8") if kind == "numpy" else comm.empty(size, "uint8")
            call, times = comm.prepare("all_reduce", data, op="max"), []
            for _ in range(20):
                comm.barrier()
                start = time.perf_counter()
                call()
                times.append(1e6 * (time.perf_counter() - start))
            rows.append({"collective": "allreduce", "contender": "weir", "placement": kind, "bytes": size,
                         "median_us": float(numpy.median(times))})
            del data, call
    return rows


measured = weir.spawn(sweep, 2)[0]
print(len(measured), "rows")
#> 12 rows

# %%
chart = weir.results.plot(measured, svg=True)             # without svg=True: matplotlib, if it is installed
chart

# %% [markdown]
# ## A plan: a collective as data
#
# A plan is a list of steps for each rank. `check` proves that it is right for every order of execution, and an executor runs it.
# The number 0 below is a thread block; `BEFORE` and `AFTER` are fences: the steps before a signal are complete when it is sent, and
# the steps after a wait begin when it has ended.


# %%
def swap_plan():
    builder = weir.plan.Builder("swap", "alltoall", 2)
    for rank in range(2):
        channel = builder.memory_channel(rank, 1 - rank)
        mine, theirs = builder.input(rank), builder.output(1 - rank)
        builder.signal(channel, 0, weir.plan.BEFORE)      # my output may be written
        builder.wait(channel, 0, weir.plan.AFTER)
        builder.put(channel, builder.slice(theirs, rank, 1), builder.slice(mine, 1 - rank, 1), 0)
        builder.copy(builder.slice(builder.output(rank), rank, 1), builder.slice(mine, rank, 1), 0)
        builder.signal(channel, 0, weir.plan.BEFORE)      # the data are there
        builder.wait(channel, 0, weir.plan.AFTER)
    return builder.build()


plan = swap_plan()
plan.check()


def run_plan(comm):
    data, out = numpy.array([10 * comm.rank, 10 * comm.rank + 1]), numpy.zeros(2, int)
    with weir.plan.Executor(comm) as executor:
        executor.run(plan, data, out)
    return out.tolist()


print(weir.spawn(run_plan, 2))
#> [[0, 10], [1, 11]]

# %% [markdown]
# ## Where to go next
#
# [weir from Python](python.md) lists the calls, [PyTorch](pytorch.md) has operators and a backend of `torch.distributed`,
# [Expert parallelism](moe.md) dispatch and combine for mixture-of-experts layers.
