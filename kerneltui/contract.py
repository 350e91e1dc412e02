"""What the judge saw of a problem -> its C signature, contract.h, and the words for a prompt.

contract_from_description    dtypes, shapes and scalars -> Contract
c_name                       a problem's name as a C function
words, skeleton              the contract for a prompt; an empty kernel for an editor
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from math import prod
from typing import Any

from kerneltui.errors import ProblemError
from kerneltui.records import Contract, Language, Problem, TensorSpec, sha256

HALF_TYPES = {
    Language.CUDA: {"float16": "__half", "bfloat16": "__nv_bfloat16"},
    Language.CPP: {"float16": "_Float16", "bfloat16": "uint16_t"},
}
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
ROLES = {"inputs": "input", "parameters": "parameter", "buffers": "buffer", "outputs": "output"}
ALIGNMENT_BYTES = {Language.CUDA: 256, Language.CPP: 64}
MODULE_ONLY = "No C signature can say this, so only module candidates (a .py file with `ModelNew`) are possible here."

# C++ keywords, and what a source file may see of the C library, POSIX and CUDA: taken for functions of other types.
KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false final float for friend goto if inline int long
    module mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void volatile
    wchar_t while xor xor_eq linux unix NULL EOF INFINITY NAN I""",
    )
)
TAKEN = frozenset(
    re.findall(
        r"\w+",
        """abort abs accept access acos acosf acosh alarm alloca asctime asin asinf asinh assert atan atan2 atan2f atanf
    atanh atexit atof atoi atol atoll bind brk bsearch bcmp bcopy bzero calloc cbrt cbrtf ceil ceilf chdir chmod chown
    clock clone close connect copysign copysignf cos cosf cosh cospi creat ctime cyl_bessel_i0 cyl_bessel_i1 daemon
    difftime div double_t dup dup2 endian environ erf erfc erfcinv erfcx erff erfinv errno err error execl execv exit
    exp exp10 exp2 exp2f expf expm1 fabs fabsf fclose fdim feof ffs fgets fileno float_t floor floorf fma fmaf fmax
    fmaxf fmin fminf fmod fmodf fopen fork fprintf fputs fread free frexp fscanf fseek fstat ftell ftime fwrite gamma
    getc getchar getenv getopt getpid gets gettimeofday gmtime hypot index ilogb ioctl isalpha isdigit isfinite isinf
    isnan isspace j0 j1 jn kill labs ldexp ldiv lgamma link listen llabs lldiv llmax llmin llrint llround localtime
    log log10 log1p log2 log2f logb logf longjmp lrint lround lseek main malloc max memchr memcmp memcpy memmove memset
    min mkdir mktime mmap modf nan nanosleep nearbyint nextafter nice norm norm3d norm4d normcdf normcdfinv open pause
    perror pipe poll pow powf printf putc putchar puts qsort raise rand random rcbrt read realloc recv regex remainder
    remove remquo rename rewind rhypot rindex rint rnorm round roundf rsqrt rsqrtf scalb scalbln scanf select send
    setjmp signal signbit signgam significand sin sincos sinf sinh sinpi sleep snprintf socket sprintf sqrt sqrtf srand
    sscanf stat std stdin stdout stderr strcat strchr strcmp strcpy strlen sync syscall system tan tanf tanh tanhf
    tgamma time times timezone tmpfile tolower toupper trunc truncf umax umin uname ungetc unlink usleep vprintf wait
    warn write y0 y1 yn dim3 float2 float4 half half2 int2 int4 blockIdx blockDim gridDim threadIdx warpSize""",
    )
)
ARGUMENT_WORDS = frozenset({"workspace", "stream"})


# --------------------------------------------------------------------------- names


def c_name(name: str) -> str:
    """The C function of a problem: its own name if legal and free, else made legal plus 4 hex digits of its hash."""
    free = is_identifier(name) and name not in KEYWORDS | TAKEN | ARGUMENT_WORDS and name != "N"
    if free:
        return name
    legal = re.sub(r"_+", "_", re.sub(r"[^0-9A-Za-z]", "_", name)).strip("_")
    if not legal or legal[0].isdigit():
        legal = f"k{legal}"
    return f"{legal}_{sha256(name)[:4]}"


def is_identifier(name: str) -> bool:
    """A C identifier that the standard does not reserve."""
    return re.fullmatch(r"[A-Za-z][0-9A-Za-z_]*", name) is not None and "__" not in name


