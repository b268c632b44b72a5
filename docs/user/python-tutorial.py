# %% [markdown]
# # weir from Python: a tutorial
#
# Jupyter (with jupytext), VS Code and Spyder show this file as a notebook. You can also run it with `python`. It needs NumPy and
# [the package](python.md). Lines that begin with `#>` show what a cell prints.

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
# The processes of a job are called ranks. Usually, a launcher starts them, and each calls `weir.init()`. In a notebook, `weir.spawn`
# starts ranks on this node instead. It runs a function on each rank, with a communicator as argument, and returns the results.


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
# `all_gather` and `all_to_all` return new arrays, unless you pass `out`. `all_to_all_v` sends blocks of different lengths. The
# receivers need not know the lengths.


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
# Every wait has a deadline, and ends if a rank dies. The other ranks then get a `PeerError`, which names the dead rank. After this
# error, a communicator can only be destroyed. `spawn` does this, and raises a `RankError` for the rank that died.


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
# `python -m weir.bench` prints tables. The C benchmarks measure more carefully, and write CSV files for `weir.results.load`. You can
# also plot your own measurements, if their rows have the columns below. `comm.empty` allocates registered memory, which other ranks
# can access, so that long calls need no copies.


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
# A plan is a list of steps for each rank. `check` proves that the plan is right in every order of execution. An executor runs the plan.
# In the cell below, the number 0 is a thread block. `BEFORE` and `AFTER` are fences: the steps before a signal are complete when the
# signal is sent, and the steps after a wait begin when the wait has ended.


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
# [weir from Python](python.md) lists the calls. [PyTorch](pytorch.md) describes operators and a backend of `torch.distributed`.
# [Expert parallelism](moe.md) describes dispatch and combine for mixture-of-experts layers.
