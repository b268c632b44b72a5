"""Every collective gives the right result on NumPy arrays of every type."""
import array
import ctypes

import numpy
import pytest
import weir

TYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def test_all_reduce_of_every_type_and_operation(ranks):
    def body(comm):
        expected = {"sum": 6, "prod": 6, "max": 3, "min": 1, "avg": 2}
        for dtype in TYPES:
            for op, value in expected.items():
                for count in (0, 1, 1000):
                    data = numpy.full(count, comm.rank + 1, dtype)
                    out = numpy.zeros_like(data)
                    assert comm.all_reduce(data, out, op) is out
                    assert (out == value).all() and (data == comm.rank + 1).all()
                    assert comm.all_reduce(data, op=op) is data
                    assert (data == value).all()
    ranks(body, 3)


def test_all_reduce_norm(ranks):
    def body(comm):
        weight = numpy.linspace(0.5, 1.5, 64, dtype="float32")
        data = numpy.arange(128, dtype="float32").reshape(2, 64) * (comm.rank + 1)
        before = numpy.ones((2, 64), "float32")
        residual, out = before.copy(), numpy.zeros_like(data)
        assert comm.all_reduce_norm(data, out, weight, residual) is out
        total = numpy.arange(128, dtype="float64").reshape(2, 64) * 6 + 1
        assert (residual == total).all()
        scale = 1 / numpy.sqrt((total ** 2).mean(-1, keepdims=True) + 1e-6)
        assert numpy.allclose(out, total * scale * weight, rtol=1e-5)
        comm.all_reduce_norm(data, data, kind="layer", bias=weight)
        centred = total - total.mean(-1, keepdims=True)
        scale = 1 / numpy.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-6)
        assert numpy.allclose(data, centred * scale + weight, rtol=1e-4, atol=1e-4)
        for words, arguments in (("kind 'max'", {"kind": "max"}), ("quantise 'row'", {"quantise": "row"}),
                                 ("weight has 32", {"weight": weight[:32]}), ("overlap", {"residual": out})):
            with pytest.raises(ValueError, match=words):
                comm.all_reduce_norm(data, out, **arguments)
    ranks(body, 3)


def test_all_reduce_quantized(ranks):
    def body(comm):
        data = numpy.linspace(-4, 4, 1000, dtype="float32") * (comm.rank + 1)
        total = numpy.linspace(-4, 4, 1000) * 6
        for quantise, bound in (("fp8", 6 * 4 / 16 * 2.2), ("int8", 6 * 4 / 126 * 1.1)):
            out = numpy.zeros_like(data)
            assert comm.all_reduce(data, out, quantise=quantise) is out
            error = abs(out - total).max()
            assert 0 < error < bound, (quantise, error)
        mean = data.copy()
        assert comm.all_reduce(mean, op="avg", quantise="int8") is mean
        assert abs(mean - total / 3).max() < 0.1
        for words, arguments in (("quantise 'fp4'", {"quantise": "fp4"}), ("algo", {"quantise": "fp8", "algo": "packet"}),
                                 ("sum and avg", {"quantise": "fp8", "op": "max"})):
            with pytest.raises(ValueError, match=words):
                comm.all_reduce(data, **arguments)
        with pytest.raises(ValueError, match="int32"):
            comm.all_reduce(numpy.zeros(4, "int32"), quantise="fp8")
    ranks(body, 3)


def test_gathering_and_scattering(ranks):
    def body(comm):
        n, me = comm.size, comm.rank
        part = numpy.full((2, 5), me, "float32")
        whole = comm.all_gather(part)
        assert whole.shape == (2 * n, 5) and (whole[:, 0] == numpy.repeat(range(n), 2)).all()
        inside = numpy.zeros(4 * n, "int32")
        inside[4 * me:4 * me + 4] = me + 1
        comm.all_gather(inside[4 * me:4 * me + 4], inside)  # in place
        assert (inside == numpy.repeat(range(1, n + 1), 4)).all()
        assert comm.all_gather(numpy.array(me)).tolist() == list(range(n))
        mine = comm.reduce_scatter(numpy.arange(3 * n, dtype="int64"))
        assert mine.tolist() == [n * (3 * me + i) for i in range(3)]
        exchanged = comm.all_to_all(numpy.arange(n) * 10 + me)
        assert exchanged.tolist() == [10 * me + rank for rank in range(n)]
    ranks(body, 3)


