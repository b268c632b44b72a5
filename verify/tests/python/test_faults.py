"""Wrong arguments and failures are exceptions: no crash, no hang."""
import os
import signal
import subprocess
import threading
import time
import warnings

import numpy
import pytest
import weir


def test_wrong_arguments(alone):
    data = numpy.ones((4, 6), "float32")
    cases = [
        (lambda: alone.all_reduce(data.T), weir.InvalidError, "not contiguous"),
        (lambda: alone.all_reduce(data[:, ::2]), weir.InvalidError, "not contiguous"),
        (lambda: alone.all_reduce(data, numpy.ones(24)), weir.InvalidError, "out has float64 elements, data has float32"),
        (lambda: alone.all_reduce(data, numpy.ones(3, "float32")), weir.InvalidError, "3 elements; expected 24"),
        (lambda: alone.all_reduce(data, op="mean"), weir.InvalidError, "op 'mean'.*sum, prod"),
        (lambda: alone.all_reduce(data, op=9), weir.InvalidError, "op 9"),
        (lambda: alone.all_reduce([1, 2, 3]), TypeError, "list.*no array.*numpy.asarray"),
        (lambda: alone.all_reduce("text"), TypeError, "no array"),
        (lambda: alone.all_reduce(numpy.array(["a"])), weir.UnsupportedError, "<U1"),
        (lambda: alone.all_reduce(numpy.array([None])), weir.UnsupportedError, "object arrays cannot be exchanged"),
        (lambda: alone.all_reduce(data.astype(">f4")), weir.UnsupportedError, ">f4"),
        (lambda: alone.all_reduce(data, stream=1), weir.InvalidError, "stream"),
        (lambda: alone.broadcast(data, root=1), weir.InvalidError, "root 1"),
        (lambda: alone.reduce(data, root=-1), weir.InvalidError, "root -1"),
        (lambda: alone.send(data, 0), weir.InvalidError, "this rank"),
        (lambda: alone.send(data, 5), weir.InvalidError, "destination 5"),
        (lambda: alone.sendrecv(data, -1, None, -1), weir.InvalidError, "together"),
        (lambda: alone.all_to_all_v(data, [5]), weir.InvalidError, "add up to 5"),
        (lambda: alone.all_to_all_v(data, [-1]), weir.InvalidError, "send_counts"),
        (lambda: alone.all_to_all_v(data, [1, 2]), weir.InvalidError, "expected 1 numbers"),
        (lambda: alone.prepare("all_reduces", data), weir.InvalidError, "collective"),
        (lambda: alone.set_algo("allreduce", "fastest"), weir.InvalidError, "fastest"),
        (lambda: weir.init(rank=0), weir.InvalidError, "belong together"),
        (lambda: weir.init(id=b"short", rank=0, size=1), weir.InvalidError, "128"),
        (lambda: weir.init(id=weir.unique_id(), rank=2, size=1), weir.InvalidError, "rank"),
        (lambda: weir.init(backend="gpu"), weir.InvalidError, "backend 'gpu'")]
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            call()
    read_only = numpy.ones(3, "float32")
    read_only.flags.writeable = False
    with pytest.raises(weir.InvalidError, match="read-only"):
        alone.all_reduce(read_only)
    assert (alone.all_reduce(read_only, numpy.zeros(3, "float32")) == 1).all()


