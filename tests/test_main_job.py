"""The main job on the CPU, through the commands, with real compilers, a real judge and real timings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parent.parent
SCALED = '''"""Ships nowhere."""
import torch
import torch.nn as nn

ROWS = 48
SCALE = 1.5


class Model(nn.Module):
    def __init__(self, width, gain):
        super().__init__()
        self.proj = nn.Linear(width, 32, bias=True)
        self.gain = gain

    def forward(self, x, shift):
        return torch.relu(self.proj(x) * self.gain + shift)


def get_inputs():
    return [torch.randn(ROWS, 64), torch.randn(ROWS, 32)]


def get_init_inputs():
    return [64, SCALE]
'''
KERNEL = """#include "contract.h"
extern "C" int scaled(const float* x, const float* shift, const float* proj_weight, const float* proj_bias, float* out,
                      void* workspace) {
    (void)workspace;
    for (int64_t r = 0; r < x_dim0; ++r)
        for (int64_t c = 0; c < out_dim1; ++c) {
            float sum = proj_bias[c];
            for (int64_t k = 0; k < x_dim1; ++k) sum += x[r * x_dim1 + k] * proj_weight[c * x_dim1 + k];
            float y = sum * (float)gain + shift[r * out_dim1 + c];
            out[r * out_dim1 + c] = y > 0 ? y : LOW;
        }
    return 0;
}
"""
MODULE = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, gain):
        super().__init__()
        self.proj = nn.Linear(width, 32, bias=True)
        self.gain = gain

    def forward(self, x, shift):
        return torch.clamp(torch.addmm(self.proj.bias, x, self.proj.weight.t()) * self.gain + shift, min=0)
"""


def kerneltui(*words: str, timeout: float = 280, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kerneltui", *words]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=os.environ | environment, timeout=timeout
    )


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    (tmp_path / "scaled.py").write_text(SCALED)
    return tmp_path / "scaled.py"


def evaluate(tmp_path: Path, problem: Path, name: str, source: str, *words: str) -> tuple[int, dict[str, Any]]:
    (tmp_path / name).write_text(source)
    done = kerneltui("eval", str(tmp_path / name), "--problem", str(problem), "--json", *words)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_file_that_ships_nowhere_is_judged(tmp_path: Path, problem: Path) -> None:
    status, found = evaluate(tmp_path, problem, "k.cpp", KERNEL, "-D", "LOW=0")
    assert (0, "correct") == (status, found["outcome"]), found
    assert {"outcome", "stage", "message", "log", "median_us", "speedup", "device", "checks"} <= set(found)
    assert found["median_us"] > 0
    if found["measurement"]["badge"] != "untrusted":  # a machine busy with other work gives no ratio, and says so
        assert {"ratio", "low", "high", "tie"} <= set(found["speedup"]["eager"])
    assert "cpu" == found["device"]["kind"]


def test_wrong_numbers_are_a_mismatch_with_figures(tmp_path: Path, problem: Path) -> None:
    status, found = evaluate(tmp_path, problem, "k.cpp", KERNEL, "-D", "LOW=-0.25f")
    assert (1, "mismatch") == (status, found["outcome"])
    assert found["errors"][0]["wrong"] > 0
    assert found["message"]


def test_what_does_not_compile_comes_with_its_log(tmp_path: Path, problem: Path) -> None:
    status, found = evaluate(tmp_path, problem, "k.cpp", KERNEL)
    assert (1, "compile_error", "compile") == (status, found["outcome"], found["stage"])
    assert "LOW" in found["log"]


def test_right_numbers_do_not_excuse_a_forbidden_call(tmp_path: Path, problem: Path) -> None:
    source = "#include <unistd.h>\n" + KERNEL.replace("(void)workspace;", "(void)workspace; if (fork() == 0) _exit(0);")
    status, found = evaluate(tmp_path, problem, "k.cpp", source, "-D", "LOW=0")
    assert (3, "suspect", "policy") == (status, found["outcome"], found["stage"]), found
    assert "fork" in found["message"] + str(found["checks"])


def test_a_hang_that_also_forks_is_a_timeout(tmp_path: Path, problem: Path) -> None:
    source = "#include <unistd.h>\n" + KERNEL.replace(
        "(void)workspace;",
        "(void)workspace; if (fork() == 0) { setsid(); for (;;) pause(); } for (volatile long i = 0;;) i = i;",
    )
    status, found = evaluate(tmp_path, problem, "k.cpp", source, "-D", "LOW=0", "--deadline", "3")
    assert (1, "timeout") == (status, found["outcome"]), found


def test_a_module_candidate_is_judged(tmp_path: Path, problem: Path) -> None:
    status, found = evaluate(tmp_path, problem, "m.py", MODULE)
    assert (0, "correct") == (status, found["outcome"]), found


def test_a_cuda_kernel_without_a_gpu_is_compiled_and_never_correct(tmp_path: Path, problem: Path) -> None:
    if subprocess.run(["sh", "-c", "command -v nvidia-smi"], capture_output=True).returncode == 0:
        pytest.skip("this machine has a GPU")
    source = KERNEL.replace("void* workspace)", "void* workspace, cudaStream_t stream)").replace("LOW", "0")
    status, found = evaluate(tmp_path, problem, "k.cu", source)
    assert (2, "not_run") == (status, found["outcome"]), found


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("class Model(", "class Modell("), "Model"),
        (("import torch\n", "import torch\ndef (\n"), "line"),
        (("return torch.relu", "raise ValueError('not [/today')\n        return torch.relu"), "not [/today"),
        (("return torch.relu(", "return str("), "tensor"),
        (("def get_inputs():", "def get_inputz():"), "get_inputs"),
    ],
)
def test_a_bad_problem_file_is_one_sentence(tmp_path: Path, problem: Path, change: tuple[str, str], told: str) -> None:
    problem.write_text(SCALED.replace(*change))
    done = kerneltui("new", str(problem), KERNELTUI_SESSIONS=str(tmp_path / "sessions"))
    assert (2, "") == (done.returncode, done.stdout), done.stderr
    assert told in done.stderr
    assert str(problem) in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "sessions").exists()


