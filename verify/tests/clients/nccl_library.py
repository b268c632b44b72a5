"""NCCL's host interface by ctypes, on host memory, and the encoding of small numbers in every type.

NCCL_SO_PATH names the library. integrity_check opens it in a child process first, so that a library
that crashes does not end the caller. prefix: "nccl" or "mccl".
"""
import ctypes
import os
import struct
import subprocess
import sys

OK, SYSTEM, ARGUMENT, USAGE, REMOTE = 0, 2, 4, 5, 6
SUM, PROD, MAX, MIN, AVG = range(5)
DEVICE, IMMEDIATE = 0, 1
FLOAT, INT32, UINT8 = 7, 2, 1
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double",
         "bfloat16", "f8e4m3", "f8e5m2")
BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
FORMATS = ("b", "B", "i", "I", "q", "Q", "e", "f", "d")
E4M3 = {0: 0, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48, 6: 0x4c, 8: 0x50}
E5M2 = {0: 0, 1: 0x3c, 2: 0x40, 3: 0x42, 4: 0x44, 6: 0x46, 8: 0x48}


def encode(dtype, value):
    """Returns the bytes of a small whole number."""
    if dtype < 9:
        return struct.pack("<" + FORMATS[dtype], value)
    if dtype == 9:
        return struct.pack("<f", value)[2:]
    return bytes([(E4M3 if dtype == 10 else E5M2)[value]])


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


MAGIC, UNDEFINED = 0xcafebeef, -1 << 31


class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("blocking", ctypes.c_int), ("rest", ctypes.c_byte * 64)]


class FullConfig(ctypes.Structure):
    """ncclConfig_t of NCCL 2.32 with NCCL_CONFIG_INITIALIZER's values."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint)] + [
        (name, ctypes.c_char_p if name in ("netName", "commName") else ctypes.c_int) for name in (
            "blocking", "cgaClusterSize", "minCTAs", "maxCTAs", "netName", "splitShare",
            "trafficClass", "commName", "collnetEnable", "CTAPolicy", "shrinkShare", "nvlsCTAs",
            "nChannelsPerNetPeer", "nvlinkCentricSched", "graphUsageMode", "numRmaCtx",
            "maxP2pPeers", "graphStreamOrdering", "launchOrderImplicit", "numRmaSig",
            "rmaEagerInit", "hostCftMode", "nvlsHostMode")]

    def __init__(self, **values):
        super().__init__(ctypes.sizeof(FullConfig), MAGIC, 23203)
        for name, kind in self._fields_[3:]:
            if kind is ctypes.c_int:
                setattr(self, name, UNDEFINED)
        for name, value in values.items():
            setattr(self, name, value)


class CollConfig(ctypes.Structure):
    """ncclCollConfig_t with NCCL_COLLCONFIG_INITIALIZER's values."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("ext", ctypes.c_void_p), ("minCTAs", ctypes.c_int), ("maxCTAs", ctypes.c_int),
                ("nvlsCTAs", ctypes.c_int), ("cgaClusterSize", ctypes.c_int),
                ("algSelection", ctypes.c_char_p), ("forceAlgSelection", ctypes.c_int),
                ("CTAPolicy", ctypes.c_int), ("userProfilerTag", ctypes.c_uint64),
                ("launchCompletionEvent", ctypes.c_void_p)]

    def __init__(self, **values):
        given = {"forceAlgSelection": 1, "size": ctypes.sizeof(CollConfig), "magic": MAGIC,
                 "version": 23203}
        for name in ("minCTAs", "maxCTAs", "nvlsCTAs", "cgaClusterSize", "CTAPolicy"):
            given[name] = UNDEFINED
        super().__init__(**{**given, **values})


class Wait(ctypes.Structure):
    """ncclWaitSignalDesc_t."""
    _fields_ = [("opCnt", ctypes.c_int), ("peer", ctypes.c_int), ("sigIdx", ctypes.c_int),
                ("ctx", ctypes.c_int)]