def _slices(comm):
    """Calls whose out shares memory with data: (call, whether it is one in place, which is right)."""
    size, me = comm.size, comm.rank
    x, part = numpy.ones(4 * size + 4, "float32"), 4 * size
    raw = memoryview(bytearray(4 * part + 16))
    return [
        (lambda: comm.all_reduce(x[:3], out=x[1:4]), False),
        (lambda: comm.all_reduce(x[1:4], out=x[:3]), False),
        (lambda: comm.all_reduce(x[:3], out=x[2:5], algo="auto"), False),
        (lambda: comm.all_reduce(raw[:8], out=raw[4:12]), False),
        (lambda: comm.all_reduce(x[:3], out=x[:3]), True),
        (lambda: comm.broadcast(x[:3], out=x[1:4]), False),
        (lambda: comm.broadcast(x[:3], out=x[:3]), True),
        (lambda: comm.reduce(x[:3], out=x[1:4] if me == 0 else None), me != 0),
        (lambda: comm.all_gather(x[4 * me + 1:4 * me + 5], out=x[:part]), False),
        (lambda: comm.all_gather(x[4 * me:4 * me + 4], out=x[:part]), True),
        (lambda: comm.reduce_scatter(x[:part], out=x[4 * me + 1:4 * me + 5]), False),
        (lambda: comm.reduce_scatter(x[:part], out=x[4 * me:4 * me + 4]), True),
        (lambda: comm.all_to_all(x[:part], out=x[2:part + 2]), False),
        (lambda: comm.all_to_all(x[:part], out=x[:part]), False),
        (lambda: comm.all_to_all_v(x[:part], [4] * size, x[2:part + 2], [4] * size), False),
        (lambda: comm.sendrecv(x[:4], me, x[3:7], me), False),
        (lambda: comm.prepare("all_reduce", x[:3], x[1:4]), False),
        (lambda: comm.prepare("all_to_all", x[:part], x[2:part + 2]), False),
        (lambda: comm.prepare("all_gather", x[4 * me:4 * me + 4], x[:part]), True)]


def _overlap(comm):
    wrong = []
    for number, (call, is_right) in enumerate(_slices(comm)):
        if comm.size > 1 and number == 7:
            continue  # refused by the root alone, for which the others would wait
        try:
            call()
            refused = False
        except weir.InvalidError as error:
            refused = "shares memory" in str(error) or not is_right
        if refused == is_right:
            wrong.append(number)
    return wrong


def test_an_out_that_overlaps_data_partly_is_refused(alone, ranks):
    assert _overlap(alone) == []
    assert ranks(_overlap) == [[], [], []]
    x = numpy.arange(8, dtype="float32")  # rows that are not sent may be written
    alone.all_to_all_v(x[:6], [2], x[4:], [2])
    assert x.tolist() == [0, 1, 2, 3, 0, 1, 6, 7]


class OnGpu:
    """Says that it is an array on a GPU."""

    __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}


def test_an_array_of_a_gpu_is_refused_on_the_host(alone):
    with pytest.raises(weir.InvalidError, match="data is in GPU 0.*uses memory of the process"):
        alone.all_reduce(OnGpu())
    with pytest.raises(weir.InvalidError, match="out is in GPU 0"):
        alone.all_reduce(numpy.ones(4, "float32"), OnGpu())


def test_exceptions_are_pythons_too():
    assert issubclass(weir.InvalidError, ValueError) and issubclass(weir.TimedOutError, TimeoutError)
    assert issubclass(weir.PeerError, ConnectionError)
    assert weir.PeerError.status == "WEIR_ERR_PEER"


def test_use_after_destroy():
    comm = weir.init(id=weir.unique_id(), rank=0, size=1, backend="host")
    call = comm.prepare("all_reduce", numpy.ones(3))
    comm.destroy()
    comm.destroy()
    comm.abort()
    data = numpy.ones(3)
    for use in (lambda: comm.all_reduce(data), comm.barrier, call, comm.report, comm.check,
                lambda: comm.split(0), lambda: comm.send(data, 0), lambda: comm.empty(3),
                lambda: comm.last_algo):
        with pytest.raises(weir.InvalidError, match="was destroyed"):
            use()
    assert "was destroyed" in repr(comm)


def test_a_dropped_communicator_warns():
    comm = weir.init(id=weir.unique_id(), rank=0, size=1, backend="host")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        del comm
    assert any("without destroy" in str(one.message) for one in seen)