class Names:
    """Hands out C identifiers, each once: a name that is a keyword or given already gets trailing underscores."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)

    def take(self, name: str) -> str:
        legal = re.sub(r"[^0-9A-Za-z_]", "_", name.replace(".", "_")) or "x"
        if legal[0].isdigit():
            legal = f"t{legal}"
        while legal in KEYWORDS or legal in self.taken:
            legal += "_"
        self.taken.add(legal)
        return legal


# --------------------------------------------------------------------------- description -> contract


def contract_from_description(problem: Problem, description: Mapping[str, Any], language: Language) -> Contract:
    """The contract of what the judge saw when it ran the reference.

    `description` holds `inputs`, `parameters`, `buffers`, `outputs` (each a list of {name, dtype, shape}) and `scalars`
    ({name, value}), at the largest sizes; with symbolic sizes also `sizes`: the same per size set, each with `symbols`
    {NAME: value}.

    Raises:
        ProblemError: an output is no tensor, a dtype has no C type, or a dimension follows no symbolic size.
    """
    function = c_name(problem.name)
    names = Names({function, f"{function}_workspace", *ARGUMENT_WORDS})
    sets = description.get("sizes") or ()
    symbols = {symbol: names.take(symbol) for symbol in (sets[0]["symbols"] if sets else ())}
    tensors = tuple(read_tensors(problem, description, language, names, symbols))
    constants = scalar_constants(description.get("scalars", ()), names)
    constants += size_constants(tensors, names)
    contract = Contract(
        function=function, language=language, tensors=tensors, constants=constants, symbols=tuple(symbols.values())
    )
    return replace(contract, header=write_header(contract, problem))


def read_tensors(
    problem: Problem, description: Mapping[str, Any], language: Language, names: Names, symbols: Mapping[str, str]
) -> Iterable[TensorSpec]:
    if not description.get("outputs"):
        raise ProblemError(f"{problem.path}: the reference returned no tensor. {MODULE_ONLY}")
    for group, role in ROLES.items():
        for number, entry in enumerate(description.get(group, ())):
            name, dtype = str(entry["name"]), str(entry.get("dtype", "")).removeprefix("torch.")
            if dtype not in C_TYPES and dtype not in HALF_TYPES[language]:
                what = dtype or f"{entry.get('type', 'something')}, not a tensor"
                raise ProblemError(f"{problem.path}: {role} `{name}` is {what}. {MODULE_ONLY}")
            shape = tuple(int(size) for size in entry["shape"])
            yield TensorSpec(
                name=names.take(name),
                role=role,
                dtype=dtype,
                shape=shape,
                origin=name,
                symbols=tuple(follow(problem, description, symbols, (group, number, dim)) for dim in range(len(shape))),
            )


def follow(
    problem: Problem, description: Mapping[str, Any], symbols: Mapping[str, str], place: tuple[str, int, int]
) -> str | None:
    """The symbolic size that a dimension equals in every size set, or an expression of it; None if it never varies."""
    sets: Sequence[Mapping[str, Any]] = description.get("sizes") or ()
    group, number, dim = place
    entry = description[group][number]
    try:
        seen = [int(each[group][number]["shape"][dim]) for each in sets]
    except IndexError:
        raise ProblemError(
            f"{problem.path}: `{entry['name']}` changes its number of dimensions with the sizes. {MODULE_ONLY}"
        ) from None
    if len({*seen, int(entry["shape"][dim])}) == 1:
        return None
    columns = {symbols[name]: [int(each["symbols"][name]) for each in sets] for name in symbols}
    expression = find_expression(seen, columns)
    if expression is None:
        raise ProblemError(
            f"{problem.path}: dimension {dim} of `{entry['name']}` varies ({', '.join(map(str, seen))}) "
            f"but follows no symbolic size. {MODULE_ONLY}"
        )
    return expression


def find_expression(seen: Sequence[int], columns: Mapping[str, Sequence[int]]) -> str | None:
    """`B`, `2 * B`, `B + 3`, `B / 2` or `A * B`: the first that holds in every size set."""
    for name, values in columns.items():
        if seen == values:
            return name
    for name, values in columns.items():
        pairs = list(zip(seen, values, strict=True))
        if all(s % v == 0 and s // v == seen[0] // values[0] for s, v in pairs):
            return f"{seen[0] // values[0]} * {name}"
        if all(s > 0 and v % s == 0 and v // s == values[0] // seen[0] for s, v in pairs):
            return f"{name} / {values[0] // seen[0]}"
        if all(s - v == seen[0] - values[0] for s, v in pairs):
            return f"{name} {'+' if seen[0] > values[0] else '-'} {abs(seen[0] - values[0])}"
    for one, two in combinations_with_replacement(columns, 2):
        if all(s == a * b for s, a, b in zip(seen, columns[one], columns[two], strict=True)):
            return f"{one} * {two}"
    return None


# --------------------------------------------------------------------------- constants


def scalar_constants(scalars: Iterable[Mapping[str, Any]], names: Names) -> tuple[tuple[str, str, str], ...]:
    """(C type, name, literal) of numbers; tuples of numbers as name_0, name_1...; what is neither is left out."""
    found: list[tuple[str, str, str]] = []
    for scalar in scalars:
        name, value = str(scalar["name"]), scalar["value"]
        parts = [(f"{name}_{i}", part) for i, part in enumerate(value)] if isinstance(value, list | tuple) else []
        for part_name, part in parts or [(name, value)]:
            literal = c_literal(part)
            if literal is not None:
                # At file scope a name of the C library would clash; as an argument it may shadow it.
                name_free = f"{part_name}_" if part_name in TAKEN else part_name
                found.append((literal[0], names.take(name_free), literal[1]))
    return tuple(found)


def c_literal(value: object) -> tuple[str, str] | None:
    if isinstance(value, bool):
        return "bool", "true" if value else "false"
    if isinstance(value, int):
        return ("int64_t", f"{value}") if -(2**63) < value < 2**63 else None
    if isinstance(value, float):
        if value != value:
            return "double", '__builtin_nan("")'
        if value in (float("inf"), float("-inf")):
            return "double", "__builtin_inf()" if value > 0 else "-__builtin_inf()"
        return "double", repr(value)
    return None


def size_constants(tensors: Sequence[TensorSpec], names: Names) -> tuple[tuple[str, str, str], ...]:
    """T_numel and T_dim0... of what is fixed, and N where every tensor is of one fixed shape."""
    found: list[tuple[str, str, str]] = []
    for tensor in tensors:
        if not any(tensor.symbols):
            found.append(("int64_t", names.take(f"{tensor.name}_numel"), str(prod(tensor.shape))))
        for dim, (size, symbol) in enumerate(zip(tensor.shape, tensor.symbols, strict=True)):
            if symbol is None:
                found.append(("int64_t", names.take(f"{tensor.name}_dim{dim}"), str(size)))
    fixed = not any(any(tensor.symbols) for tensor in tensors)
    if fixed and len({tensor.shape for tensor in tensors}) == 1 and "N" not in names.taken:
        found.append(("int64_t", names.take("N"), str(prod(tensors[0].shape))))
    return tuple(found)


# --------------------------------------------------------------------------- contract.h


def c_type(tensor: TensorSpec, language: Language) -> str:
    """Element type of a tensor in a candidate's language."""
    return HALF_TYPES[language].get(tensor.dtype) or C_TYPES[tensor.dtype]


