from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from building import CPP_CONTRACT, CUDA_CONTRACT, CUDA_RELU, HAS_NVCC, RELU, cpp, cuda

from kerneltui.evaluator.binary_policy import ALLOWED
from kerneltui.evaluator.compile import Build, compile_library
from kerneltui.evaluator.devices import find_device, offline_cuda_device
from kerneltui.evaluator.policy import check_binary, check_source
from kerneltui.evaluator.tokens import tokens
from kerneltui.records import Candidate, Contract, Device, Language, Policy

POLICY = Policy()
KERNELS = Path(__file__).parents[1] / "kernels"
HEAD = '#include "contract.h"\n'


def refusals(candidate: Candidate, policy: Policy = POLICY) -> list[str]:
    return [finding.text for finding in check_source(candidate, policy) if finding.refused]


def notes(candidate: Candidate, policy: Policy = POLICY) -> list[str]:
    return [finding.text for finding in check_source(candidate, policy) if not finding.refused]


# --------------------------------------------------------------------------- tokens


def test_tokens_are_what_the_compiler_sees() -> None:
    source = 'int a = 1; // system(\n/* fork( */ auto s = R"x(dlopen(")x"; f\\\nork();\n'
    found = [(token.text, token.line) for token in tokens(source) if token.kind == "word"]
    assert found == [("int", 1), ("a", 1), ("auto", 2), ("s", 2), ("fork", 2)]


def test_lines_stay_right_behind_continued_lines_and_comments() -> None:
    source = "#define A \\\n  1 \\\n  + 2\n/* one\ntwo */ int x;\n"
    assert [(token.text, token.line) for token in tokens(source) if token.text in ("A", "2", "x")] == [
        ("A", 1),
        ("2", 3),
        ("x", 5),
    ]


@pytest.mark.parametrize(
    "source", ["", '"', "'", 'R"(', "/*", "#", "#define", "\\", "<<<", "[[", "f(", "\ud800", "é" * 10]
)
def test_damaged_source_is_read_to_its_end(source: str) -> None:
    assert isinstance(check_source(cpp(source), POLICY), list)
    assert isinstance(check_source(cuda(source), POLICY), list)