def test_counts_that_differ_between_ranks(ranks):
    def body(comm):
        with pytest.raises(weir.MismatchError):
            comm.all_to_all_v(numpy.zeros(10), [3, 1] if comm.rank else [1, 2], recv_counts=[1, 1])
        for use in (lambda: comm.all_reduce(numpy.ones(1)), comm.barrier):
            with pytest.raises(weir.AbortedError, match="aborted after: rank .*counts must match"):
                use()
        return True
    assert ranks(body, 2, timeout_ms=3000) == [True, True]


@pytest.mark.parametrize("sent, expected", [(10, 4), (4, 10), (1 << 20, 4)])
def test_a_mismatch_of_a_message_ends_only_the_pair(ranks, sent, expected):
    def body(comm):
        if comm.rank == 0:
            try:
                comm.send(numpy.zeros(sent), 1)
                assert sent < 100  # the sender of a short message does not see the error
            except weir.AbortedError:
                pass
        else:
            with pytest.raises(weir.MismatchError):
                comm.recv(numpy.zeros(expected), 0)
            with pytest.raises(weir.AbortedError):
                comm.recv(numpy.zeros(4), 0)
        return float(comm.all_reduce(numpy.ones(1))[0])
    assert ranks(body, 2, timeout_ms=3000) == [2.0, 2.0]


def test_a_short_send_does_not_wait_for_the_receiver(ranks):
    def body(comm):
        if comm.rank == 0:
            comm.send(numpy.ones(1), 1)
            start = time.monotonic()
            comm.send(numpy.full(4, 7), 1)
            assert time.monotonic() - start < 2
            comm.barrier()
            return 7
        comm.recv(numpy.ones(1), 0)
        comm.barrier()  # passed only if the send did not wait for the recv below
        return int(comm.recv(numpy.zeros(4, int), 0)[3])
    assert ranks(body, 2, timeout_ms=5000) == [7, 7]


def test_data_that_is_no_array(alone):
    for data in ([1.0, 2.0], "text", None):
        with pytest.raises(TypeError, match="is no array"):
            alone.all_reduce(data)
    assert alone.all_reduce(numpy.ones(1))[0] == 1


def test_a_late_rank_fails_at_the_latest_in_its_next_call(ranks):
    def body(comm):
        if comm.rank == 0:
            with pytest.raises(weir.TimedOutError):
                comm.all_reduce(numpy.ones(4))
            return True
        time.sleep(1.5)
        try:
            assert comm.all_reduce(numpy.ones(4))[0] == 2
        except weir.AbortedError:
            return True
        with pytest.raises(weir.AbortedError):
            comm.all_reduce(numpy.ones(4))
        return True
    assert ranks(body, 2, timeout_ms=500) == [True, True]


def test_a_dead_rank_is_reported_by_the_others(ranks):
    def body(comm):
        comm.barrier()
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        start = time.monotonic()
        with pytest.raises(weir.PeerError, match="rank 1 has died"):
            comm.all_reduce(numpy.ones(4))
        assert time.monotonic() - start < 5
        raise ArithmeticError("survived")  # spawn reports the cause: the killed rank
    with pytest.raises(weir.RankError) as failure:
        ranks(body, 3)
    assert failure.value.rank == 1 or "survived" in str(failure.value)


def test_a_missing_rank_times_out(ranks):
    def body(comm):
        if comm.rank == 1:
            time.sleep(1.5)
            return True
        with pytest.raises(weir.TimedOutError, match="deadline of 500 ms"):
            comm.all_reduce(numpy.ones(4))
        return True
    assert ranks(body, 2, timeout_ms=500) == [True, True]


def test_abort_from_another_thread(ranks):
    def body(comm):
        if comm.rank == 0:
            threading.Timer(0.2, comm.abort).start()
        else:
            time.sleep(0.5)
        end = time.monotonic() + 20  # the timer is late on a loaded machine
        with pytest.raises(weir.AbortedError):
            while time.monotonic() < end:
                comm.barrier()
        return True
    assert ranks(body, 2) == [True, True]


