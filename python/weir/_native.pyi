"""The extension module of python/native: calls without examination of their arrays by Python."""
from typing import Any, Callable, Optional

class Caller:
    """Calls on one communicator, and the lock that serialises them."""
    calls: int
    """Calls that were made through this object."""
    def __init__(self, comm: int, device: int, size: int, rank: int) -> None: ...
    def run(self, collective: int, data: Any, out: Any, op: Any, root: int, ordered: bool) -> int:
        """Returns a weir_status; 1 if Python must make the call. ordered: only on the stream of `follow`."""
    def start(self, address: int) -> int:
        """Executes the weir_call at an address; 1 after `close`."""
    def follow(self, stream: Optional[int]) -> None:
        """Sets the stream of the latest call; None: unknown."""
    def locked(self) -> bool: ...
    def close(self) -> None:
        """Makes all later calls return 1."""
    def __enter__(self) -> None: ...
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None: ...

class Operator:
    """A kernel of torch.ops.weir: the Caller of a group, or the Python function `slow`."""
    def __init__(self, collective: int, callers: dict[str, Caller], slow: Callable[..., Any],
                 fail: Callable[[str, int], Any]) -> None: ...
    def __call__(self, *arguments: Any) -> Any: ...

def bind(addresses: dict[str, int]) -> int:
    """Sets the functions of libweir.so; returns the size of a weir_call."""
def read(value: Any) -> Optional[tuple[int, int, int, int, int, bool]]:
    """Returns address, bytes, weir_dtype, bytes of an element, device and whether it is read-only; None if Python must
    look."""
def stream(value: Any) -> Optional[int]:
    """Returns the current CUDA stream of a tensor's library; None if it is not known."""
def learn_arrays(kind: type, dtypes: list[tuple[Any, int]]) -> None: ...
def learn_tensors(kind: type, exchange: Any) -> bool: ...
def pool_open(comm: int, device: int) -> int: ...
def pool_close(pool: int) -> None: ...
def pool_memories(pool: int) -> list[tuple[int, int]]: ...
