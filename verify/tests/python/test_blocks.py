"""Transfers of blocks from Python, compared with the same copies in NumPy."""
import os
import subprocess

import numpy
import pytest
import weir
import weir.blocks

PAGE, PAGES, LAYERS = 64, 16, 3
SOURCES, PLACES = [5, 0, 11, 7], [2, 9, 3, 15]


def pool_of(comm, registered):
    pool = comm.empty((LAYERS, PAGES, PAGE), "uint8") if registered else numpy.empty((LAYERS, PAGES, PAGE), "uint8")
    pool[:] = numpy.random.default_rng(comm.rank).integers(0, 256, pool.shape)
    return pool


def move(comm, registered, is_put, as_array):
    pool = pool_of(comm, registered)
    expected = pool.copy()
    entries = [[source * PAGE, place * PAGE] for source, place in zip(SOURCES, PLACES)]
    if as_array:
        entries = numpy.array(entries, "int64")
    dims = [(LAYERS, PAGES * PAGE, PAGES * PAGE)]
    with weir.blocks.Blocks(comm, pool) as blocks:
        receiver = 1 if is_put else 0
        if comm.rank == receiver:
            expected[:, PLACES] = pool_of_rank(1 - receiver)[:, SOURCES]
        if comm.rank == 0:
            (blocks.put if is_put else blocks.get)(1, entries, block_bytes=PAGE, dims=dims, slot=3, tag=17)
        else:
            blocks.wait(0, 3, 17, 10)
            assert blocks.tag(0, 3) == 17
        comm.barrier()
        assert (pool == expected).all()
        blocks.check()
    del pool
    return True


def pool_of_rank(rank):
    return numpy.random.default_rng(rank).integers(0, 256, (LAYERS, PAGES, PAGE)).astype("uint8")


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize("is_put", [True, False])
def test_blocks(ranks, registered, is_put):
    for as_array in (False, True):
        assert all(ranks(move, 2, registered, is_put, as_array))


def test_errors(alone):
    pool = alone.empty((4, 64), "uint8")
    blocks = weir.blocks.Blocks(alone, pool, slots=2)
    with pytest.raises(weir.InvalidError, match="entry 1: 64 bytes at source offset 200"):
        blocks.put(0, [[0, 64], [200, 128]], block_bytes=64)
    with pytest.raises(weir.InvalidError, match="entry 0 and entry 1"):
        blocks.put(0, [[0, 64, 60], [0, 100, 8]])
    with pytest.raises(weir.InvalidError, match="expected 3 numbers"):
        blocks.put(0, [[0, 64]])
    with pytest.raises(weir.InvalidError, match="rows of 2"):
        blocks.put(0, numpy.zeros(3, "int64"), block_bytes=8)
    with pytest.raises(TimeoutError, match="slot 1 within 20 ms"):
        blocks.wait(0, 1, 5, 0.02)
    blocks.close()
    with pytest.raises(weir.InvalidError, match="closed"):
        blocks.tag(0, 0)
    del pool


def test_example(source, python):
    path = os.path.join(source, "examples", "kv_transfer.py")
    done = subprocess.run([python, path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "largest difference" in done.stdout, done.stderr
