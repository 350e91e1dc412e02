"""Remarks on a built library: what it imports, exports, runs when loaded, and keeps on the device.

Text can be written in a thousand ways; an import is an import. Code that walks the loader's own tables needs none, so
this is a strong filter and no proof.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kerneltui.evaluator.elf import SHF_EXECINSTR, Elf, NotElf, Symbol, read_elf
from kerneltui.evaluator.findings import Finding
from kerneltui.records import Contract, Language, Policy

MATH = (
    r"(a?(sin|cos|tan)h?|a?(sin|cos|tan)pi|atan2|exp(2|10|m1)?|log(10|2|1p|b)?|pow(10|i)?|sqrt|rsqrt|cbrt|rcbrt|hypot|erfc?|"
    r"[lt]gamma|lgamma|floor|ceil|l?l?round(even)?|trunc|l?l?rint|nearbyint|fabs|fm(od|ax|in|a)|fdim|remainder|remquo|"
    r"copysign|nextafter|nexttoward|ldexp|frexp|modf|scalbl?n|ilogb|nan|sincos|[jy][01n]|significand|drem|"
    r"c(abs|arg|exp|log|pow|sqrt|real|imag|sinh?|cosh?|tanh?|asin|acos|atan))(f|l|f16|f32|f64|f128)?"
)
# Whole names. Memory, text and maths of the C library; what compilers emit by themselves.
ALLOWED = re.compile(
    "|".join(
        (
            rf"{MATH}|__{MATH}(_finite)?|_ZGV[a-z]\w*|__(signbit|isnan|isinf|finite|fpclassify|issignaling)[fl]?|signgam",
            r"(__)?(mem(cpy|move|set|cmp|chr|rchr|mem)|str(len|nlen|cmp|ncmp|cpy|ncpy|cat|ncat|chr|rchr|str|spn|cspn))(_chk)?",
            r"malloc|calloc|realloc|free|aligned_alloc|memalign|posix_memalign|_mm_malloc|_mm_free|abs|labs|llabs|qsort|bsearch",
            r"(__)?v?sn?printf(_chk)?|strto(l|ll|ul|ull|f|d|ld)|ato[filq]+|s?rand(_r)?|abort|__assert_fail|__errno_location|fe[a-z]+(except|round|env|\w*flag)",
            r"__stack_chk_fail|__cxa_\w+|_Unwind_\w+|__gxx_personality_\w+|__gcc_personality_v0|__gmon_start__|_ITM_\w+|"
            r"__register_frame\w*|__deregister_frame\w*|__tls_get_addr|__dso_handle|_GLOBAL_OFFSET_TABLE_|__fortify_fail|__libc_single_threaded",
            r"__(add|sub|mul|div|neg|mod|umod|udiv|udivmod|fix|fixuns|float|floatun|floatuns|ext(end)?|trunc|eq|ne|lt|le|gt|ge|unord|"
            r"cmp|ucmp|ashl|ashr|lshr|pow|popcount|parity|clz|ctz|ffs|bswap|absv|addv|subv|mulv|negv)[a-z]{2,6}\d?|__cpu_(model|indicator_init)",
            r"GOMP_(parallel(_loop_(?!\w*start)\w+|_sections|_reductions)?|loop_\w+|barrier(_cancel)?|critical(_name)?_(start|end)|"
            r"atomic_(start|end)|sections2?_\w+|single_(start|copy_start|copy_end)|task\w*|ordered_(start|end)|doacross_\w+|"
            r"workshare_task_reduction_unregister|scope_start|cancel|cancellation_point|masked\w*)|omp_(get_(thread_num|num_threads|max_threads|num_procs|level|active_level|dynamic|nested|num_places|"
            r"place_num|proc_bind|team_num|num_teams)|in_parallel|set_num_threads|set_dynamic|(init|destroy|set|unset|test)_(nest_)?lock)|__kmpc_\w+",
            r"_Zn[wa]m\w*|_Zd[la]Pv\w*|_ZSt\d+__throw_\w+|_ZSt(7nothrow|9terminatev|17rethrow_exception\w*|18uncaught_exceptionv)|"
            r"_ZSt(18_Rb_tree|28_Rb_tree|29_Rb_tree)\w+|_ZNSt8__detail\w+|_ZNKSt8__detail\w+|_ZNK?St7__cxx1112basic_string\w+|_ZNSt7__cxx1119basic_ostringstream\w+|"
            r"_ZNK?St\d*(exception|bad_alloc|bad_cast|bad_array_new_length|logic_error|runtime_error|length_error|out_of_range|invalid_argument|domain_error|range_error|overflow_error|underflow_error)\w*|"
            r"_ZNSt\d*(bad_\w+)\w*|_ZT[ISV](St|NSt|N10__cxxabiv1|[a-z]|P[a-zK]).*|_ZS[abodis]\w*|_ZSt11_Hash_bytes\w+|_ZSt15_Fnv_hash_bytes\w+|_ZSt\d+__glibcxx_assert_fail\w+",
        )
    )
)
OUTPUT = re.compile(
    r"(__)?(v?printf|v?fprintf|puts|fputs|fputc|putchar|putc|fwrite|fflush|perror|stdout|stderr)(_chk)?|_ZSt4c(out|err|log)|"
    r"_ZNSo\w+|_ZStlsI\w+|_ZNSt8ios_base\w+|_ZNK?St9basic_ios\w+|_ZNK?St5ctype\w+|_ZSt16__ostream_insert\w+|_ZSt4endl\w+|_ZSt5flush\w+|"
    r"_ZNSt6locale\w+|_ZNSt15basic_streambuf\w+|_ZNSt7__cxx1115basic_stringbuf\w+|_ZNSt\d+\w*stream\w*|_ZT[TV]N?St\w+|_ZNSolsE\w+"
)
CUDA_ALLOWED = re.compile(
    r"__cuda(Register|Unregister)\w+|__cuda(Push|Pop)CallConfiguration|__cuda(LaunchKernel|GetKernel|InitModule)\w*|"
    r"cudaLaunch(Kernel|KernelExC|CooperativeKernel)(_ptsz)?|cuda(GetLastError|PeekAtLastError|GetErrorString|GetErrorName)|"
    r"cudaFunc(Set|Get)\w+|cudaOccupancy\w+|cudaGetDevice|cudaGetDeviceProperties\w*|cudaDeviceGet(Attribute|Limit|DefaultMemPool)|"
    r"cuda(Runtime|Driver)GetVersion|cudaMem(set|cpy)(2D|3D)?Async(_ptsz)?|cudaMemcpy(To|From)SymbolAsync(_ptsz)?|"
    r"cuda(Malloc|Free)Async(_ptsz)?|cudaMallocFromPoolAsync(_ptsz)?|cudaMemPool(Set|Get)Attribute|"
    r"cudaGetDriverEntryPoint\w*|cudaGetSymbol(Address|Size)|cudaGetFuncBySymbol|cudaStreamIsCapturing(_ptsz)?|cudaCreateChannelDesc|"
    r"cuda(Create|Destroy)(Texture|Surface)Object\w*|"
    r"exit"  # nvcc puts a call into the host half of device functions; in the source it is refused
)
CUDA_NOTED = re.compile(
    r"cuda(Malloc|Free|MallocManaged|MallocHost|FreeHost|HostAlloc|MallocPitch|Malloc3D|MemPrefetchAsync\w*|MemAdvise\w*)|"
    r"cuda(DeviceSynchronize|StreamSynchronize|SetDevice|GetDeviceCount|MemGetInfo)(_ptsz)?|"
    r"cudaMem(cpy|set)(2D|3D)?(_ptds)?|cudaMemcpy(To|From)Symbol(_ptds)?"
)
LIBRARIES = re.compile(r"(cublas|cublasLt|cudnn|cusparse|cufft|cusolver|curand)\w+")
STANDARD_TEMPLATES = re.compile(r"_Z(T[ISV])?(N|NK|St|S)?(St|9__gnu_cxx|10__cxxabiv1|4cuda|S[a-z]).*|_ZGVNSt.*")
KNOWN_EXPORTS = re.compile(r"_(init|fini)|__bss_start|_edata|_end|__cudart\w*")
IFUNC = 10
# Every library has frame_dummy; nvcc adds one that registers its kernels; one more comes from <iostream> before GCC 13.
ENTRIES = {Language.CPP: 1, Language.CUDA: 2, Language.PYTHON: 0}
IOSTREAM = "_ZNSt8ios_base4InitC1Ev"
OWN_CALL = "the library has a system call of its own"
SYSCALL = b"\x0f\x05"
# `mov eax, number`, `mov rax, number`, `push number; pop rax`, `xor eax, eax`: how a system call's number is set.
NUMBER_SET = re.compile(
    rb"\xb8[\x00-\xff][\x00-\x02]\x00\x00|\x48\xc7\xc0[\x00-\xff][\x00-\x02]\x00\x00|\x6a[\x00-\xff]\x58|\x31\xc0", re.S
)
WINDOW_BYTES = 48


def binary_findings(library: bytes, cubin: bytes | None, contract: Contract, policy: Policy) -> list[Finding]:
    """Remarks on a library and, where there is one, the device code in it."""
    try:
        elf = read_elf(library)
        device = read_elf(cubin) if cubin is not None else None
    except NotElf as error:
        return [_refuse(f"the built library cannot be read: {error}")]
    return [
        *_imports(elf, contract, policy),
        *_exports(elf, contract),
        *_run_when_loaded(elf, contract),
        *_system_calls(elf),
        *(_device_globals(device) if device else ()),
    ]


def _refuse(reason: str) -> Finding:
    return Finding(line=None, reason=reason, refused=True)


def _note(reason: str) -> Finding:
    return Finding(line=None, reason=reason, refused=False)


def _imports(elf: Elf, contract: Contract, policy: Policy) -> Iterator[Finding]:
    cuda = contract.language is Language.CUDA
    for name in sorted({symbol.name for symbol in elf.dynamic if symbol.section == 0 and symbol.name}):
        if ALLOWED.fullmatch(name) or (cuda and CUDA_ALLOWED.fullmatch(name)):
            continue
        if OUTPUT.fullmatch(name):
            yield _note(f"the library imports {name}: output is thrown away")
        elif cuda and CUDA_NOTED.fullmatch(name):
            yield _note(f"the library imports {name}")
        elif not (policy.library_calls and LIBRARIES.fullmatch(name)):
            yield _refuse(f"the library imports {name}, which kernels have no need of")


def _exports(elf: Elf, contract: Contract) -> Iterator[Finding]:
    ours = {contract.function, f"{contract.function}_workspace"}
    for symbol in elf.dynamic:
        if not symbol.is_exported or symbol.name in ours or KNOWN_EXPORTS.fullmatch(symbol.name):
            continue
        if symbol.kind == IFUNC:
            yield _refuse(f"the library chooses {symbol.name} when it is loaded (ifunc)")
        elif _stands_in(symbol):
            yield _refuse(f"the library exports {symbol.name}, in place of the real one")
        elif not STANDARD_TEMPLATES.fullmatch(symbol.name):
            yield _note(f"the library exports {symbol.name} beside the contract's function")


def _stands_in(symbol: Symbol) -> bool:
    """Whether an export would be taken for a function of C, CUDA or Python by others in the process."""
    plain = not symbol.name.startswith("_Z")
    return plain and bool(
        ALLOWED.fullmatch(symbol.name)
        or OUTPUT.fullmatch(symbol.name)
        or re.match(r"_*cu(da)?[A-Z]|Py[A-Z]|dl|pthread_|nvml|clock|_?exit", symbol.name)
    )


def _run_when_loaded(elf: Elf, contract: Contract) -> Iterator[Finding]:
    entries = sum(
        section.size // 8 for section in elf.sections if section.name in (".init_array", ".ctors", ".preinit_array")
    )
    extra = entries - ENTRIES[contract.language]
    if extra == 1 and any(symbol.name == IOSTREAM for symbol in elf.dynamic):
        yield _note("<iostream> runs code when the library is loaded")
    elif extra > 0:
        yield _refuse(
            "the library runs code when it is loaded: no global objects with constructors, no initialisers that call"
        )


def _system_calls(elf: Elf) -> Iterator[Finding]:
    for section in elf.sections:
        if not section.flags & SHF_EXECINSTR:
            continue
        for position in _positions(section.data, SYSCALL):
            before = section.data[max(0, position - WINDOW_BYTES) : position]
            if NUMBER_SET.search(before):
                yield _refuse(f"{OWN_CALL} (at {section.name}+{position:#x})")
            else:
                yield _note(
                    f"the bytes of a system call stand at {section.name}+{position:#x}, perhaps within another instruction"
                )


def may_be_chance(finding: Finding) -> bool:
    """Whether it rests on two bytes that another layout of the same code may not have."""
    return finding.reason.startswith(OWN_CALL)


def _positions(data: bytes, wanted: bytes) -> Iterator[int]:
    position = data.find(wanted)
    while position >= 0:
        yield position
        position = data.find(wanted, position + 1)


def _device_globals(device: Elf) -> Iterator[Finding]:
    globals_ = [
        (index, section)
        for index, section in enumerate(device.sections)
        if section.name in (".nv.global", ".nv.global.init")
    ]
    size = sum(section.size for _, section in globals_)
    if size:
        indices = {index for index, _ in globals_}
        names = [symbol.name for symbol in device.symbols if symbol.section in indices and symbol.kind == 1][:5]
        yield _note(f"{size} bytes of device variables outlive a launch: {', '.join(names)}")