class Encryption(ctypes.Structure):
    """ncclEncryptionConfig_t."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("mode", ctypes.c_int), ("psk", ctypes.c_char_p)]

    def __init__(self, mode=0, psk=None, magic=MAGIC, size=32):
        super().__init__(size, magic, 23203, mode, psk)


class SimInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("estimatedTime", ctypes.c_float)]

    def __init__(self, size=24, magic=0x74685283, time=-1.0):
        super().__init__(size, magic, 23203, time)


def integrity_check(path):
    """Opens the library in another process; raises RuntimeError if that fails."""
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    if subprocess.run([sys.executable, "-c", code, path], check=False).returncode != 0:
        raise RuntimeError(f"{path} cannot be opened, or crashes")


class Failed(RuntimeError):
    def __init__(self, name, result, text):
        super().__init__(f"{name}: {result}: {text}")
        self.result, self.text = result, text


class Library:
    """lib.AllReduce(...) calls ncclAllReduce and raises Failed unless it succeeds;
    lib.try_("AllReduce", ...) returns the result."""
    V, S, I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    ARGUMENTS = {
        "GetVersion": (V,), "GetUniqueId": (V,), "CommInitRank": (V, I, UniqueId, I),
        "CommInitRankConfig": (V, I, UniqueId, I, V), "CommInitAll": (V, I, V),
        "CommSplit": (V, I, I, V, V), "CommShrink": (V, V, I, V, V, I),
        "CommFinalize": (V,), "CommDestroy": (V,), "CommAbort": (V,), "CommRevoke": (V, I),
        "CommGetAsyncError": (V, V), "CommCount": (V, V), "CommCuDevice": (V, V),
        "CommUserRank": (V, V), "MemAlloc": (V, S), "MemFree": (V,),
        "CommRegister": (V, V, S, V), "CommDeregister": (V, V),
        "CommWindowRegister": (V, V, S, V, I), "CommWindowDeregister": (V, V),
        "RedOpCreatePreMulSum": (V, V, I, I, V), "RedOpDestroy": (I, V),
        "Reduce": (V, V, S, I, I, I, V, V), "Bcast": (V, S, I, I, V, V),
        "Broadcast": (V, V, S, I, I, V, V), "AllReduce": (V, V, S, I, I, V, V),
        "ReduceScatter": (V, V, S, I, I, V, V), "AllGather": (V, V, S, I, V, V),
        "AlltoAll": (V, V, S, I, V, V), "Gather": (V, V, S, I, I, V, V),
        "Scatter": (V, V, S, I, I, V, V), "Send": (V, S, I, I, V, V), "Recv": (V, S, I, I, V, V),
        "GroupStart": (), "GroupEnd": (), "GroupSimulateEnd": (V,),
        "PutSignal": (V, S, I, I, V, S, I, I, ctypes.c_uint, V, V),
        "Signal": (I, I, I, ctypes.c_uint, V, V), "WaitSignal": (I, V, V, V),
        "WinGetUserPtr": (V, V, V), "CommGetUniqueId": (V, V),
        "CommGrow": (V, I, V, I, V, V), "CommSuspend": (V, I), "CommResume": (V,),
        "CommMemStats": (V, I, V), "SetEncryption": (V,), "CommQueryProperties": (V, V),
        "DevCommCreate": (V, V, V), "DevCommDestroy": (V, V),
        "ParamBind": (V, ctypes.c_char_p), "ParamGetStr": (V, V), "ParamGet": (V, V, I, V),
        "ParamGetParameter": (ctypes.c_char_p, V, V), "ParamGetAllParameterKeys": (V, V),
    }
    INTEGERS = {"I8": ctypes.c_int8, "I16": ctypes.c_int16, "I32": ctypes.c_int32,
                "I64": ctypes.c_int64, "U8": ctypes.c_uint8, "U16": ctypes.c_uint16,
                "U32": ctypes.c_uint32, "U64": ctypes.c_uint64}
    for _name in INTEGERS:
        ARGUMENTS["ParamGet" + _name] = (V, V)
    for _name in ("AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AlltoAll",
                  "Gather", "Scatter"):
        ARGUMENTS[_name + "Config"] = ARGUMENTS[_name] + (V,)

    def __init__(self, path=None, prefix="nccl"):
        self.library = ctypes.CDLL(path or os.environ["NCCL_SO_PATH"])
        self.prefix = prefix
        for name, arguments in self.ARGUMENTS.items():
            function = getattr(self.library, prefix + name)
            function.restype, function.argtypes = ctypes.c_int, arguments
        for name in ("GetErrorString", "GetLastError"):
            getattr(self.library, prefix + name).restype = ctypes.c_char_p
        getattr(self.library, prefix + "GetLastError").argtypes = (ctypes.c_void_p,)

    def try_(self, name, *arguments):
        return getattr(self.library, self.prefix + name)(*arguments)

    def last_error(self):
        return getattr(self.library, self.prefix + "GetLastError")(None).decode()

    def error_string(self, result):
        return getattr(self.library, self.prefix + "GetErrorString")(result).decode()

    def __getattr__(self, name):
        def call(*arguments):
            result = self.try_(name, *arguments)
            if result != OK:
                raise Failed(name, result, self.last_error())
        return call

    def unique_id(self):
        identity = UniqueId()
        self.GetUniqueId(ctypes.byref(identity))
        return identity

    def init(self, nranks, identity, rank):
        comm = ctypes.c_void_p()
        self.CommInitRank(ctypes.byref(comm), nranks, identity, rank)
        return comm


def buffer(dtype, values):
    """Returns a ctypes array of the encoded numbers."""
    data = b"".join(encode(dtype, value) for value in values)
    return ctypes.create_string_buffer(data, max(1, len(data)))


def repeated(dtype, value, count):
    """Returns bytes: a number's encoding, so many times. Of millions it is much faster than buffer."""
    return encode(dtype, value) * count


def at(array, offset_bytes):
    return ctypes.c_void_p(ctypes.addressof(array) + offset_bytes)


def holds(array, dtype, values):
    """Returns whether the array begins with the encoded numbers."""
    data = b"".join(encode(dtype, value) for value in values)
    return array.raw[:len(data)] == data