@pytest.mark.parametrize(
    "piece", ["<<<", "__attribute__((", "[[", "asm(", "a.", "P(", "#define P(a,b) a##b\n", 'R"(', "/*", "\\\n"]
)
def test_source_made_to_be_slow_is_read_in_time(piece: str) -> None:
    source = "#define P(a, b) a##b\n" + piece * (300_000 // len(piece))
    assert isinstance(check_source(cuda(source), POLICY), list)


def test_python_made_to_be_deep_is_read_or_refused() -> None:
    for source in ("x" + ".y" * 900, "x" + ".y" * 100_000, "(" * 150 + ")" * 150, "-" * 100_000 + "1"):
        found = check_source(Candidate(source=f"import torch\n{source} = 1\n", language=Language.PYTHON), POLICY)
        assert isinstance(found, list)


# --------------------------------------------------------------------------- what is refused, and its honest twin

CPP_CHEATS = [
    ("#include <torch/extension.h>", "#include <cmath>"),
    ("#include <thread>", "#include <omp.h>"),
    ("#include <dlfcn.h>", "#include <immintrin.h>"),
    ("#include <sys/mman.h>", "#include <cstring>"),
    ("#include <fstream>", "#include <algorithm>"),
    ('#include "/etc/passwd"', '#include "contract.h"'),
    ('#include "../other/answer.h"', "#include <array>"),
    ("#define F </etc/passwd>\n#include F", "#define F 3\n#include <numeric>"),
    ('#if __has_include("/root/.ssh/id_rsa")\n#endif', "#if __has_include(<cuda_bf16.h>)\n#endif"),
    ('const char d[] = {\n#embed "/etc/passwd"\n};', "const char d[] = {1};"),
    ("%:include <thread>", "%:include <vector>"),
    ('int f() { return system("id"); }', "template <class S> int f(S s, S* p) { return s.system(1) + p->system(2); }"),
    ("int f() { return fork(); }", "int f(int fork) { return fork + 1; }"),
    ('extern "C" int system(const char*);', "// extern int system(const char*);"),
    ('#define RUN system\nint f() { return RUN("id"); }', '#define RUN "system"\nconst char* f() { return RUN; }'),
    ("auto f = dlopen;", 'auto f = "dlopen";'),
    ("void f() { std::thread t; }", "void f() { my::thread t; }"),
    ("void f() { auto x = std::async(g); }", "void f() { int async = 1; }"),
    ("auto f() { return std::chrono::steady_clock::now(); }", "int chrono;"),
    ("void f() { syscall(39); }", "int syscalls(int); int f() { return syscalls(1); }"),
    ("void f() { mmap(0, 1, 1, 1, 1, 1); }", "int mmap_like = 1;"),
    ("long f() { return __builtin_ia32_rdtsc() + __rdtsc(); }", "float f(float x) { return __builtin_sqrtf(x); }"),
    ("double f() { return omp_get_wtime(); }", "int f() { return omp_get_max_threads(); }"),
    ('void f() { asm volatile("syscall" ::: "rcx"); }', 'void f() { asm volatile("vfmadd231ps %0, %1, %2" ::); }'),
    ('void f() { asm volatile("rdtsc"); }', 'void f() { asm volatile("prefetcht0 (%0)" ::); }'),
    ('asm(".incbin \\"/etc/passwd\\"");', 'void f() { asm volatile("" ::: "memory"); }'),
    ('void f() { asm(".byte 0x0f, 0x05"); }', 'void f() { asm("nop"); }'),
    ('int hidden(const char*) asm("dlopen");', 'int shown(const char*) asm("other_name");'),
    ("__attribute__((constructor)) void f() {}", "__attribute__((always_inline)) inline void f() {}"),
    ("[[gnu::constructor]] void f() {}", "[[gnu::always_inline]] inline void f() {}"),
    ("#pragma weak memcpy = mine", "#pragma GCC unroll 8"),
    ('#define P(a, b) a##b\nint f() { return P(sys, tem)("id"); }', "#define P(a, b) a##b\nint P(my, name) = 1;"),
    ('void f() { getenv("PHASE"); }', "void f() { int getenvs = 1; }"),
    ("void f() { exit(0); }", "template <class E> void f(E e) { e.exit(0); }"),
    ("void f() { setitimer(0, 0, 0); }", "int interval = 3;"),
    ("void g() { cblas_sgemm(); }", "void sgemm(); void g() { sgemm(); }"),
]


@pytest.mark.parametrize(("cheat", "twin"), CPP_CHEATS)
def test_a_cheat_is_refused_and_its_honest_twin_passes(cheat: str, twin: str) -> None:
    assert refusals(cpp(HEAD + cheat)) != []
    assert refusals(cpp(HEAD + twin)) == []


CUDA_CHEATS = [
    ("cudaStream_t s; cudaStreamCreateWithFlags(&s, 1);", "cudaStream_t s = stream;"),
    ("k<<<1, 32, 0, cudaStreamPerThread>>>();", "k<<<1, 32, 0, stream>>>();"),
    ("cudaGraph_t g; cudaGraphCreate(&g, 0);", "cudaGraphicsLike g;"),
    ("cudaEventRecord(e, stream);", "record(event);"),
    ("cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20);", "cudaDeviceGetAttribute(&n, a, 0);"),
    ("cudaLaunchHostFunc(stream, f, 0);", "cudaLaunchKernelEx(&config, k, x);"),
    (
        "cudaStreamSetAttribute(stream, a, &v);",
        "cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, n);",
    ),
    ("cudaIpcOpenMemHandle(&p, h, 1);", "cudaMallocAsync(&p, n, stream); cudaFreeAsync(p, stream);"),
    ("cublasCreate(&h);", "cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, k, 256, 0);"),
    ("cudaDeviceReset();", "cudaGetLastError();"),
    (
        'asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));',
        'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;");',
    ),
    ('asm volatile("mov.u32 %0, %clock;" : "=r"(t));', 'asm volatile("wgmma.fence.sync.aligned;");'),
    ("#define S(x) cudaStream##x\nS(Create)(&s);", "#define S(x) cudaMem##x##Async\nS(set)(p, 0, n, stream);"),
    (
        'cudaGetDriverEntryPoint("cuStreamCreate", &f, 0, 0);',
        'cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &f, 0, 0);',
    ),
    ("nvrtcCompileProgram(p, 0, 0);", "cudaLaunchCooperativeKernel((void*)k, g, b, a, 0, stream);"),
]


@pytest.mark.parametrize(("cheat", "twin"), CUDA_CHEATS)
def test_a_cuda_cheat_is_refused_and_its_honest_twin_passes(cheat: str, twin: str) -> None:
    def launcher(body: str) -> str:
        return f"{HEAD}int f(cudaStream_t stream) {{\n{body}\nreturn 0; }}\n"

    assert refusals(cuda(launcher(cheat))) != []
    assert refusals(cuda(launcher(twin))) == []


def test_a_finding_names_line_and_reason() -> None:
    source = HEAD + "\n#include <thread>\nint f() {\n  return fork(); }\n"
    assert refusals(cpp(source)) == [
        "line 3: #include <thread>: no threads of your own",
        "line 5: fork: starts programs",
    ]


def test_clocks_on_the_device_default_stream_and_waits_are_notes() -> None:
    source = HEAD + "long f() { k<<<1, 32>>>(); cudaDeviceSynchronize(); return clock64(); }\n"
    assert refusals(cuda(source)) == []
    assert notes(cuda(source)) == [
        "line 2: cudaDeviceSynchronize: waits in the call: it cannot be captured",
        "line 2: clock64: reads a clock on the device",
        "line 2: launches on the default stream: launch on the stream you were given",
    ]


def test_libraries_pass_where_the_session_allows_them() -> None:
    source = HEAD + "#include <cublas_v2.h>\nvoid f() { cublasSgemm(); }\n"
    assert len(refusals(cuda(source))) == 2
    assert refusals(cuda(source), Policy(library_calls=True)) == []


@pytest.mark.parametrize("path", sorted(KERNELS.rglob("*.c[pu]*")), ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_shipped_kernels_pass(path: Path) -> None:
    language = Language.CUDA if path.suffix == ".cu" else Language.CPP
    assert check_source(Candidate(source=path.read_text(), language=language), POLICY) == []


# --------------------------------------------------------------------------- flags and defines


@pytest.mark.parametrize(
    "flag", ["@file", "-o", "-ccbin=/tmp/x", "-Xcompiler=-fplugin=x.so", "-fplugin=x.so", "-I/", "-include/etc/passwd",
             "-O3;id", "$(id)", "--use_fast_math`id`", "-Wl,-e,main", "-x", "", "-Xptxas=-o", "-march=native\n-o"],
)  # fmt: skip
def test_flags_that_reach_further_are_refused(flag: str) -> None:
    assert refusals(cpp(RELU, flags=(flag,))) == [f"compiler flag {flag!r} is not on the list of allowed flags"]
    assert refusals(cuda(CUDA_RELU, flags=(flag,))) == [f"compiler flag {flag!r} is not on the list of allowed flags"]


def test_honest_flags_pass() -> None:
    host = (
        "-O2",
        "-ffast-math",
        "-funroll-loops",
        "-mprefer-vector-width=512",
        "-fno-math-errno",
        "-ffp-contract=fast",
    )
    device = ("--use_fast_math", "-O3", "-maxrregcount=128", "-Xptxas=-dlcm=ca", "-Xptxas=-O3", "--fmad=false")
    assert refusals(cpp(RELU, flags=host)) == []
    assert refusals(cuda(CUDA_RELU, flags=device)) == []


def test_fast_maths_is_the_sessions_choice() -> None:
    strict = Policy(fast_math=False)
    assert refusals(cpp(RELU, flags=("-ffast-math",)), strict) == [
        "compiler flag '-ffast-math': this session does not allow fast maths"
    ]
    assert len(refusals(cuda(CUDA_RELU, flags=("--use_fast_math",)), strict)) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("X", "$(id)"), ("X", 'system("id")'), ("X", "1;2"), ("X Y", "1"), ("", "1"), ("__CUDA_ARCH__", "900"),
     ("return", "1"), ("X", "fork"), ("X", "dlopen"), ("X", "a b"), ("X", "`id`")],
)  # fmt: skip
def test_defines_are_plain_words(name: str, value: str) -> None:
    assert refusals(cpp(RELU, defines=((name, value),))) != []


