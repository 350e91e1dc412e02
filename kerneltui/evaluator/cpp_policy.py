"""Remarks on C++ and CUDA source, by its tokens.

Names that only a cheat needs are refused wherever they stand; names that honest code also uses as its own (`open`,
`read`, `time`) are notes here and judged in the binary, where an import is an import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kerneltui.evaluator.findings import Finding
from kerneltui.evaluator.tokens import Token, directive_lines, matching, tokens, unquoted
from kerneltui.records import Candidate, Language, Policy

# (pattern of the whole header name, reason)
REFUSED_HEADERS = (
    (r"(torch|ATen|c10|caffe2|pybind11)/.*|Python\.h", "no framework headers: the contract needs plain C++ only"),
    (r"p?threads?(\.h)?|jthread|future|stop_token|barrier|latch|semaphore(\.h)?|threads\.h", "no threads of your own"),
    (r"dlfcn\.h|link\.h|elf\.h|gnu/lib-names\.h", "no loading of other libraries"),
    (r"sys/(?!types\.h|cdefs\.h).*|unistd\.h|fcntl\.h|spawn\.h|sched\.h|poll\.h|ucontext\.h", "no system calls"),
    (r"c?signal(\.h)?|c?setjmp(\.h)?", "no signal handlers"),
    (r"fstream|filesystem|experimental/filesystem|dirent\.h|ftw\.h|glob\.h|aio\.h", "no files"),
    (r"(net|netinet|arpa|linux|asm|rpc)/.*|netdb\.h|ifaddrs\.h", "no network, no kernel interfaces"),
    (r"cuda_profiler_api\.h|cupti.*|nvml\.h|nvrtc\.h|nvJitLink\.h|cudaEGL.*|cuda_egl.*", "no other CUDA services"),
)
LIBRARY_HEADERS = re.compile(
    r"(cublas|cublasLt|cublas_v2|cudnn|cusparse|cufft|cufftw|curand|cusolver|nvblas|cblas|mkl|dnnl|oneapi|Eigen)\b.*|"
    r"cutlass/(gemm|conv|reduction)/device/.*|thrust/(?!complex).*"
)
NOTED_HEADERS = (
    (r"iostream|cstdio|stdio\.h|print", "output to the screen is thrown away"),
    (r"c?time(\.h)?|chrono", "the clock is the judge's"),
    (r"mutex|shared_mutex|condition_variable", "locks have no use in one call"),
)
# Refused wherever the name stands.
REFUSED_NAMES = (
    (r"popen|pclose|vfork|posix_spawnp?|exec[lv]p?e?|execvpe|fexecve|clone3", "starts programs"),
    (
        r"dlopen|dlmopen|dlv?sym|dladdr1?|dl_iterate_phdr|dlinfo|_dl_\w+|_r_debug|__libc_\w+",
        "reaches into other libraries",
    ),
    (r"ptrace|process_vm_(readv|writev)|prctl|seccomp|personality|unshare|setns", "reaches into other processes"),
    (r"mprotect|mremap|pkey_\w+|memfd_create|shm_open|shmget|shmat|userfaultfd", "changes the memory of the process"),
    (r"pthread_\w+|thrd_create|__kmpc_fork_\w+", "starts threads"),
    (r"sigaction|sigaltstack|setitimer|timer_create|siglongjmp|sigsetjmp", "handles signals"),
    (r"fopen(64)?|freopen|fdopen|tmpfile|mkstemp|openat2?|opendir", "opens files"),
    (r"setenv|putenv|unsetenv|clearenv|__environ|secure_getenv|program_invocation_name", "reads its surroundings"),
    (
        r"clock_gettime|gettimeofday|timespec_get|omp_get_wtime|omp_get_wtick|nanosleep|usleep|sleep_(for|until)",
        "uses a clock",
    ),
    (r"__rdtscp?|_rdtsc|__builtin_ia32_rdtscp?|__builtin_ia32_rdpmc|_rdpmc", "uses a clock"),
    (r"atexit|at_quick_exit|on_exit|__cxa_atexit|__cxa_thread_atexit\w*", "leaves code to be run later"),
    (
        r"cu(da)?Stream(Create\w*|Destroy\w*|BeginCapture\w*|EndCapture\w*|UpdateCaptureDependencies\w*)",
        "makes streams of its own",
    ),
    (r"cudaStreamPerThread|cudaStreamLegacy|CU_STREAM_(LEGACY|PER_THREAD)", "launch on the stream you were given"),
    (
        r"cu(da)?Stream(SetAttribute|CopyAttributes|AddCallback|AttachMemAsync|WaitValue\w*|WriteValue\w*|BatchMemOp\w*)",
        "changes its stream",
    ),
    (r"cu(da)?Graph[A-Z]\w*", "makes graphs of its own"),
    (r"cu(da)?Event(Create\w*|Record\w*|ElapsedTime\w*|Synchronize|Query)", "makes events of its own"),
    (r"cu(da)?(LaunchHostFunc\w*|LaunchHostFn)", "runs host code behind kernels"),
    (
        r"cudaDevice(SetLimit|Reset|SetCacheConfig|SetMemPool)|cuCtx[A-Z]\w*|cudaCtxResetPersistingL2Cache|cuDevicePrimaryCtx\w*",
        "changes the state of the device",
    ),
    (
        r"cudaInitDevice|cudaSetDeviceFlags|cudaDeviceEnablePeerAccess|cudaSetValidDevices",
        "changes the state of the device",
    ),
    (
        r"cu(da)?Ipc[A-Z]\w*|cuMem(Export|Import|Map|Create|SetAccess|Unmap)\w*|cu(da)?ImportExternal\w*",
        "reaches memory that is not lent",
    ),
    (r"cu(da)?PointerGetAttributes?|cuMemGetAddressRange\w*", "asks about memory that is not its own"),
    (
        r"cuLink\w+|cuModule\w+|cuLibrary\w+|cudaLibrary\w+|nvrtc\w+|cupti\w+|cuGetProcAddress\w*|nvml\w+",
        "loads code at run time",
    ),
    (r"cudaProfiler(Start|Stop)", "uses the profiler"),
)
# Refused where it is called, declared or defined in a macro: `name(`.
REFUSED_CALLS = (
    (r"system|fork|daemon|clone", "starts programs"),
    (r"syscall|mmap|mmap64|munmap|brk|sbrk|kill|tgkill", "calls the system"),
    (r"socket|sendto|recvfrom|getaddrinfo", "uses the network"),
    (r"signal|alarm|raise", "handles signals"),
    (r"unlink|rename|truncate", "changes files"),
    (r"getenv", "reads its surroundings"),
    (r"exit|_exit|_Exit|quick_exit", "ends the process"),
)
STD_MEMBERS = (
    (r"thread|jthread|async|packaged_task|promise|this_thread", "starts threads"),
    (r"chrono", "uses a clock"),
    (r"filesystem|ifstream|ofstream|fstream", "opens files"),
)
NOTED_NAMES = (
    (r"clock|clock64|__nanosleep|globaltimer", "reads a clock on the device"),
    (
        r"cudaMalloc|cudaFree|cudaMallocManaged|cudaMallocHost|cudaHostAlloc|cudaMallocPitch",
        "allocates in the call: use the workspace",
    ),
    (r"cudaDeviceSynchronize|cudaStreamSynchronize|cudaThreadSynchronize", "waits in the call: it cannot be captured"),
    (
        r"cudaMemcpy|cudaMemset|cudaMemcpyToSymbol|cudaMemcpyFromSymbol|cudaMemcpy2D",
        "works on the default stream: use the Async form",
    ),
    (r"cudaSetDevice", "the device is set already"),
    (r"cudaAccessPropertyPersisting|CU_ACCESS_PROPERTY_PERSISTING", "keeps lines in L2"),
    (
        r"omp_set_num_threads|num_threads|omp_set_dynamic",
        "sets its number of threads: both sides are timed with the same",
    ),
)
LIBRARY_NAMES = re.compile(r"(cublas|cublasLt|cudnn|cusparse|cufft|cusolver|curandGenerat|cblas_|mkl_|dnnl)\w*")
REFUSED_ATTRIBUTES = re.compile(
    r"_*(constructor|destructor|init_priority|ifunc|section|alias|weakref|symver|naked|used_section)_*"
)
REFUSED_PRAGMAS = re.compile(r"weak|redefine_extname|comment|init_seg|init")
CLOCK_ASM = re.compile(r"%?(globaltimer|clock(64|_hi)?\b)|\brdtscp?\b|\brdpmc\b|cntvct", re.I)
SYSTEM_ASM = re.compile(r"\b(syscall|sysenter|svc|int\s+\$?0x80|vmcall|wrpkru|rdfsbase|wrfsbase|wrgsbase)\b", re.I)
FILE_ASM = re.compile(r"\.\s*(incbin|include)\b", re.I)
RAW_ASM = re.compile(
    r"\.\s*(byte|2byte|4byte|8byte|short|long|quad|octa|ascii|asciz|string|section|pushsection|init_array|symver|weak|globl|global|type|set|equ|macro|rept|irp|altmacro)\b",
    re.I,
)
ASM = {"asm", "__asm__", "__asm"}
SUSPICIOUS_PATH = re.compile(r"^/(proc|dev|etc|sys|home|root|tmp|var)\b|LD_PRELOAD|lib(cuda|cudart|c|dl|torch\w*)\.so")


def cpp_findings(candidate: Candidate, policy: Policy) -> list[Finding]:
    """Remarks on one source."""
    found = tokens(candidate.source)
    lines = directive_lines(found)
    cuda = candidate.language is Language.CUDA
    return [
        *_headers(lines, policy),
        *_names(found, policy),
        *_pasted(found, lines, policy),
        *_attributes(found),
        *_assembly(found, cuda),
        *_pragmas(found, lines),
        *_strings(found),
        *(_launches(found) if cuda else ()),
        *_defines(candidate, policy),
    ]


def _refuse(line: int | None, reason: str) -> Finding:
    return Finding(line=line, reason=reason, refused=True)


def _note(line: int | None, reason: str) -> Finding:
    return Finding(line=line, reason=reason, refused=False)


# --------------------------------------------------------------------------- headers


def _headers(lines: list[list[Token]], policy: Policy) -> Iterator[Finding]:
    for line in lines:
        if not line:
            continue
        first = line[0]
        if first.directive in ("include", "include_next", "import", "embed"):
            yield from _header(first.directive, _header_name(line), first.line, policy)
        for index, token in enumerate(line):
            if token.text in ("__has_include", "__has_embed", "__has_include_next"):
                yield from _path(_header_name(line[index + 2 :]) or "", token.line)


def _header_name(line: list[Token]) -> str | None:
    """The name between <> or quotes; None when a macro hides it."""
    if line and line[0].kind == "string":
        return unquoted(line[0])
    if line and line[0].text == "<":
        texts = [token.text for token in line[1:]]
        return "".join(texts[: texts.index(">")]) if ">" in texts else None
    return None


def _header(directive: str, name: str | None, line: int, policy: Policy) -> Iterator[Finding]:
    if directive == "embed":
        yield _refuse(line, "#embed takes a file into the library")
    if name is None:
        yield _refuse(line, f"#{directive} hides its file behind a macro")
        return
    yield from _path(name, line)
    for pattern, reason in REFUSED_HEADERS:
        if re.fullmatch(pattern, name):
            yield _refuse(line, f"#include <{name}>: {reason}")
    for pattern, reason in NOTED_HEADERS:
        if re.fullmatch(pattern, name):
            yield _note(line, f"#include <{name}>: {reason}")
    if LIBRARY_HEADERS.fullmatch(name) and not policy.library_calls:
        yield _refuse(line, f"#include <{name}>: this session wants kernels, not library calls")


def _path(name: str, line: int) -> Iterator[Finding]:
    if name.startswith(("/", "~")) or ".." in name.split("/"):
        yield _refuse(line, f'"{name}" reaches outside the build folder')


# --------------------------------------------------------------------------- names


def _names(found: list[Token], policy: Policy) -> Iterator[Finding]:
    for index, token in enumerate(found):
        if token.kind != "word" or token.directive in ("include", "include_next"):
            continue
        before = found[index - 1].text if index else ""
        after = found[index + 1].text if index + 1 < len(found) else ""
        member = before in (".", "->")
        yield from _name(token, policy, called=not member and (after == "(" or token.directive == "define"))
        if before == "::" and index > 1 and found[index - 2].text == "std":
            yield from _first(STD_MEMBERS, token.text, token.line, f"std::{token.text}", True)


def _name(token: Token, policy: Policy, *, called: bool) -> Iterator[Finding]:
    text, line = token.text, token.line
    yield from _first(REFUSED_NAMES, text, line, text, True)
    if called:
        yield from _first(REFUSED_CALLS, text, line, text, True)
        yield from _first(NOTED_NAMES, text, line, text, False)
    if LIBRARY_NAMES.fullmatch(text) and not policy.library_calls:
        yield _refuse(line, f"{text}: this session wants kernels, not library calls")


def _first(
    rules: tuple[tuple[str, str], ...], name: str, line: int | None, shown: str, refused: bool
) -> Iterator[Finding]:
    for pattern, reason in rules:
        if re.fullmatch(pattern, name):
            yield Finding(line=line, reason=f"{shown}: {reason}", refused=refused)
            return


def _defines(candidate: Candidate, policy: Policy) -> Iterator[Finding]:
    for name, value in candidate.defines:
        for finding in _name(Token("word", value, 0), policy, called=True):
            yield Finding(line=None, reason=f"define {name}: {finding.reason}", refused=finding.refused)


# --------------------------------------------------------------------------- pasted names


def _pasted(found: list[Token], lines: list[list[Token]], policy: Policy) -> Iterator[Finding]:
    """Names that `##` builds: each use of a pasting macro is carried out, one level deep."""
    macros = {name: (parameters, body) for name, parameters, body in _pasting_macros(lines)}
    for index, token in enumerate(found[:-1]):
        if token.text not in macros or found[index + 1].text != "(" or _is_definition(found, index):
            continue
        arguments = _arguments(found[index + 1 : matching(found, index + 1) + 1])
        parameters, body = macros[token.text]
        for name in _paste(body, dict(zip(parameters, arguments, strict=False))):
            for finding in _name(Token("word", name, token.line), policy, called=True):
                yield Finding(line=finding.line, reason=f"{finding.reason} (pasted together)", refused=finding.refused)


def _is_definition(found: list[Token], index: int) -> bool:
    return found[index].directive == "define" and found[index - 1].text == "define"


def _pasting_macros(lines: list[list[Token]]) -> Iterator[tuple[str, list[str], list[Token]]]:
    for line in lines:
        if len(line) < 3 or line[0].directive != "define" or line[1].text != "(":
            continue
        close = matching(line, 1)
        body = line[close + 1 :]
        if any(token.text == "##" for token in body):
            yield line[0].text, [token.text for token in line[2:close] if token.kind == "word"], body


def _arguments(call: list[Token]) -> list[str]:
    """The texts between the brackets, split at commas of the first level."""
    arguments, depth = [""], 0
    for token in call[1:-1]:
        depth += (token.text in "([{") - (token.text in ")]}")
        if token.text == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += token.text
    return arguments


def _paste(body: list[Token], values: dict[str, str]) -> list[str]:
    names: list[str] = []
    joining = False
    for token in body:
        text = values.get(token.text, token.text)
        if token.text == "##":
            joining = True
        elif joining and names:
            names[-1] += text
            joining = False
        else:
            names.append(text)
    return names


# --------------------------------------------------------------------------- attributes, assembly, pragmas, strings


def _attributes(found: list[Token]) -> Iterator[Finding]:
    for index, token in enumerate(found[:-1]):
        if token.text in ("__attribute__", "__attribute") and found[index + 1].text == "(":
            inside = found[index + 1 : matching(found, index + 1)]
        elif token.text == "[[":
            inside = found[index : matching(found, index)]
        else:
            continue
        for word in inside:
            if word.kind == "word" and REFUSED_ATTRIBUTES.fullmatch(word.text):
                yield _refuse(word.line, f"attribute {word.text.strip('_')}: code must run only when it is called")


def _assembly(found: list[Token], cuda: bool) -> Iterator[Finding]:
    for index, token in enumerate(found):
        if token.text not in ASM:
            continue
        start = next((i for i in range(index, min(index + 6, len(found))) if found[i].text in "({"), None)
        inside = found[start : matching(found, start) + 1] if start is not None else []
        text = (
            "\n".join(unquoted(part) for part in inside if part.kind == "string")
            .replace("\\n", "\n")
            .replace("\\t", " ")
        )
        yield from _assembly_text(text, token.line, cuda)


def _assembly_text(text: str, line: int, cuda: bool) -> Iterator[Finding]:
    if CLOCK_ASM.search(text):
        yield _refuse(line, "assembly that reads a clock")
    if FILE_ASM.search(text):
        yield _refuse(line, "assembly that takes in a file")
    if not cuda and SYSTEM_ASM.search(text):
        yield _refuse(line, "assembly that calls the system")
    if not cuda and RAW_ASM.search(text):
        yield _refuse(line, f"assembly directive {RAW_ASM.search(text).group()}: instructions only")  # type: ignore[union-attr]
    for word in set(re.findall(r"[A-Za-z_]\w+", text)):
        yield from _first(REFUSED_NAMES, word, line, word, True)


def _pragmas(found: list[Token], lines: list[list[Token]]) -> Iterator[Finding]:
    for line in lines:
        if line and line[0].directive == "pragma" and REFUSED_PRAGMAS.fullmatch(line[0].text):
            yield _refuse(line[0].line, f"#pragma {line[0].text} changes how the library is linked")
    for index, token in enumerate(found[:-2]):
        if token.text == "_Pragma" and found[index + 2].kind == "string":
            word = unquoted(found[index + 2]).split()
            if word and REFUSED_PRAGMAS.fullmatch(word[0]):
                yield _refuse(token.line, f"_Pragma {word[0]} changes how the library is linked")


def _strings(found: list[Token]) -> Iterator[Finding]:
    texts = [(unquoted(token), token) for token in found if token.kind == "string" and token.directive != "include"]
    asks_driver = any(token.text.startswith("cudaGetDriverEntryPoint") for token in found)
    for text, token in texts:
        if SUSPICIOUS_PATH.search(text):
            yield _note(token.line, f"names {text[:60]!r}")
        if asks_driver and re.fullmatch(r"cu[A-Z]\w+", text) and not text.startswith("cuTensorMap"):
            yield _refuse(token.line, f"asks the driver for {text}")


def _launches(found: list[Token]) -> Iterator[Finding]:
    """`<<<grid, block>>>` without the stream: nothing of it would be timed."""
    for index, token in enumerate(found):
        if token.text == "<<<" and not token.directive:
            end = next((i for i in range(index, len(found)) if found[i].text == ">>>"), None)
            arguments = _arguments(found[index : end + 1]) if end else []
            if end and (len(arguments) < 4 or arguments[3] in ("0", "nullptr", "NULL")):
                yield _note(token.line, "launches on the default stream: launch on the stream you were given")
