"""Communicators from the environment of launchers, from mpi4py, and without any."""
import os
import shutil
import subprocess

import pytest
import weir
from free_port import free_port

# Each rank writes its line at once, so that mpirun does not mix the lines of two ranks.
PROGRAM = ("import numpy, os, weir\ncomm = weir.init(backend='host')\n"
           "total = comm.all_reduce(numpy.array([comm.rank + 1]))[0]\n"
           "os.write(1, f'{comm.rank} {comm.size} {total}\\n'.encode())\n"
           "comm.destroy()\n")
LAUNCHER_WORDS = ("RANK", "WORLD_SIZE", "TORCHELASTIC_", "OMPI_", "PMI", "SLURM_", "MASTER_", "MV2_")


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_WORDS)}
    return dict(kept, **more)


def outputs(jobs):
    found = [job.communicate(timeout=30) for job in jobs]
    assert all(job.returncode == 0 for job in jobs), found
    return [said.strip() for said, _ in found]


def start(python, program=PROGRAM, **variables):
    return subprocess.Popen([python, "-c", program], env=clean_environment(**variables), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_torchruns_variables(python):
    port = free_port()
    jobs = [start(python, RANK=str(rank), WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT="1",
                  WEIR_BOOT_PORT=str(port)) for rank in range(3)]
    assert outputs(jobs) == [f"{rank} 3 6" for rank in range(3)]


def test_variables_of_mpi_launchers_on_one_node(python):
    for rank, size, local, job in (
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"),
            ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_JOBID")):
        jobs = [start(python, **{rank: str(number), size: "2", local: "2", job: "test/../1"})
                for number in (1, 0)]
        assert outputs(jobs) == ["1 2 3", "0 2 3"]
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(f"weir-boot-{os.getuid()}-")
                and name.endswith(f"-{os.getpid()}")]


def test_mpirun(python):
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("no mpirun")
    done = subprocess.run([mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2", python, "-c", PROGRAM],
                          env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 2 3", "1 2 3"]


STEP = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_NODELIST": "localhost", "SLURM_JOB_ID": "9",
        "SLURM_STEP_ID": "0"}


def test_mpirun_in_a_slurm_job(python):
    """mpirun counts before the Slurm step around it: a shell of one task, and a step of several."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("no mpirun")
    for tasks in ("1", "3"):
        # The launcher itself must not use Slurm, which is not there: only its ranks get the variables.
        step = [f"{name}={value}" for name, value in dict(STEP, SLURM_STEP_NUM_TASKS=tasks).items()]
        done = subprocess.run([mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "3", "env", *step, python, "-c",
                               PROGRAM], env=clean_environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == ["0 3 6", "1 3 6", "2 3 6"]


def test_a_slurm_step_of_one_task_is_one_rank(python):
    assert outputs([start(python, SLURM_STEP_NUM_TASKS="1", **STEP)]) == ["0 1 1"]


def test_a_script_of_sbatch_is_no_launcher(python):
    job = start(python, SLURM_PROCID="0", SLURM_NTASKS="4", SLURM_JOB_ID="9")
    _, errors = job.communicate(timeout=30)
    assert job.returncode == 1 and "the environment names no job" in errors


def test_mpi4py(python):
    pytest.importorskip("mpi4py")
    program = PROGRAM.replace("weir.init(", "weir.init(MPI.COMM_WORLD, ").replace(
        "import ", "from mpi4py import MPI\nimport ", 1)
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", python, "-c", program],
                          env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert sorted(done.stdout.splitlines()) == ["0 2 3", "1 2 3"], done.stderr


class Mpi:
    """What weir.init uses of an mpi4py communicator of one rank."""

    def Get_rank(self):
        return 0

    def Get_size(self):
        return 1

    def bcast(self, value, root):
        return value


def test_an_mpi_communicator():
    with weir.init(Mpi(), backend="host") as comm:
        assert (comm.rank, comm.size, comm.backend, comm.device) == (0, 1, "host", -1)


# An mpi4py of an MPI that no launcher has started.
FOREIGN_MPI = """
class Comm:
    def Get_rank(self): return 0
    def Get_size(self): return 1
    def bcast(self, value, root): return value
COMM_WORLD = Comm()
def Get_library_version(): return "Open MPI v4.1.4, package: Debian"
"""


@pytest.mark.parametrize("program", ["import weir; weir.init(backend='host')",
                                     "import weir; from mpi4py import MPI; weir.init(MPI.COMM_WORLD, backend='host')"])
def test_a_launcher_of_another_mpi_is_refused(python, tmp_path, program):
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("")
    (tmp_path / "mpi4py" / "MPI.py").write_text(FOREIGN_MPI)

    def run(**variables):
        here = clean_environment(WEIR_LAUNCHER="mpi", PYTHONPATH=str(tmp_path), **variables)
        return subprocess.run([python, "-c", program + "; print(weir.__name__)"], env=here, capture_output=True, text=True,
                              timeout=60)

    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"):
        done = run(**{name: "2"})
        assert done.returncode == 1 and done.stdout == "", name
        assert f"the launcher started 2 processes ({name}), but MPI sees 1; use the mpirun" in done.stderr
        assert "(Open MPI v4.1.4)" in done.stderr
    for right in ({}, {"PMI_SIZE": "1"}, {"PMI_SIZE": ""}, {"PMI_SIZE": "1", "SLURM_STEP_NUM_TASKS": "4"}):
        done = run(**right)
        assert done.returncode == 0, done.stderr


def test_no_job_is_an_error_with_the_remedy(python):
    job = start(python)
    _, errors = job.communicate(timeout=30)
    assert job.returncode == 1
    assert "weir.errors.InvalidError: the environment names no job" in errors and "torchrun" in errors


def test_the_launcher_can_be_named(python):
    """WEIR_LAUNCHER decides although the variables of another launcher are there."""
    others = {"RANK": "0", "WORLD_SIZE": "9", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for launcher, words in (("slurm", "SLURM_STEP_NODELIST"), ("none", "names no job"),
                            ("lsf", "WEIR_LAUNCHER=lsf: expected auto, none, mpi")):
        job = start(python, WEIR_LAUNCHER=launcher, **others)
        _, errors = job.communicate(timeout=30)
        assert job.returncode == 1 and words in errors, errors


def test_pmix(python):
    """Open MPI's mpirun is a PMIx launcher; needs libpmix."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("no mpirun")
    done = subprocess.run([mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2", python, "-c", PROGRAM],
                          env=clean_environment(WEIR_LAUNCHER="pmix"), capture_output=True, text=True, timeout=60)
    if "libpmix" in done.stderr:
        pytest.skip("no libpmix")
    assert sorted(done.stdout.splitlines()) == ["0 2 3", "1 2 3"], done.stderr


def test_an_incomplete_environment_is_named(python):
    job = start(python, RANK="0", WORLD_SIZE="two", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    _, errors = job.communicate(timeout=30)
    assert job.returncode == 1 and "WORLD_SIZE" in errors


def test_spawned_processes(python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import numpy, weir\ndef body(comm, x):\n"
                       "    return float(comm.all_reduce(numpy.array([x + comm.rank]))[0])\n"
                       "if __name__ == '__main__':\n"
                       "    print(weir.spawn(body, 2, 1.0, method='spawn', backend='host'))\n")
    done = subprocess.run([python, program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[3.0, 3.0]\n", done.stderr


def test_contradicting_launchers_are_refused(python):
    torchrun = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for other in ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, {"PMI_RANK": "0", "PMI_SIZE": "4"},
                  {"PMIX_RANK": "1"}, {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}):
        job = start(python, **torchrun, **other, PMIX_NAMESPACE="job", SLURM_STEP_NODELIST="localhost")
        _, errors = job.communicate(timeout=30)
        names = " and ".join(f"{name}={value}" for name, value in other.items())
        assert job.returncode == 1 and f"RANK=0 and WORLD_SIZE=2 (torchrun's) contradict {names}: unset" in errors, errors


def test_launchers_that_agree_or_are_nested(python):
    """Variables that agree, and those of torchrun's workers inside of another launcher's job."""
    for more in ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
                 {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none"}):
        port = str(free_port())
        job = start(python, RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1", WEIR_BOOT_PORT=port, **more)
        assert outputs([job]) == ["0 1 1"]
