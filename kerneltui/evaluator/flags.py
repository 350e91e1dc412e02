"""Compiler flags and defines that a candidate may ask for. An allow-list: a flag can name files and load plugins.

nvcc hands its words to a shell, so what is allowed here must also be harmless there.
"""

from __future__ import annotations

import re

from kerneltui.records import Candidate, Language, Policy

FAST_MATH = {"--use_fast_math", "-use_fast_math", "-ffast-math", "-Ofast"}
COMMON = (r"-O[0-3]",)
CUDA = (
    *COMMON,
    r"--?use_fast_math",
    r"--?(ftz|fmad|prec-div|prec-sqrt)=(true|false)",
    r"--?maxrregcount=\d{1,3}",
    r"--?extra-device-vectorization",
    r"--?expt-relaxed-constexpr",
    r"--?expt-extended-lambda",
    r"--?extended-lambda",
    r"--?std=c\+\+(14|17|20)",
    r"--?default-stream=(legacy|null|per-thread)",
    r"-Xptxas=(-O[0-4]|-v|-warn-spills|-warn-lmem-usage|-dlcm=(ca|cg|cv|cs)|-dscm=(wb|cg|cs|wt)|"
    r"--?allow-expensive-optimizations=(true|false)|--?fmad=(true|false)|-maxrregcount=\d{1,3}|"
    r"--?register-usage-level=\d{1,2}|--?def-(load|store)-cache=\w+)",
)
HOST = (
    *COMMON,
    r"-Ofast",
    r"-f(no-)?fast-math",
    r"-f(no-)?(unroll-loops|unroll-all-loops|tree-vectorize|associative-math|finite-math-only|math-errno|"
    r"trapping-math|signed-zeros|signaling-nans|reciprocal-math|rounding-math|omit-frame-pointer|strict-aliasing|"
    r"prefetch-loop-arrays|inline-functions|peel-loops|split-loops|tree-loop-distribution|"
    r"unsafe-math-optimizations|vect-cost-model|ipa-pta|gcse-after-reload|openmp-simd)",
    r"-ffp-contract=(fast|off|on)",
    r"-fvect-cost-model=(unlimited|dynamic|cheap|very-cheap)",
    r"-mprefer-vector-width=(none|128|256|512)",
    r"-m(no-)?(avx|avx2|avx512[a-z0-9]*|fma|f16c|bmi|bmi2|amx-[a-z0-9]+|vzeroupper)",
    r"-march=native",
    r"-mtune=[a-z0-9-]+",
    r"--?std=(c|gnu)\+\+(17|20|23)",
    r"--param=[a-z0-9-]+=\d+",
)
DEFINE_NAME = re.compile(r"[A-Za-z_]\w{0,63}")
DEFINE_VALUE = re.compile(r"[A-Za-z0-9_.+-]{0,64}")
# Names that change what headers of others do.
RESERVED_NAME = re.compile(
    r"_[_A-Z]\w*|NDEBUG|assert|main|include|define|if|for|while|return|int|float|double|void|const"
)


def refused_flags(candidate: Candidate, policy: Policy) -> list[str]:
    """Why flags or defines are refused, one sentence each; none when all are fine."""
    return _refused_flags(candidate, policy) + _refused_defines(candidate)


def _refused_flags(candidate: Candidate, policy: Policy) -> list[str]:
    allowed = {Language.CUDA: CUDA, Language.CPP: HOST, Language.PYTHON: ()}[candidate.language]
    reasons: list[str] = []
    for flag in candidate.flags:
        if not any(re.fullmatch(pattern, flag) for pattern in allowed):
            reasons.append(f"compiler flag {flag!r} is not on the list of allowed flags")
        elif flag in FAST_MATH and not policy.fast_math:
            reasons.append(f"compiler flag {flag!r}: this session does not allow fast maths")
    return reasons


def _refused_defines(candidate: Candidate) -> list[str]:
    reasons: list[str] = []
    for name, value in candidate.defines:
        if not DEFINE_NAME.fullmatch(name) or RESERVED_NAME.fullmatch(name):
            reasons.append(f"define {name!r}: not a name that a kernel may set")
        elif not DEFINE_VALUE.fullmatch(value):
            reasons.append(f"define {name}={value!r}: only plain words and numbers are passed to the compiler")
    return reasons


def words(candidate: Candidate) -> list[str]:
    """Flags and defines as the compiler is given them. Call `refused_flags` first."""
    return [*candidate.flags, *(f"-D{name}={value}" for name, value in candidate.defines)]
