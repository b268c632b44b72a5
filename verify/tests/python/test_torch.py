"""PyTorch over weir on the CPU: runs clients/python_torch.py; the losses of a training equal gloo's."""
import os
import subprocess

import pytest
from free_port import free_port

pytest.importorskip("torch")
SIZE = 2


def run(python, source, **variables):
    """Runs the client on all ranks; returns rank 0's lines."""
    port, boot = free_port(), free_port()
    program = os.path.join(source, "verify", "tests", "clients", "python_torch.py")
    jobs = [subprocess.Popen([python, program], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(SIZE), LOCAL_RANK=str(rank),
                                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                                      WEIR_BOOT_PORT=str(boot), **variables))
            for rank in range(SIZE)]
    found = [job.communicate(timeout=240) for job in jobs]
    assert all(job.returncode == 0 for job in jobs), [(said[-500:], errors[-500:]) for said, errors in found]
    return found[0][0].splitlines()


def test_operators_backend_and_trainings(python, source):
    said = run(python, source)
    assert [line.split()[1] for line in said if line.startswith("ok")] == [
        "operators", "splits_that_change", "gradients", "compiled", "norms", "dispatch", "wrong_use", "communicator", "experts",
        "engine", "no_pool", "distributed", "lists", "one_tensor", "objects", "messages", "groups", "functional", "untraced",
        "data_parallel", "data_parallel_compiled", "fully_sharded"]
    losses = [line for line in said if line.startswith("loss")]
    gloo = run(python, source, BACKEND="gloo")
    for ours, theirs in zip(losses, [line for line in gloo if line.startswith("loss")]):
        assert ours.split()[1] == theirs.split()[1]
        for mine, other in zip(ours.split()[2:], theirs.split()[2:]):
            assert abs(float(mine) - float(other)) <= 1e-4 * abs(float(other))
    assert len(losses) == 3
