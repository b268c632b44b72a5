#!/bin/sh
# The injection matrix where data lie in a GPU's memory: a part of it on a stand-in, on any
# machine, and all of it where there are GPUs. TAP on standard output; run from the top folder.
failed=0
BACKEND=standin NP=2 PROGRAMS=allreduce verify/tests/cli/inject.sh || failed=1
BACKEND=standin NP=3 PROGRAMS="allgather alltoallv" FAULTS="drop-rank swap-chunks" \
    verify/tests/cli/inject.sh || failed=1
BACKEND=cuda verify/tests/cli/inject.sh || failed=1
exit $failed
