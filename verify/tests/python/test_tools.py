"""The programs and the readers of files: weir.check, weir.bench, weir.results, weir.plan."""
import inspect
import os
import re
import subprocess

import numpy
import pytest
import weir
import weir.plan
import weir.results
from weir import _declarations


def run(python, *arguments):
    return subprocess.run([python, "-m", *arguments], capture_output=True, text=True, timeout=60)


def test_check_passes_here(python):
    done = run(python, "weir.check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok      host memory, 4 ranks: all_reduce, all_gather, reduce_scatter, all_to_all, all_to_all_v, " in done.stdout and weir.library_path() in done.stdout


def test_check_says_whether_the_extension_module_is_in_use(python):
    from weir._fast import native
    program = "import weir.check as c; c.spawn = lambda *_, **__: []; c.main([])"
    for value, wanted in (("0", "not in use"), ("1", "in use" if native else "not in use")):
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, WEIR_PYTHON_NATIVE=value))
        assert f"  module  weir._native: {wanted}" in done.stdout, done.stdout + done.stderr


def test_check_has_a_help(python):
    done = run(python, "weir.check", "--help")
    assert done.returncode == 0 and "usage: python -m weir.check" in done.stdout and "host memory" not in done.stdout
    assert run(python, "weir.check", "--fast").returncode == 2