def c_arguments(contract: Contract) -> list[str]:
    """The arguments of the function, in order, each as `type name`."""
    arguments = [
        f"{'' if tensor.role == 'output' else 'const '}{c_type(tensor, contract.language)}* {tensor.name}"
        for tensor in contract.tensors
    ]
    arguments += [f"int64_t {symbol}" for symbol in contract.symbols]
    arguments.append("void* workspace")
    if contract.language is Language.CUDA:
        arguments.append("cudaStream_t stream")
    return arguments


def prototype(contract: Contract) -> str:
    """`int NAME(arguments)`, without linkage."""
    return f"int {contract.function}({', '.join(c_arguments(contract))})"


def workspace_prototype(contract: Contract) -> str:
    """`size_t NAME_workspace(symbols)`, without linkage."""
    symbols = ", ".join(f"int64_t {symbol}" for symbol in contract.symbols)
    return f"size_t {contract.function}_workspace({symbols})"


def write_header(contract: Contract, problem: Problem) -> str:
    guard = f"KERNELTUI_CONTRACT_{contract.function.upper()}_H"
    export = 'extern "C" __attribute__((visibility("default")))'
    lines = [f"// Contract of {one_line(problem.name)}: {one_line(problem.title)}", "// Generated; edits are lost."]
    lines += [f"#ifndef {guard}", f"#define {guard}", "", *includes(contract), ""]
    lines += [f"// {tensor.name}: {describe(tensor, contract.language)}" for tensor in contract.tensors]
    lines += ["", *(f"constexpr {kind} {name} = {literal};" for kind, name, literal in contract.constants), ""]
    lines += [f"// {line}" for line in rules(contract)]
    lines += [f"{export} {prototype(contract)};"]
    lines += ["", "// Bytes of workspace wanted; leave it undefined when none is, workspace is then nullptr."]
    lines += [f"{export} {workspace_prototype(contract)};", "", "#endif", ""]
    return "\n".join(lines)


