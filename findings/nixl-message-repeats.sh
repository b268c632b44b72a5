#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages --no-deps nixl-cu13==1.5.1 numpy==2.4.6
says "a NIXL transfer that is posted again without a message sends the message of its last post again; an empty message does not remove it"
cat >transfer.py <<'P'
import os
import time
import numpy
from nixl_cu13._api import nixl_agent, nixl_agent_config

config = nixl_agent_config(backends=["UCX"])
writer, owner = nixl_agent("writer", config), nixl_agent("owner", config)
source, target = numpy.ones(4096, dtype=numpy.uint8), numpy.zeros(4096, dtype=numpy.uint8)
writer.register_memory([(source.ctypes.data, 4096, 0, "")], "DRAM")
owner.register_memory([(target.ctypes.data, 4096, 0, "")], "DRAM")
writer.add_remote_agent(owner.get_agent_metadata())
owner.add_remote_agent(writer.get_agent_metadata())
handle = writer.initialize_xfer("WRITE", writer.get_xfer_descs([(source.ctypes.data, 4096, 0)], "DRAM"),
                                owner.get_xfer_descs([(target.ctypes.data, 4096, 0)], "DRAM"), "owner", b"first")


def post(*message):
    end = time.time() + 20
    state = writer.transfer(handle, *message)
    while state == "PROC" and time.time() < end:
        state = writer.check_xfer_state(handle)
    got = []
    while not got and time.time() < end:
        got = owner.get_new_notifs().get("writer", [])
    return f"{state} {got}"


print(post())
print(post())
print(post(b"second"))
print(post(b""), flush=True)
os._exit(0)
P
NIXL_LOG_LEVEL=ERROR timeout 100 python3 transfer.py >out 2>log || { tail -n 2 log; exit 2; }
expect "a transfer with the message 'first': state, messages" "DONE [b'first']" "$(sed -n 1p out)"
expect "again, without a message" "DONE [b'first']" "$(sed -n 2p out)"
expect "again, with 'second'" "DONE [b'second']" "$(sed -n 3p out)"
expect "again, with an empty message" "DONE [b'second']" "$(sed -n 4p out)"
finish