def test_tunables_pass() -> None:
    defines = (("BLOCK", "256"), ("SCALE", "1.5e-3f"), ("TYPE", "float4"), ("UNROLL", ""), ("OFFSET", "-1"))
    assert refusals(cuda(CUDA_RELU, defines=defines)) == []


# --------------------------------------------------------------------------- binaries


def binary_texts(source: str, contract: Contract, device: Device, cache: Path) -> tuple[list[str], list[str]]:
    """(refusals, notes) on a library built with no policy on its source."""
    candidate = cuda(source) if contract is CUDA_CONTRACT else cpp(source)
    built = asyncio.run(compile_library(candidate, contract, device, cache=cache))
    assert isinstance(built, Build), built.message
    found = check_binary(built.library, contract, POLICY, cubin=built.cubin)
    return [f.text for f in found if f.refused], [f.text for f in found if not f.refused]


def with_extra(extra: str, call: str = "") -> str:
    return RELU.replace("#include <algorithm>\n", f"#include <algorithm>\n{extra}\n").replace(
        "return 0;", f"{call} return 0;"
    )


@pytest.mark.parametrize(
    ("extra", "call", "refused"),
    [
        ("#define P(a, b) a##b\n#define Q(a, b) P(a, b)\n#include <dlfcn.h>", 'Q(dl, open)("x", 1);', "imports dlopen"),
        ("#include <unistd.h>", "if (fork() == 0) setsid();", "imports fork"),
        ("#include <time.h>", "timespec t; clock_gettime(0, &t);", "imports clock_gettime"),
        ("#include <thread>", "std::thread([] {}).detach();", "imports _ZNSt6thread15_M_start_thread"),
        ('extern "C" int hidden(const char*) asm("system");', 'hidden("id");', "imports system"),
        ("__attribute__((constructor)) static void early() { *(volatile int*)&early; }", "", "runs code when it is loaded"),
        ("#include <cstdlib>\nstatic const int n = rand();", "out[0] = n;", "runs code when it is loaded"),
        ('extern "C" __attribute__((visibility("default"))) void* malloc(size_t) { return 0; }', "", "exports malloc"),
        (
            'static long raw(long n) { long r; asm volatile("syscall" : "=a"(r) : "0"(n) : "rcx", "r11", "memory"); return r; }',
            "raw(39);",
            "system call of its own",
        ),
    ],
)  # fmt: skip
def test_what_text_hides_the_binary_shows(extra: str, call: str, refused: str, tmp_path: Path) -> None:
    found, _ = binary_texts(with_extra(extra, call), CPP_CONTRACT, find_device("cpu"), tmp_path)
    assert [text for text in found if refused in text] != []