def test_rooted(ranks):
    def body(comm):
        for root in range(comm.size):
            data = numpy.full(100, comm.rank, "float64")
            comm.broadcast(data, root=root)
            assert (data == root).all()
            total = numpy.full(100, -1.0)
            comm.reduce(data, total, root=root)
            assert (total == (root * comm.size if comm.rank == root else -1)).all()
    ranks(body, 3)


def test_all_to_all_v_with_given_and_exchanged_counts(ranks):
    def body(comm):
        n, me = comm.size, comm.rank
        sent = [(me + 2 * to) % 4 for to in range(n)]
        received = [(rank + 2 * me) % 4 for rank in range(n)]
        data = numpy.repeat([[100 * me + to, 7] for to in range(n)], sent, axis=0).astype("float32")
        right = numpy.repeat([[100 * rank + me, 7] for rank in range(n)], received, axis=0)
        for known in (None, received):
            out = comm.all_to_all_v(data, sent, recv_counts=known)
            assert out.shape == (sum(received), 2) and (out == right).all()
    ranks(body, 4)


def test_types_that_weir_does_not_reduce_are_moved_as_bytes(ranks):
    def body(comm):
        for dtype in ("complex128", "bool", "int16"):
            data = numpy.array([comm.rank] * 3, dtype)
            assert (comm.all_gather(data) == numpy.repeat(range(comm.size), 3).astype(dtype)).all()
            out = comm.all_to_all_v(data[:comm.size], [1] * comm.size)
            assert (out == numpy.arange(comm.size).astype(dtype)).all()
        with pytest.raises(weir.UnsupportedError, match="^complex64 cannot be reduced; .*convert"):
            comm.all_reduce(numpy.ones(3, "complex64"))
    ranks(body, 2)


def test_messages_between_two_ranks(ranks):
    def body(comm):
        n, me = comm.size, comm.rank
        for count in (1, 100000):
            out = numpy.zeros(count)
            comm.sendrecv(numpy.full(count, me), (me + 1) % n, out.astype("int64"), (me - 1) % n)
            for sender, receiver in ((0, 1), (2, 1), (1, 0)):
                if me == sender:
                    comm.send(numpy.full(count, 10.0 * sender), receiver)
                elif me == receiver:
                    assert (comm.recv(out, sender) == 10 * sender).all()
    ranks(body, 3)


def test_split_into_colors(ranks):
    def body(comm):
        part = comm.split(comm.rank % 2, key=-comm.rank)
        none = comm.split(None if comm.rank == 0 else 0)
        assert (none is None) == (comm.rank == 0)
        total = part.all_reduce(numpy.array([float(comm.rank)]))
        members = [rank for rank in range(comm.size) if rank % 2 == comm.rank % 2]
        assert total[0] == sum(members) and part.rank == members[::-1].index(comm.rank)
        part.destroy()
        if none is not None:
            none.destroy()
    ranks(body, 4)


def test_objects_with_the_buffer_protocol(ranks):
    def body(comm):
        for data in (array.array("f", [1, 2]), (ctypes.c_int32 * 2)(1, 2), array.array("q", [1, 2]),
                     bytearray(b"\1\2"), memoryview(numpy.array([1, 2], "float64"))):
            comm.all_reduce(data)
            assert [value * 1 for value in data] == [comm.size, 2 * comm.size]
        whole = bytearray(2)
        comm.all_gather(bytes([comm.rank + 65]), whole)
        assert whole == b"AB"
        with pytest.raises(weir.InvalidError, match="read-only"):
            comm.all_reduce(b"read-only")
    ranks(body, 2)