def test_no_compiler_is_the_machines_fault(tmp_path: Path, problem: Path) -> None:
    (tmp_path / "k.cpp").write_text(KERNEL)
    empty = tmp_path / "bin"
    empty.mkdir()
    done = kerneltui("eval", str(tmp_path / "k.cpp"), "-p", str(problem), PATH=str(empty), CXX="")
    assert 2 == done.returncode
    assert "compiler" in done.stderr
    assert "Traceback" not in done.stderr


def start_engine(folder: Path, *, sessions: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "kerneltui", "run", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        start_new_session=True,
        env=os.environ | {"KERNELTUI_SESSIONS": str(sessions)},
    )


def tree_of(sessions: Path, name: str) -> dict[str, Any]:
    done = kerneltui("show", name, "--json", KERNELTUI_SESSIONS=str(sessions))
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def wait_for(sessions: Path, name: str, done: int, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    for _ in range(240):
        tree = tree_of(sessions, name)
        if sum(1 for variant in tree["variants"] if variant["outcome"]) >= done or process.poll() is not None:
            return tree
        time.sleep(0.5)
    raise AssertionError("the engine made no progress in two minutes")


def leftovers(mark: str) -> list[str]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if mark in words or ("kerneltui.judge" in words and mark in words):
            found.append(words)
    return found


@pytest.mark.slow
def test_a_killed_engine_loses_nothing_and_goes_on(tmp_path: Path) -> None:
    sizes = ["--size", "ROWS=64", "--size", "WIDTH=2048", "--rounds", "1", "--ideas", "2", "--variants", "1"]
    sizes += ["--budget-evaluations", "8"]
    made = kerneltui(
        "new", "softmax", "--device", "cpu", "--name", "s", "--no-check", *sizes, KERNELTUI_SESSIONS=str(tmp_path)
    )
    assert 0 == made.returncode, made.stderr
    engine = start_engine(tmp_path / "s", sessions=tmp_path)
    before = wait_for(tmp_path, "s", 2, engine)
    family = psutil.Process(engine.pid).children(recursive=True)
    os.kill(engine.pid, signal.SIGKILL)
    engine.wait()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert [] == [process.cmdline() for process in alive], "processes outlived their engine"
    assert "gone" == tree_of(tmp_path, "s")["state"]
    done = kerneltui("run", str(tmp_path / "s"), KERNELTUI_SESSIONS=str(tmp_path))
    assert 0 == done.returncode, done.stdout + done.stderr
    after = tree_of(tmp_path, "s")
    judged = {variant["id"]: variant["outcome"] for variant in before["variants"] if variant["outcome"]}
    assert judged == {v["id"]: v["outcome"] for v in after["variants"] if v["id"] in judged}
    assert "finished" == after["state"]
    assert [] == leftovers(str(tmp_path))


@pytest.mark.slow
def test_the_demo_searches_verifies_and_says_how_it_compares(tmp_path: Path) -> None:
    done = kerneltui("demo", "--headless", "--device", "cpu", KERNELTUI_SESSIONS=str(tmp_path))
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "as fast as the simple starter" in done.stdout
    assert "PyTorch" in done.stdout
    assert "for CUDA kernels:" in done.stderr
    (session,) = [path.name for path in tmp_path.iterdir()]
    tree = tree_of(tmp_path, session)
    correct = [variant for variant in tree["variants"] if variant["outcome"] == "correct"]
    assert {0, 1, 2, 3} == {variant["round"] for variant in correct}  # the starters are round 0
    starters = [variant["median_us"] for variant in correct if variant["kind"] == "starter"]
    best = next(variant for variant in tree["variants"] if variant["id"] == tree["best"])
    assert best["median_us"] < min(starters)
    exported = kerneltui("export", session, "best", "--to", str(tmp_path / "out"), KERNELTUI_SESSIONS=str(tmp_path))
    assert 0 == exported.returncode, exported.stderr
    check_exported(tmp_path / "out")


def check_exported(folder: Path) -> None:
    """A ten-line program of its own compiles and calls the winner."""
    (folder / "main.cpp").write_text(
        '#include "softmax.h"\n#include <cstdio>\n#include <cstdlib>\n#include <cmath>\n'
        "int main() {\n"
        "  const long n = TOTAL;\n"
        "  float* x = (float*)std::aligned_alloc(64, n * 4); float* y = (float*)std::aligned_alloc(64, n * 4);\n"
        "  for (long i = 0; i < n; ++i) x[i] = (float)(i % 7);\n"
        "  void* w = std::aligned_alloc(64, 1 << 26);\n"
        "  int rc = softmax(x, y, w); double sum = 0; for (long i = 0; i < n; ++i) sum += y[i];\n"
        '  std::printf("%d %ld", rc, std::lround(sum)); }\n'
    )
    told = json.loads((folder / "softmax_provenance.json").read_text())
    rows, columns = next(tensor["shape"] for tensor in told["tensors"] if tensor["name"] == "x")
    build = ["g++", "-O2", "-march=native", "-fopenmp", "-std=c++20", f"-DTOTAL={rows * columns}L"]
    subprocess.run([*build, "main.cpp", "softmax.cpp", "-o", "main"], cwd=folder, check=True)
    assert f"0 {rows}" == subprocess.run(["./main"], cwd=folder, capture_output=True, text=True).stdout