@pytest.mark.parametrize(
    ("extra", "call"),
    [
        ("", ""),
        ("#include <cmath>", "out[0] = std::exp(x[0]) + std::erf(x[1]) + std::pow(x[2], x[3]) + std::lgamma(x[4]);"),
        ("#include <vector>", "std::vector<float> v(x, x + N); std::sort(v.begin(), v.end()); out[0] = v[1];"),
        ("#include <memory>", "auto p = std::make_unique<float[]>(N); p[N / 2] = x[0]; out[0] = p[N / 2];"),
        ("#include <omp.h>", "out[0] = omp_get_max_threads();"),
        ("#include <cstdlib>\n#include <cstring>", "void* p = aligned_alloc(64, 4096); memcpy(p, x, 64); free(p);"),
        ("#include <string>\n#include <stdexcept>", 'if (x[0] > 1e30f) throw std::runtime_error(std::to_string(x[0]));'),
        ("#include <complex>", "out[0] = std::abs(std::complex<float>(x[0], x[1]) * std::complex<float>(x[2], x[3]));"),
        ("#include <atomic>", "static std::atomic<int> n; out[0] = n.fetch_add(1);"),
        ("#include <unordered_map>", "std::unordered_map<int, float> m; m[3] = x[0]; out[0] = m[3];"),
    ],
)  # fmt: skip
def test_honest_libraries_pass(extra: str, call: str, tmp_path: Path) -> None:
    assert binary_texts(with_extra(extra, call), CPP_CONTRACT, find_device("cpu"), tmp_path) == ([], [])


