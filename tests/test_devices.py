from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from building import HAS_NVCC, script

from kerneltui.errors import ToolchainMissing, UsageError
from kerneltui.evaluator import cpu, devices, gpus, toolkits
from kerneltui.evaluator.gpus import Gpu, Survey, visible
from kerneltui.records import CheckResult, Device

A = Gpu(uuid="GPU-52a31111-0000-4000-8000-000000000001", name="A", capability=(9, 0))
B = Gpu(uuid="GPU-52b32222-0000-4000-8000-000000000002", name="B", capability=(9, 0))
C = Gpu(uuid="GPU-99c33333-0000-4000-8000-000000000003", name="C", capability=(8, 0))
ALL = (A, B, C)
M1 = Gpu(uuid="MIG-11111111-0000-4000-8000-000000000011", name="m1", legacy_name=f"MIG-{C.uuid}/1/0")
M2 = Gpu(uuid="MIG-22222222-0000-4000-8000-000000000012", name="m2", legacy_name=f"MIG-{C.uuid}/2/0")
SPLIT = replace(C, instances=(M1, M2))
FAKE_NVCC = """case "$*" in *--version*) echo 'Cuda compilation tools, release 99.1, V99.1.7'; exit 0;; esac
echo "nvcc fatal   : Unsupported gpu architecture 'compute_90a'" >&2
exit 1"""
needs_nvcc = pytest.mark.skipif(not HAS_NVCC, reason="no nvcc here")


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, "ABC"),
        ("1", "B"),
        ("2,0", "CA"),
        (" 2 , 0 ", "CA"),
        ("0,1,2", "ABC"),
        ("", ""),
        ("-1", ""),
        ("0,-1,1", "A"),
        ("7", ""),
        ("1,7,0", "B"),
        ("0,0", ""),
        ("1gpu", "B"),
        ("none", ""),
        ("NoDevFiles", ""),
        (B.uuid, "B"),
        (f"{C.uuid},{A.uuid}", "CA"),
        ("GPU-99", "C"),
        ("GPU-52", ""),
        ("GPU-52b,GPU-99", "BC"),
        ("GPU-52b,0", "B"),
        ("0,GPU-52b", "A"),
        ("GPU-52b,GPU-52b3", ""),
        ("GPU-none,GPU-52b", ""),
        ("MIG-11", ""),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(value: str | None, names: str) -> None:
    assert "".join(gpu.name for gpu in visible(value, ALL)) == names


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (M1.uuid, (M1,)),
        ("MIG-22", (M2,)),
        (f"{M2.uuid},{M1.uuid}", (M2,)),
        (f"MIG-{C.uuid}/1/0", (M1,)),
        ("MIG-3", ()),
        (None, (A, B)),
        ("2", (M1,)),
    ],
)
def test_mig_instances_by_name(value: str | None, found: tuple[Gpu, ...]) -> None:
    assert visible(value, (A, B, SPLIT)) == found


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with three GPUs and CUDA_VISIBLE_DEVICES=2,0, as a survey of it would look."""
    survey = Survey(visible=(C, A), present=ALL, driver="580.82", cuda=(13, 0))
    monkeypatch.setattr(gpus, "survey", lambda *_: survey)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")


@pytest.mark.parametrize(
    ("name", "uuid"),
    [
        ("cuda:0", C.uuid),
        ("0", C.uuid),
        ("1", A.uuid),
        ("cuda", C.uuid),
        (A.uuid, A.uuid),
        (f"cuda:{A.uuid}", A.uuid),
        ("GPU-52", A.uuid),
        ("52a3", A.uuid),
    ],
)
@pytest.mark.usefixtures("three_gpus")
def test_a_gpu_is_found_by_index_uuid_and_prefix(name: str, uuid: str) -> None:
    found = devices.find_device(name)
    assert (found.id, found.driver) == (f"cuda:{uuid}", "580.82")
    assert devices.device_environment(found) == {"CUDA_VISIBLE_DEVICES": uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert devices.device_uuid(found) == uuid


@pytest.mark.parametrize("name", ["2", "cuda:5", "gpu", B.uuid, "tpu:0", ""])
@pytest.mark.usefixtures("three_gpus")
def test_an_unknown_device_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        devices.find_device(name)
    assert C.uuid in str(refused.value)
    assert "cpu:" in str(refused.value)


def test_a_list_that_hides_every_gpu_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_ask_nvml", lambda: (ALL, "580.82", (13, 0)))
    monkeypatch.setattr(gpus, "_ask_driver", lambda: {"cuda": [13, 0], "devices": []})
    survey = gpus.survey.__wrapped__("7", None)
    assert (survey.visible, survey.cuda) == ((), (13, 0))
    assert survey.problem.startswith(f"CUDA_VISIBLE_DEVICES='7' leaves no GPU; there are 0: A {A.uuid}, ")


def test_without_an_answer_from_the_driver_the_list_is_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_ask_nvml", lambda: (ALL, "580.82", (13, 0)))
    monkeypatch.setattr(gpus, "_ask_driver", lambda: {"error": "the NVIDIA driver did not answer within 60 s"})
    assert gpus.survey.__wrapped__("2,0", None).visible == (C, A)


class Withholding:
    """A driver that answers "not supported" to most questions."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM = NVML_CLOCK_MEM = NVML_TEMPERATURE_GPU = 0

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetTemperature(self, _handle: str, _sensor: int) -> int:
        return 41

    def __getattr__(self, name: str) -> object:
        def refuse(*_: object) -> None:
            raise self.NVMLError("Not Supported")

        return refuse


