"""Every public function that returns a status refuses NULL for all of its arguments: no crash, no
success, and a line of text that names no other function. Reads the declarations from the headers. Prints TAP.

    null_arguments.py LIBRARY HEADER...
"""

import ctypes
import os
import pathlib
import re
import signal
import sys

# Functions for which NULL means that there is nothing to do.
HARMLESS = {"weir_comm_destroy"}
LIMIT_S = 10


def functions(headers):
    """Names and numbers of arguments."""
    text = "".join(pathlib.Path(name).read_text(encoding="utf-8") for name in headers)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.findall(r"WEIR_API\s+weir_status\s+(weir_\w+)\(([^;]*?)\);", text, flags=re.S)
    return [(name, arguments.count(",") + 1) for name, arguments in found]


def call(library, name, count):
    """In a child: calls the function; returns what its exit code says."""
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_S)
        loaded = ctypes.CDLL(library)
        loaded.weir_last_error.restype = ctypes.c_char_p
        function = getattr(loaded, name)
        function.restype = ctypes.c_int
        status = function(*[ctypes.c_void_p(0)] * count)
        text = loaded.weir_last_error().decode()
        named = re.match(r"(weir_\w+):", text)  # a part may speak for the whole: weir_moe_dispatch_send
        os._exit(1 if status == 0 else 2 if not text else 3 if named and not name.startswith(named[1]) else 0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return {0: "", 1: "success", 2: "no text", 3: "the text names another function"}[os.WEXITSTATUS(status)]


def main():
    """Runs all."""
    failed, number = 0, 0
    exported = ctypes.CDLL(sys.argv[1])
    for name, count in functions(sys.argv[2:]):
        if not hasattr(exported, name):
            continue
        number += 1
        outcome = call(sys.argv[1], name, count)
        good = outcome == ("success" if name in HARMLESS else "")
        failed += not good
        print(f"{'' if good else 'not '}ok {number} - {name} with NULL" + ("" if good else f"\n# {outcome}"))
    print(f"1..{number}")
    return failed > 0 or number < 60


sys.exit(main())
