"""CUDA's names for what went wrong, as outcomes and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kerneltui.records import Outcome

SHARED_DEFAULT_BYTES = 48 * 1024  # a block's dynamic shared memory without cudaFuncSetAttribute
REGISTERS_A_BLOCK = 65_536
THREADS_A_BLOCK = 1024
WORDS = {
    "ILLEGAL_ADDRESS": "a kernel read or wrote an address that is not its own (illegal address)",
    "MISALIGNED_ADDRESS": "a kernel read or wrote at an address that is not a multiple of the access's size (misaligned)",
    "ILLEGAL_INSTRUCTION": "a kernel ran an illegal instruction",
    "INVALID_PC": "a kernel jumped to an invalid address",
    "HARDWARE_STACK_ERROR": "a kernel ran out of stack",
    "ASSERT": "an assertion in a kernel failed",
    "LAUNCH_FAILED": "a kernel crashed (unspecified launch failure)",
    "LAUNCH_TIMEOUT": "the driver stopped a kernel that took too long",
    "ILLEGAL_BARRIER": "a kernel used a barrier that is not valid",
    "NO_BINARY_FOR_GPU": "the library holds no code for this GPU",
    "INVALID_CONFIGURATION": "a launch was refused: its grid or block size is not valid",
    "INVALID_VALUE": "a launch was refused: one of its arguments is not valid",
    "COOPERATIVE_LAUNCH_TOO_LARGE": "a cooperative launch was refused: its grid does not fit on the GPU at once",
    "NOT_PERMITTED": "a call was refused: it is not permitted here",
    "INVALID_RESOURCE_HANDLE": "a call was refused: its stream or event is not valid",
}
SPELLINGS = {  # the runtime's names for the same
    "ILLEGALADDRESS": "ILLEGAL_ADDRESS",
    "MISALIGNEDADDRESS": "MISALIGNED_ADDRESS",
    "LAUNCHFAILURE": "LAUNCH_FAILED",
    "LAUNCHOUTOFRESOURCES": "LAUNCH_OUT_OF_RESOURCES",
    "MEMORYALLOCATION": "OUT_OF_MEMORY",
    "INVALIDCONFIGURATION": "INVALID_CONFIGURATION",
    "INVALIDVALUE": "INVALID_VALUE",
    "COOPERATIVELAUNCHTOOLARGE": "COOPERATIVE_LAUNCH_TOO_LARGE",
    "NOKERNELIMAGEFORDEVICE": "NO_BINARY_FOR_GPU",
    "INVALIDRESOURCEHANDLE": "INVALID_RESOURCE_HANDLE",
    "NOTPERMITTED": "NOT_PERMITTED",
}


def fault_words(
    name: str, launches: Sequence[dict[str, Any]], resources: Sequence[dict[str, Any]]
) -> tuple[Outcome, str]:
    """Outcome and sentence for an error of the driver or the runtime.

    `launches` are the sizes that the source states: {"kernel", "block", "shared"}, None where it computes them.
    """
    plain = name.removeprefix("CUDA_ERROR_").removeprefix("cudaError").upper()
    plain = SPELLINGS.get(plain, plain)
    if plain == "OUT_OF_MEMORY":
        return Outcome.OUT_OF_MEMORY, f"it asked for more device memory than there is ({name})"
    if plain == "LAUNCH_OUT_OF_RESOURCES":
        return Outcome.LAUNCH_ERROR, too_many_registers(launches, resources, name)
    if plain in ("INVALID_VALUE", "INVALID_CONFIGURATION"):
        precise = too_much_shared(launches) or too_many_threads(launches)
        if precise:
            return Outcome.LAUNCH_ERROR, precise
    return Outcome.LAUNCH_ERROR, f"{WORDS.get(plain, 'CUDA reported an error')} [{name}]"


def too_much_shared(launches: Sequence[dict[str, Any]]) -> str:
    for launch in launches:
        shared = launch.get("shared")
        if isinstance(shared, int) and shared > SHARED_DEFAULT_BYTES:
            return (
                f"`{launch['kernel']}` asked for {shared / 1024:g} KiB dynamic shared memory without raising the limit "
                "of 48 KiB (cudaFuncSetAttribute, cudaFuncAttributeMaxDynamicSharedMemorySize), or for more than the "
                "GPU has; it was not launched"
            )
    return ""


def too_many_threads(launches: Sequence[dict[str, Any]]) -> str:
    for launch in launches:
        block = launch.get("block")
        if isinstance(block, int) and block > THREADS_A_BLOCK:
            return (
                f"`{launch['kernel']}` was not launched: a block of {block:,} threads, {THREADS_A_BLOCK:,} are possible"
            )
    return ""


def too_many_registers(launches: Sequence[dict[str, Any]], resources: Sequence[dict[str, Any]], name: str) -> str:
    """A block's registers: threads times what the compiler gave each."""
    known = [kernel for kernel in resources if kernel.get("registers")]
    worst = max(known, key=lambda kernel: kernel["registers"], default=None)
    if worst is None:
        return f"a launch was refused: it needs more registers or shared memory than there are [{name}]"
    each = int(worst["registers"])
    blocks = [launch["block"] for launch in launches if isinstance(launch.get("block"), int)]
    if blocks:
        needs = f"needs {each * max(blocks):,} registers a block, {REGISTERS_A_BLOCK:,} exist"
        detail = f"{each} for each of {max(blocks):,} threads"
    else:
        needs = f"needs more registers a block than the {REGISTERS_A_BLOCK:,} that exist"
        detail = f"{each} a thread, so {REGISTERS_A_BLOCK // each:,} threads at most"
    return f"`{worst['name']}` {needs} ({detail}); it was not launched; __launch_bounds__ or a smaller block helps"