def test_what_the_driver_withholds_is_a_dash_and_never_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "open_nvml", Withholding)
    readings = gpus.gpu_readings(A.uuid)
    assert readings == dict.fromkeys(readings, "–") | {"temperature": "41 °C"}
    monkeypatch.setattr(gpus, "open_nvml", lambda: None)
    assert set(gpus.gpu_readings(A.uuid).values()) == {"–"}


def test_the_cpu_is_a_device() -> None:
    found = devices.find_device("cpu")
    assert found.id == f"cpu:{cpu.cores_text(os.sched_getaffinity(0))}"
    assert devices.device_cores(found) == tuple(sorted(os.sched_getaffinity(0)))
    assert found.memory_bytes is not None and found.memory_bytes > 1 << 28
    assert "clock" in devices.readings(found)
    assert devices.device_environment(found) == {"CUDA_VISIBLE_DEVICES": ""}


def test_some_cores_are_a_device_of_their_own() -> None:
    core = min(os.sched_getaffinity(0))
    assert devices.find_device(f"cpu:{core}").cores == 1
    for word in ("cpu:99999", "cpu:x", "cpu:3-1"):
        with pytest.raises(UsageError, match=r"this process may use cpu:"):
            devices.find_device(word)


@pytest.mark.parametrize("cores", [(0,), (0, 1, 2), (0, 2, 3, 7), (5, 9)])
def test_core_lists_are_read_as_written(cores: tuple[int, ...]) -> None:
    assert cpu.read_cores(cpu.cores_text(cores)) == cores


@pytest.mark.parametrize(
    ("capability", "names"),
    [
        ((7, 5), ("sm_75",)),
        ((8, 9), ("sm_89",)),
        ((9, 0), ("sm_90a", "sm_90")),
        ((10, 0), ("sm_100a", "sm_100")),
        ((10, 3), ("sm_103a", "sm_103")),
        ((12, 0), ("sm_120a", "sm_120")),
    ],
)
def test_the_full_instruction_set_is_asked_for(capability: tuple[int, int], names: tuple[str, ...]) -> None:
    assert toolkits.architectures(capability) == names


def test_code_is_for_the_device_itself() -> None:
    assert toolkits.code_flag("sm_90a") == "-gencode=arch=compute_90a,code=sm_90a"


@needs_nvcc
def test_a_toolkit_that_cannot_build_is_passed_over_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = script(tmp_path / "bin" / "nvcc", FAKE_NVCC)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "third"))
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "10.1 8.9+PTX")
    first, second, *_ = toolkits.find_nvccs("sm_90a")
    assert (first.path, first.version) == (str(broken), "99.1.7")
    assert first.problem.startswith("it does not build an empty kernel for sm_90a: nvcc fatal")
    assert second.problem == ""
    assert devices.offline_cuda_device("sm_90a").compiler == second.path
    details = [check.detail for check in devices.doctor()]
    assert [detail for detail in details if str(broken) in detail and "does not build" in detail] != []
    assert [detail for detail in details if second.path in detail and "used, the first" in detail] != []
    assert [detail for detail in details if "TORCH_CUDA_ARCH_LIST is not followed" in detail] != []


