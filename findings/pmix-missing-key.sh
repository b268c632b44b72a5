#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs python3
debian13_packages openmpi-bin=5.0.7-1 libpmix2t64=5.0.7-1
says "PMIx_Get of a key that no rank has put is not refused, even after a fence that collects all data: it waits until its time limit, and without one until prterun gives up after two seconds; only PMIX_IMMEDIATE gets an answer at once"
cat >get.py <<'P'
import ctypes
import sys
import time
pmix = ctypes.CDLL("libpmix.so.2")


class Proc(ctypes.Structure):
    _fields_ = [("nspace", ctypes.c_char * 256), ("rank", ctypes.c_uint32)]


class Info(ctypes.Structure):  # pmix_info_t
    _fields_ = [("key", ctypes.c_char * 512), ("flags", ctypes.c_uint64), ("type", ctypes.c_uint64),
                ("data", ctypes.c_uint64 * 8)]


def info(key, kind, number):
    return Info(key, 0, kind, (ctypes.c_uint64 * 8)(number))


def get(*options):
    value = ctypes.c_void_p()
    start = time.monotonic()
    status = pmix.PMIx_Get(ctypes.byref(Proc(me.nspace, 1)), b"absent", (Info * 1)(*options),
                           ctypes.c_size_t(len(options)), ctypes.byref(value))
    return f"{status} {'waits' if time.monotonic() - start > 1.5 else 'at once'}"


def fence(*options):
    assert pmix.PMIx_Fence(None, ctypes.c_size_t(0), (Info * 1)(*options), ctypes.c_size_t(len(options))) == 0


me = Proc()
assert pmix.PMIx_Init(ctypes.byref(me), None, ctypes.c_size_t(0)) == 0
fence(info(b"pmix.collect", 1, 1))
if me.rank == 0:
    print(get(info(b"pmix.timeout", 6, 4)), get(), get(info(b"pmix.immediate", 1, 1)), sep=", ")
fence()
pmix.PMIx_Finalize(None, ctypes.c_size_t(0))
P
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
seen=$(in_debian13 prterun --map-by :oversubscribe -n 2 python3 get.py 2>error.log)
expect "status with a limit of 4 s, without a limit, and with PMIX_IMMEDIATE" "-24 waits, -24 waits, -46 at once" "$seen"
finish