def test_printing_is_a_note(tmp_path: Path) -> None:
    source = with_extra("#include <cstdio>\n#include <iostream>", 'printf("%f", x[0]); std::cout << x[1] << std::endl;')
    refused, noted = binary_texts(source, CPP_CONTRACT, find_device("cpu"), tmp_path)
    assert refused == []
    assert "<iostream> runs code when the library is loaded" in noted


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "library.so").write_bytes(b"\x7fELF\x02\x01 and no more")
    assert [finding.refused for finding in check_binary(tmp_path / "library.so", CPP_CONTRACT, POLICY)] == [True]


needs_nvcc = pytest.mark.skipif(not HAS_NVCC, reason="no nvcc here")


@needs_nvcc
def test_an_honest_launcher_passes(tmp_path: Path) -> None:
    extra = "#include <cooperative_groups.h>\n#include <cuda_fp16.h>\n#include <mma.h>\n"
    assert binary_texts(extra + CUDA_RELU, CUDA_CONTRACT, offline_cuda_device(), tmp_path) == ([], [])


@needs_nvcc
def test_a_side_stream_pasted_together_is_seen_in_the_binary(tmp_path: Path) -> None:
    extra = "#define P(a, b) a##b\n#define Q(a, b) P(a, b)\n__device__ float kept[64];\n__global__ void keep(float* out) { kept[threadIdx.x] += 1; out[threadIdx.x] = kept[threadIdx.x]; }\n"
    call = "cudaStream_t mine; Q(cudaStream, CreateWithFlags)(&mine, 1); keep<<<1, 32, 0, mine>>>(out);"
    source = CUDA_RELU.replace("template", extra + "template").replace(
        "    return cuda", f"    {call}\n    return cuda"
    )
    refused, noted = binary_texts(source, CUDA_CONTRACT, offline_cuda_device(), tmp_path)
    assert refused == ["the library imports cudaStreamCreateWithFlags, which kernels have no need of"]
    assert noted == ["256 bytes of device variables outlive a launch: kept"]


# --------------------------------------------------------------------------- Python

MODULE = """import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
import triton
import triton.language as tl

@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.maximum(tl.load(x + i, mask=i < n), 0), mask=i < n)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(x.numel() + 255) // 256,](x, out, x.numel(), BLOCK=256)
        return out
"""


def module(change: str = "") -> Candidate:
    return Candidate(source=MODULE + change, language=Language.PYTHON)


