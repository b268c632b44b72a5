#!/bin/sh
# Proves that validation detects every injected fault in GPU memory: some of the injection matrix
# with the stand-in for GPU memory, on any machine, and all of it on GPUs if there are any. TAP on
# standard output; run from the top folder.
failed=0
BACKEND=standin NP=2 PROGRAMS=allreduce verify/tests/cli/inject.sh || failed=1
BACKEND=standin NP=3 PROGRAMS="allgather alltoallv" FAULTS="drop-rank swap-chunks" \
    verify/tests/cli/inject.sh || failed=1
BACKEND=cuda verify/tests/cli/inject.sh || failed=1
exit $failed