class Exporter:
    """A DLPack exporter of NumPy's array, in the manner of a library without another protocol."""

    def __init__(self, data, is_versioned):
        self.data, self.is_versioned = data, is_versioned

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()

    def __dlpack__(self, **arguments):
        if not self.is_versioned and arguments:
            raise TypeError("unexpected argument max_version")
        return self.data.__dlpack__(**arguments)


def test_dlpack(ranks):
    versions = numpy.__version__.split(".")

    def body(comm):
        data = numpy.full((3, 4), comm.rank + 1.0, "float32")
        if (int(versions[0]), int(versions[1])) >= (2, 1):
            comm.all_reduce(Exporter(data, True))
            assert (data == 3).all()
            data[:] = comm.rank + 1
        out = numpy.zeros_like(data)
        comm.all_reduce(Exporter(data, False), out)  # without a flag it counts as read-only
        assert (out == 3).all()
        with pytest.raises(weir.InvalidError, match="read-only"):
            comm.all_reduce(Exporter(data, False))
        with pytest.raises(weir.InvalidError, match="not contiguous"):
            comm.all_reduce(Exporter(data.T, False), out)
    ranks(body, 2)


def test_jax_arrays(ranks):
    pytest.importorskip("jax")

    def body(comm):
        import jax.numpy
        out = numpy.zeros(5, "float32")
        comm.all_reduce(jax.numpy.full(5, comm.rank + 1.0), out)
        assert (out == 3).all()
        with pytest.raises(weir.InvalidError, match="read-only"):
            comm.all_reduce(jax.numpy.ones(5))
    ranks(body, 2, )


def test_bfloat16_and_fp8(ranks):
    types = pytest.importorskip("ml_dtypes")

    def body(comm):
        for dtype in (types.bfloat16, types.float8_e4m3fn, types.float8_e5m2):
            data = numpy.full(9, comm.rank + 1, dtype)
            assert (comm.all_reduce(data).astype("float32") == 3).all()
    ranks(body, 2)


def test_registered_memory(ranks):
    def body(comm):
        data = comm.empty((2, 3), "float64")
        assert data.shape == (2, 3) and (data == 0).all()
        data += comm.rank
        comm.all_reduce(data)
        assert (data == 3).all()
        view = data[1:]
        del data
        with pytest.raises(weir.InvalidError, match="arrays of registered memory in use: 1;"):
            comm.destroy()
        view += 1
        comm.all_reduce(numpy.ones(1))
        del view
    ranks(body, 3)


def test_prepared_calls_see_new_contents(ranks):
    def body(comm):
        data, out = numpy.zeros(4, "float32"), numpy.zeros(4 * comm.size, "float32")
        reduce = comm.prepare("all_reduce", data)
        gather = comm.prepare("all_gather", data, out)
        for step in range(3):
            data[:] = step + comm.rank
            reduce()
            assert (data == 3 * step + 3).all()
            gather()
            assert (out == 3 * step + 3).all()
        with pytest.raises(weir.InvalidError, match="elements"):
            comm.prepare("all_gather", data, out[1:])
    ranks(body, 3)


def test_algorithms_by_name(ranks):
    def body(comm):
        data = numpy.ones(100, "float32")
        comm.all_reduce(data, algo="packet")
        assert comm.last_algo == "packet"
        comm.set_algo("allreduce", "packet2")
        comm.all_reduce(data)
        assert comm.last_algo == "packet2"
        with pytest.raises(weir.InvalidError, match="known|expected|packet"):
            comm.all_reduce(data, algo="fastest")
    ranks(body, 3)


def test_threads_share_a_communicator(ranks):
    def body(comm):
        import threading
        wrong = []

        def work():
            for _ in range(200):
                if comm.all_reduce(numpy.ones(10))[0] != comm.size:
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not wrong
    ranks(body, 2)