def test_an_honest_module_passes() -> None:
    assert check_source(module(), POLICY) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("import subprocess", "starts programs"),
        ("from ctypes import CDLL", "reaches into memory"),
        ("import gc", "looks for objects of others"),
        ("import time", "uses a clock"),
        ("from reference import Model", "imports the reference"),
        ("from .reference import Model", "imports the reference"),
        ("import threading as t", "starts threads"),
        ("torch.allclose = lambda *a, **k: True", "assigns to torch.allclose"),
        ("torch.cuda.Event.elapsed_time = None", "assigns to torch.cuda.Event.elapsed_time"),
        ("setattr(torch, 'allclose', None)", "replaces parts of others"),
        ("exec('1')", "runs text as code"),
        ("getattr(torch, 'all' + 'close')", "computed name"),
        ("import sys\nsys._getframe(1)", "walks the frames"),
        ("import sys\nsys.modules['x'] = 1", "looks for objects"),
        ("s = torch.cuda.Stream()", "makes streams"),
        ("torch.backends.cuda.matmul.allow_tf32 = True", "assigns to torch.backends.cuda.matmul.allow_tf32"),
        ("class M(Model): pass", "inherits the reference"),
        ("open('/etc/passwd')", "uses files"),
        ("import base64", "hides what it runs"),
    ],
)
def test_a_module_that_reaches_out_is_refused(change: str, reason: str) -> None:
    assert [text for text in refusals(module(change)) if reason in text] != []


def test_fallbacks_and_library_operations_are_notes() -> None:
    change = "def f(x):\n    try:\n        return x\n    except RuntimeError:\n        return torch.matmul(x, x)\n"
    assert refusals(module(change)) == []
    assert notes(module(change)) == [
        "line 22: try/except: a kernel that fails must be seen to fail",
        "line 25: torch.matmul: a library operation instead of a kernel",
    ]


# --------------------------------------------------------------------------- found by attack


def test_a_function_of_ones_own_may_be_called_kill() -> None:
    assert [] == refusals(cpp(HEAD + "int f(int n) { auto kill = [](int i) { return i < 0; }; return kill(n); }\n"))
    assert [] == refusals(
        cpp(HEAD + "static float signal(float x) { return x; }\nfloat g(float x) { return signal(x); }\n")
    )
    assert refusals(cpp(HEAD + 'extern "C" int kill(int, int);\nint f() { return kill(1, 9); }\n'))


@pytest.mark.parametrize("text", [".byte 0x0f, 0x05", "syscall", "nop\\n.section .init_array", "{ .quad 1; }"])
def test_host_assembly_in_cuda_source_is_read_as_such(text: str) -> None:
    assert refusals(cuda(f'{HEAD}void f() {{ asm volatile("{text}"); }}\n'))


def test_device_assembly_has_its_own_dots() -> None:
    text = "{\\n.reg .pred p;\\nsetp.ne.b32 p, %1, 0;\\n.reg .b32 r;\\nld.weak.global.b32 r, [%0];\\n}"
    assert [] == refusals(cuda(f'{HEAD}__device__ void f() {{ asm volatile("{text}"); }}\n'))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('clock = torch.sys.modules["time"]', "reaches a module"),
        ("held = torch.jit.fork(torch.relu, torch.ones(1))", "starts or ends programs"),
        ('torch.relu.__dict__["x"] = 1', "replaces parts of others"),
    ],
)
def test_what_torch_holds_is_not_a_modules_to_use(line: str, words: str) -> None:
    source = f"import torch\n{line}\nclass ModelNew(torch.nn.Module):\n    pass\n"
    found = refusals(Candidate(source=source, language=Language.PYTHON))
    assert any(words in text for text in found), found


@pytest.mark.parametrize(
    "name",
    ["GOMP_parallel_start", "GOMP_parallel_loop_static_start", "GOMP_parallel_end", "GOMP_teams_reg", "GOMP_target"],
)
def test_openmp_functions_that_no_pragma_needs_are_not_imported(name: str) -> None:
    assert not ALLOWED.fullmatch(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "GOMP_parallel",
            "GOMP_parallel_loop_dynamic",
            "GOMP_parallel_sections",
            "GOMP_loop_nonmonotonic_dynamic_next",
        ),
        *("GOMP_loop_end_nowait", "GOMP_barrier", "GOMP_critical_name_start", "GOMP_atomic_end", "GOMP_sections_next"),
        *("GOMP_single_start", "GOMP_taskwait", "GOMP_taskloop_ull", "GOMP_ordered_start", "GOMP_parallel_reductions"),
    ],
)
def test_openmp_functions_of_pragmas_are_imported(name: str) -> None:
    assert ALLOWED.fullmatch(name)