def test_a_child_of_fork_cannot_use_the_parents_communicator(alone):
    data = numpy.ones(3)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            alone.all_reduce(data)
        except weir.InvalidError as error:
            code = 0 if "was created before this process was forked" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert alone.all_reduce(data)[0] == 1  # the parent goes on


def test_a_child_of_fork_can_create_a_communicator(alone):
    child = os.fork()
    if child == 0:
        try:
            comm = weir.init(id=weir.unique_id(), rank=0, size=1, backend="host")
            good = comm.all_reduce(numpy.ones(3))[0] == 1
            comm.destroy()
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


INTERRUPTED = """
import sys, time, os, numpy, weir
rank, made = int(sys.argv[1]), bytes.fromhex(sys.argv[2])
try:
    comm = weir.init(id=made, rank=rank, size=2, backend="host", timeout_ms=30000)
    if rank == 1:
        print("ready", flush=True)
        time.sleep(20)
    CALL
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    sys.exit(0)
except weir.AbortedError:
    print("AbortedError", flush=True)
"""


@pytest.mark.parametrize("call", ["comm.all_reduce(numpy.ones(9))", "comm.barrier()", "comm.destroy()",
                                  "comm.recv(numpy.ones(1), 1)", "comm.split(0)"])
def test_keyboard_interrupt_ends_a_blocked_call(python, call):
    made = weir.unique_id()
    jobs = [subprocess.Popen([python, "-c", INTERRUPTED.replace("CALL", call), str(rank), made.hex()],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(2)]
    try:
        assert jobs[1].stdout.readline() == "ready\n"
        time.sleep(0.3)
        start = time.monotonic()
        jobs[0].send_signal(signal.SIGINT)
        said, errors = jobs[0].communicate(timeout=10)
        assert said == "KeyboardInterrupt\n", errors
        assert time.monotonic() - start < 6
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


def test_keyboard_interrupt_while_ranks_are_missing(python):
    text = ("import weir\ntry:\n    print('ready', flush=True)\n"
            "    weir.init(id=weir.unique_id(), rank=0, size=2, backend='host')\n"
            "except KeyboardInterrupt:\n    print('KeyboardInterrupt', flush=True)\n    import os; os._exit(0)\n")
    job = subprocess.Popen([python, "-c", text], stdout=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "ready\n"
    time.sleep(1)
    job.send_signal(signal.SIGINT)
    assert job.communicate(timeout=10)[0] == "KeyboardInterrupt\n"


def test_an_interrupt_does_not_disturb_calls_that_end(ranks):
    def body(comm):
        caught = 0
        for step in range(3):
            try:
                if comm.rank == 0:
                    os.kill(os.getpid(), signal.SIGINT)
                    for _ in range(1000):
                        pass
            except KeyboardInterrupt:
                caught += 1
            comm.all_reduce(numpy.ones(5))
            time.sleep(0.2)
        return caught
    assert ranks(body, 2) == [3, 0]


def test_a_failing_rank_is_named_by_spawn(ranks):
    def body(comm):
        if comm.rank == 2:
            raise ArithmeticError("by intention")
        comm.barrier()
        comm.barrier()
    with pytest.raises(weir.RankError, match="rank 2: ArithmeticError: by intention"):
        ranks(body, 3)
    with pytest.raises(weir.RankError, match="rank 0: ended with code 7"):
        ranks(lambda comm: os._exit(7), 1)


def test_a_library_of_another_version_is_refused(python, tmp_path):
    other = tmp_path / "other.c"
    other.write_text('const char *weir_version_string(void) { return "weir 9.9.9 (x)"; }\n')
    library = tmp_path / "other.so"
    try:
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library, other], check=True)
    except OSError:
        pytest.skip("no C compiler")
    for path, words in ((library, "weir 9.9.9"), (tmp_path / "none.so", "cannot load")):
        done = subprocess.run([python, "-c", "import weir"], env=dict(os.environ, LIBWEIR=str(path)),
                              capture_output=True, text=True)
        assert done.returncode == 1 and words in done.stderr and "ImportError" in done.stderr
