"""A program: asks the CUDA driver which devices a process sees, in its own order, and prints them as JSON.

A process of its own, since the driver reads CUDA_VISIBLE_DEVICES once, a sick device can hang it, and the asking
process may never want a GPU. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import sys

MULTIPROCESSORS, L2_BYTES, MAJOR, MINOR = 16, 38, 75, 76  # CUdevice_attribute
SHARED_PER_BLOCK_OPTIN, REGISTERS_PER_BLOCK = 97, 12


def main() -> dict[str, object]:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"error": f"no NVIDIA driver: {error}"}
    status = cuda.cuInit(0)
    if status:
        return {"error": explain(cuda, status)}
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGetCount(ctypes.byref(count))
    cuda_version = (version.value // 1000, version.value % 1000 // 10)
    return {"cuda": cuda_version, "devices": [describe(cuda, index) for index in range(count.value)]}


def describe(cuda: ctypes.CDLL, index: int) -> dict[str, object]:
    name = ctypes.create_string_buffer(256)
    uuid = (ctypes.c_ubyte * 16)()
    memory = ctypes.c_size_t()
    cuda.cuDeviceGetName(name, 256, index)
    ask_uuid = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    ask_uuid(ctypes.byref(uuid), index)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), index)
    return {
        "name": name.value.decode("utf-8", "replace"),
        "uuid": dashed(bytes(uuid).hex()),
        "memory_bytes": memory.value or None,
        "capability": (attribute(cuda, MAJOR, index), attribute(cuda, MINOR, index)),
        "sms": attribute(cuda, MULTIPROCESSORS, index),
        "l2_bytes": attribute(cuda, L2_BYTES, index),
        "shared_per_block": attribute(cuda, SHARED_PER_BLOCK_OPTIN, index),
        "registers_per_block": attribute(cuda, REGISTERS_PER_BLOCK, index),
    }


def attribute(cuda: ctypes.CDLL, number: int, index: int) -> int | None:
    value = ctypes.c_int()
    return value.value if cuda.cuDeviceGetAttribute(ctypes.byref(value), number, index) == 0 else None


def explain(cuda: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    cuda.cuGetErrorString(status, ctypes.byref(text))
    return f"the driver says: {(text.value or b'unknown error').decode('utf-8', 'replace')} ({status})"


def dashed(digits: str) -> str:
    """8-4-4-4-12, as nvidia-smi writes it."""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