@needs_nvcc
def test_a_toolkit_newer_than_the_driver_is_passed_over() -> None:
    found = toolkits.find_nvccs("sm_90a", (11, 8))
    assert {nvcc.problem.partition(",")[0] for nvcc in found} == {"the driver runs programs of CUDA 11.8"}


def test_no_nvcc_that_works_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = script(tmp_path / "bin" / "nvcc", FAKE_NVCC)
    monkeypatch.setattr(toolkits, "nvcc_places", lambda: [(str(broken), "PATH")])
    with pytest.raises(ToolchainMissing, match=r"no nvcc builds for sm_90a. Tried .*Unsupported gpu architecture"):
        devices.offline_cuda_device("sm_90a")
    monkeypatch.setattr(toolkits, "nvcc_places", list)
    with pytest.raises(ToolchainMissing, match="install the CUDA toolkit"):
        devices.offline_cuda_device("sm_90a")
    assert any("install the CUDA toolkit" in words for words in devices.missing("cuda"))


def test_an_architecture_has_a_name() -> None:
    with pytest.raises(UsageError, match="is no architecture"):
        devices.offline_cuda_device("90a; rm")


def test_the_named_compiler_comes_first_and_a_broken_one_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = script(tmp_path / "my c++", "echo 'g++ 99'; case $1 in --version) exit 0;; esac; exit 1")
    monkeypatch.setenv("CXX", f"'{broken}'")
    first, *others = toolkits.find_host_compilers()
    assert (first.path, first.found) == (str(broken), "$CXX")
    assert first.problem.startswith("it does not build an empty program")
    assert toolkits.host_compiler() == next(compiler for compiler in others if not compiler.problem)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert toolkits.find_host_compilers()[0].problem == "no such program"


def test_without_a_compiler_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    assert "apt install g++" in devices.missing("cpu")[0]
    assert devices.find_device("cpu").compiler == ""


def test_doctor_speaks_in_whole_checks() -> None:
    checks = {check.name: check for check in devices.doctor()}
    assert {"torch", "sandbox", "tmux", "C++ compiler"} <= set(checks)
    assert all(check.detail for check in checks.values())
    assert checks["C++ compiler"].result is CheckResult.PASS


def test_importing_asks_nobody() -> None:
    program = (
        "import sys; import kerneltui.evaluator.devices; "
        "print([name for name in ('pynvml', 'psutil', 'torch', 'asyncio', 'numpy') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.gpu
def test_the_real_gpu_is_described_whole() -> None:
    survey = devices._survey()
    if not survey.visible:
        pytest.skip(survey.problem)
    found = devices.find_device("cuda:0")
    assert isinstance(found, Device)
    assert found.id.startswith(("cuda:GPU-", "cuda:MIG-"))
    assert None not in (found.cores, found.memory_bytes, found.l2_bytes)
    assert found.architecture.startswith("sm_")
    assert found.compiler and found.driver
    assert devices.readings(found)["memory used"] != "–"
    assert devices.find_device(found.id) == found
    assert visible(os.environ.get("CUDA_VISIBLE_DEVICES"), survey.present)[0].uuid == found.id.removeprefix("cuda:")


def test_devices_that_share_a_search_are_of_one_kind_and_apart() -> None:
    cores = sorted(os.sched_getaffinity(0))
    whole, first = f"cpu:{cores[0]}-{cores[-1]}", f"cpu:{cores[0]}"
    assert [first] == [device.id for device in devices.find_devices([first])]
    with pytest.raises(UsageError, match="overlap: work on one would disturb"):
        devices.find_devices([first, whole if len(cores) > 1 else first])
    with pytest.raises(UsageError, match="of different kinds"):
        devices.find_devices([first, "cuda:none"])
