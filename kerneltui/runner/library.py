"""A candidate's shared library: loading it, finding its functions, and the arguments of one call."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence


class Library:
    """The function of the contract in one loaded library."""

    def __init__(self, descriptor: int, function: str, *, pointers: int, symbols: int, stream: bool) -> None:
        # By descriptor: the file's folder may be closed to the user that this process has become.
        path = f"/proc/self/fd/{descriptor}"
        self.handle = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        self.function = self.handle[function]
        self.function.restype = ctypes.c_int
        tail = 2 if stream else 1  # workspace, stream
        self.function.argtypes = (*[ctypes.c_void_p] * pointers, *[ctypes.c_int64] * symbols, *[ctypes.c_void_p] * tail)
        self.workspace = self.find_workspace(f"{function}_workspace", symbols)

    def find_workspace(self, name: str, symbols: int) -> ctypes._NamedFuncPointer | None:
        try:
            found = self.handle[name]
        except AttributeError:
            return None
        found.restype = ctypes.c_size_t
        found.argtypes = [ctypes.c_int64] * symbols
        return found

    def workspace_bytes(self, symbols: Sequence[int]) -> int:
        """Bytes of workspace that the candidate asks for."""
        return int(self.workspace(*symbols)) if self.workspace is not None else 0


def pointer_arguments(
    base: int, offsets: Sequence[int], symbols: Sequence[int], *tail: int | None
) -> tuple[object, ...]:
    """Arguments of one call, converted beforehand so that a timed call converts nothing but the tuple."""
    pointers = [ctypes.c_void_p(base + offset) for offset in offsets]
    sizes = [ctypes.c_int64(symbol) for symbol in symbols]
    return (*pointers, *sizes, *(ctypes.c_void_p(value) for value in tail))