def includes(contract: Contract) -> list[str]:
    lines = ["#include <cstddef>", "#include <cstdint>"]
    if contract.language is Language.CUDA:
        lines.append("#include <cuda_runtime.h>")
        dtypes = {tensor.dtype for tensor in contract.tensors}
        lines += ["#include <cuda_fp16.h>"] if "float16" in dtypes else []
        lines += ["#include <cuda_bf16.h>"] if "bfloat16" in dtypes else []
    return lines


def one_line(text: str) -> str:
    """Text that is safe in a // comment: no line breaks, no backslash that would join the next line."""
    return " ".join(text.split()).replace("\\", "/")


def describe(tensor: TensorSpec, language: Language) -> str:
    sizes = [symbol or str(size) for size, symbol in zip(tensor.shape, tensor.symbols, strict=True)]
    kind = tensor.dtype
    if kind == "bfloat16" and language is Language.CPP:
        kind = "bfloat16 as its 16 bits"
    origin = f" (`{one_line(tensor.origin)}` in Python)" if tensor.origin not in ("", tensor.name) else ""
    return f"{tensor.role}, {kind}, ({', '.join(sizes)}){origin}"


def rules(contract: Contract) -> list[str]:
    """What holds for every call, a sentence a line."""
    lines = [
        f"Tensors are contiguous, row-major; base pointers are {ALIGNMENT_BYTES[contract.language]}-byte aligned.",
        "Write every element of every output; leave inputs, parameters and buffers as they are.",
        "Return 0, or an error code of your own when the work could not be done.",
    ]
    if contract.symbols:
        lines.append(f"{', '.join(contract.symbols)} may differ from call to call; all other sizes are fixed.")
    if contract.language is Language.CUDA:
        lines.append("Pointers are device memory. Launch everything on `stream`; do not synchronise or allocate.")
        lines.append("Return the cudaError_t of your launches (`return (int)cudaGetLastError();`).")
    return lines


# --------------------------------------------------------------------------- words and skeleton


def words(contract: Contract) -> str:
    """The contract for a prompt: signature, shapes, constants and rules."""
    lines = ['The kernel is one source file that includes "contract.h" and defines:', ""]
    lines += [f'extern "C" {prototype(contract)};', "", "Arguments:"]
    lines += [f"- {tensor.name}: {describe(tensor, contract.language)}" for tensor in contract.tensors]
    lines += [f"- {symbol}: a size known only at run time" for symbol in contract.symbols]
    lines += [f"- workspace: scratch memory; define `{workspace_prototype(contract)}` to get any, else it is nullptr"]
    if contract.language is Language.CUDA:
        lines += ["- stream: the CUDA stream to launch on"]
    if contract.constants:
        lines += ["", "contract.h has these constants, for use in array sizes and templates:"]
        lines += [f"- {name} = {literal} ({kind})" for kind, name, literal in contract.constants]
    lines += ["", "Rules:", *(f"- {rule}" for rule in rules(contract))]
    lines += [
        f"- Anything else in the file is `static` or in an unnamed namespace; only {contract.function} is exported."
    ]
    return "\n".join(lines)


def skeleton(contract: Contract) -> str:
    """A kernel that compiles and does nothing, to start typing in."""
    names = [argument.split()[-1].lstrip("*") for argument in c_arguments(contract)]
    cuda = contract.language is Language.CUDA
    sketch = ["", "// static __global__ void kernel(...) { ... }"] if cuda else []
    end = ["    // kernel<<<grid, block, 0, stream>>>(...);", "    return (int)cudaGetLastError();"]
    lines = ['#include "contract.h"', *sketch, "", f'extern "C" {prototype(contract)} {{']
    lines += [*(f"    (void){name};" for name in names), *(end if cuda else ["    return 0;"]), "}", ""]
    return "\n".join(lines)