def test_check_finds_a_wrong_result(python):
    """A sum that lacks a rank must be reported."""
    text = ("import sys, weir.check as check, weir.communicator as c\n"
            "right = c.Communicator.all_reduce\n"
            "c.Communicator.all_reduce = lambda self, data, *more, **options: "
            "right(self, data, op='max') if len(data) == 2 else right(self, data, *more, **options)\n"
            "sys.exit(check.main())\n")
    done = subprocess.run([python, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and re.search(r"FAIL.*\n +all_reduce: got \[1.0, 1.0\], expected \[1.0, 2\]",
                                              done.stdout), done.stdout


ROW = re.compile(r"^ +(\d+) +(\d+) +(\w+) +(\w+) +(-?\d+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+) +"
                 r"(?:([\d.]+) +([\d.]+) +([\d.]+) +(\d+)|nan +nan +nan +N/A)$")


@pytest.mark.parametrize("collective, ranks", [("allreduce", 3), ("allgather", 2), ("reduce_scatter", 2),
                                               ("alltoall", 2), ("broadcast", 2), ("reduce", 2)])
def test_bench_prints_the_table(python, collective, ranks):
    done = run(python, "weir.bench", collective, "-b", "64", "-e", "4K", "-f", "8", "-g", str(ranks), "-n", "3",
               "-d", "int32", "-o", "prod")
    assert done.returncode == 0, done.stderr
    rows = [ROW.match(line) for line in done.stdout.splitlines() if not line.startswith("#")]
    assert len(rows) == 3 and all(rows), done.stdout
    assert all(int(row[1]) <= 4096 and row[9] == "0" for row in rows)
    assert "# Out of bounds values : 0 OK" in done.stdout and "# Avg bus bandwidth" in done.stdout


def test_bench_finds_wrong_results(python):
    text = ("import sys, weir.bench as bench\n"
            "bench.Trial.value = lambda self, rank: rank + 1 + self.comm.rank * (rank == 1)\n"
            "sys.exit(bench.main(['allreduce', '-b', '64', '-e', '64', '-n', '2']))\n")
    done = subprocess.run([python, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "FAILED" in done.stdout, done.stdout + done.stderr


def test_bench_usage(python):
    for arguments, words in ((["allreduced"], "invalid choice"), (["allreduce", "-b", "x"], "number of bytes"),
                             (["allreduce", "-f", "1"], "at least 2")):
        done = run(python, "weir.bench", *arguments)
        assert done.returncode == 2 and words in done.stderr
    done = run(python, "weir.bench", "broadcast", "-r", "5", "-e", "8")
    assert done.returncode == 2 and "root" in done.stderr and done.stderr.count("\n") == 1


HEADER = ("schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,algo,dtype,redop,root,"
          "placement,bytes,count,iters,median_us,min_us,max_us,p99_us,ci_low_us,ci_high_us,algbw_gbs,busbw_gbs,"
          "verify,wrong\n")
LINE = ("3,id,2026-01-31T12:00:00Z,\"a,b\",allreduce,host,shm,4,1,weir,packet,float,sum,-1,in,{},2,20,{},1,2,2,1,2,"
        "0.5,0.7,{},0\n")


def test_results(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(HEADER + LINE.format(8, "1.5", "pass") + LINE.format(16, "", "fail"))
    found = weir.results.rows(file)
    assert [(row["bytes"], row["median_us"], row["verify"], row["host"]) for row in found] == [
        (8, 1.5, "pass", "a,b"), (16, None, "fail", "a,b")]
    loaded = weir.results.load(file, str(file))
    assert len(loaded) == 4
    try:
        import pandas
        assert isinstance(loaded, pandas.DataFrame) and loaded["bytes"].sum() == 48
    except ImportError:
        assert loaded == found + found


def test_wrong_results_are_refused(tmp_path):
    file = tmp_path / "a.csv"
    for text, words in (("a,b\n", "header"), ("", "header"), (HEADER + "1,2\n", "a.csv:2: 2 fields"),
                        (HEADER + LINE.format("x", 1, "pass"), "a.csv:2: column bytes: 'x'")):
        file.write_text(text)
        with pytest.raises(weir.InvalidError, match=words):
            weir.results.load(file)


def swap(name="swap", wait=True):
    """An alltoall of two ranks: each puts a chunk into the other's output."""
    builder = weir.plan.Builder(name, "alltoall", 2)
    for rank in range(2):
        chan = builder.memory_channel(rank, 1 - rank)
        mine, theirs = builder.input(rank), builder.output(1 - rank)
        builder.signal(chan, 0, weir.plan.BEFORE)
        builder.wait(chan, 0, weir.plan.AFTER)
        builder.put(chan, builder.slice(theirs, rank, 1), builder.slice(mine, 1 - rank, 1), 0)
        builder.copy(builder.slice(builder.output(rank), rank, 1), builder.slice(mine, rank, 1), 0)
        builder.signal(chan, 0, weir.plan.BEFORE)
        if wait or rank:
            builder.wait(chan, 0, weir.plan.AFTER)
    return builder.build()


def test_plans(ranks, tmp_path):
    plan = swap()
    assert (plan.name, plan.size, plan.in_place) == ("swap", 2, False)
    assert (plan.min_bytes, plan.max_bytes) == (0, None)
    limited = weir.plan.parse(re.sub(r'("max_message_size": *)\d+', r'\g<1>4096', plan.to_json()))
    assert limited.max_bytes == 4096
    assert plan.check() >= 1
    plan.write(tmp_path / "swap.json")
    again = weir.plan.read(tmp_path / "swap.json")
    assert again.to_json() == plan.to_json() == weir.plan.parse(plan.to_json()).to_json()

    def body(comm):
        data = numpy.arange(8, dtype="int32") + 100 * comm.rank
        out = numpy.zeros_like(data)
        with weir.plan.Executor(comm) as executor:
            for _ in range(3):
                executor.run(again, data, out)
        assert out.tolist() == [100 * r + 4 * comm.rank + i for r in range(2) for i in range(4)]
    ranks(body, 2)


def test_fences_are_those_of_the_header():
    named = {name.replace("WEIR_PLAN_", ""): value for name, value in _declarations.PlanSync.__members__.items()}
    assert {"UNSYNCED", "BEFORE", "AFTER"} < set(named)
    assert {name: getattr(weir.plan, name) for name in named} == named


def test_the_example_of_the_builder_is_a_plan():
    lines = inspect.getdoc(weir.plan.Builder).splitlines()
    space = {}
    exec("\n".join(line[4:] for line in lines if line.startswith("    ")), space)
    assert (space["plan"].name, space["plan"].size) == ("swap", 2)
    assert space["plan"].check() >= 1


def test_a_wrong_plan_is_refused_with_its_violations(ranks):
    with pytest.raises(weir.InvalidError):
        swap(wait=False)  # a signal without a wait
    builder = weir.plan.Builder("racy", "alltoall", 2)
    for rank in range(2):
        chan = builder.memory_channel(rank, 1 - rank)
        builder.put(chan, builder.slice(builder.output(1 - rank), rank, 1),
                    builder.slice(builder.input(rank), rank, 1), 0)
        builder.relaxed_signal(chan, 0, weir.plan.UNSYNCED)
        builder.relaxed_wait(chan, 0, weir.plan.UNSYNCED)
    plan = builder.build()
    with pytest.raises(weir.plan.PlanError) as failure:
        plan.check()
    assert failure.value.violations and failure.value.violations[0].fault in ("result", "race")

    def body(comm):
        with weir.plan.Executor(comm) as executor:
            with pytest.raises(weir.InvalidError):
                executor.run(plan, numpy.ones(4), numpy.zeros(4))
    ranks(body, 2)


def test_wrong_plan_text():
    for text in ("", "{", "[1, 2]", "{\"name\": 3}"):
        with pytest.raises(weir.InvalidError, match="weird"):
            weir.plan.parse(text, "weird")
    with pytest.raises(weir.WeirError, match="none.json"):
        weir.plan.read("/nonexistent/none.json")
    with pytest.raises(AttributeError, match="no method 'fly'"):
        weir.plan.Builder("x", "allreduce", 2).fly()
    with pytest.raises(weir.InvalidError, match="op 'maximum': expected one of"):
        weir.plan.Builder("x", "allreduce", 2, op="maximum")
