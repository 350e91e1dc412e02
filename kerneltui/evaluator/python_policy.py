"""Remarks on module candidates (`ModelNew`), by their syntax tree. Nothing is imported or run.

A module runs beside torch, so text decides less here than anywhere; outputs are compared in the judge all the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kerneltui.evaluator.findings import Finding
from kerneltui.records import Candidate, Policy

REFUSED_MODULES = {
    **dict.fromkeys(("subprocess", "multiprocessing", "pty", "pexpect", "sh", "asyncio.subprocess"), "starts programs"),
    **dict.fromkeys(("socket", "urllib", "http", "requests", "httpx", "ftplib", "smtplib", "ssl"), "uses the network"),
    **dict.fromkeys(("ctypes", "cffi", "_ctypes", "mmap"), "reaches into memory and other libraries"),
    **dict.fromkeys(("gc", "inspect", "traceback", "tracemalloc", "weakref"), "looks for objects of others"),
    **dict.fromkeys(("threading", "concurrent", "asyncio", "_thread", "queue", "sched"), "starts threads"),
    **dict.fromkeys(("time", "timeit", "datetime"), "uses a clock"),
    **dict.fromkeys(("signal", "atexit", "faulthandler", "resource"), "changes the process"),
    **dict.fromkeys(("importlib", "runpy", "pkgutil", "zipimport", "site", "imp"), "imports by name"),
    **dict.fromkeys(("base64", "codecs", "marshal", "pickle", "zlib", "dill"), "hides what it runs"),
    **dict.fromkeys(("unittest", "mock", "pytest", "wrapt"), "replaces functions of others"),
    **dict.fromkeys(("pip", "ensurepip", "git"), "fetches code"),
    **dict.fromkeys(("reference", "kerneltui"), "imports the reference"),
    **dict.fromkeys(("shutil", "tempfile", "pathlib", "glob", "io"), "uses files"),
}
REFUSED_TORCH = (
    "torch.testing",
    "torch.multiprocessing",
    "torch.distributed",
    "torch.profiler",
    "torch.utils.benchmark",
    "torch.hub",
)
NOTED_MODULES = {"os": "its surroundings", "sys": "the interpreter"}
REFUSED_CALLS = {
    **dict.fromkeys(("eval", "exec", "compile", "__import__"), "runs text as code"),
    **dict.fromkeys(("open", "breakpoint", "input"), "uses files"),
    **dict.fromkeys(("globals", "locals", "vars"), "looks for objects of others"),
    **dict.fromkeys(("exit", "quit"), "ends the process"),
}
REFUSED_ATTRIBUTES = {
    **dict.fromkeys(
        ("_getframe", "_current_frames", "f_back", "f_locals", "f_globals", "__globals__", "__code__"),
        "walks the frames of others",
    ),
    **dict.fromkeys(("__subclasses__", "__builtins__", "modules"), "looks for objects of others"),
    **dict.fromkeys(("elapsed_time", "perf_counter", "perf_counter_ns", "monotonic", "Event"), "uses a clock"),
    **dict.fromkeys(
        ("Stream", "ExternalStream", "set_stream", "CUDAGraph", "make_graphed_callables", "graph"),
        "makes streams or graphs of its own",
    ),
    **dict.fromkeys(
        ("system", "popen", "fork", "killpg", "execv", "execve", "_exit", "kill", "putenv", "unsetenv"),
        "starts or ends programs",
    ),
    **dict.fromkeys(
        ("set_float32_matmul_precision", "allow_tf32", "use_deterministic_algorithms", "fp32_precision"),
        "changes the precision of others",
    ),
    **dict.fromkeys(("manual_seed", "seed", "set_rng_state"), "changes the random numbers of others"),
}
# Modules that torch has imported for itself: whoever reaches them so did not want to be seen importing them.
BORROWED = {
    *REFUSED_MODULES,
    *NOTED_MODULES,
    *("builtins", "types", "platform"),
}
EVERYDAY = {"signal"}  # torch.signal makes windows
BORROWED_FROM = ("torch", "np", "numpy", "triton", "math")
HELD = ("__dict__", "__builtins__", "__globals__", "modules")
# modules: only sys.modules; the rest of these names are everyday words unless they hang on these owners.
ONLY_ON = {
    "modules": ("sys",),
    "graph": ("torch.cuda",),
    "Event": ("torch.cuda", "torch"),
    "Stream": ("torch.cuda", "torch"),
    "seed": ("torch", "torch.cuda"),
    "kill": ("os",),
    "system": ("os",),
    "fork": ("os", "torch.jit"),
}
LIBRARY_OPERATIONS = {
    *("matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "linear", "conv1d", "conv2d", "conv3d", "conv_transpose2d"),
    *("softmax", "log_softmax", "layer_norm", "group_norm", "batch_norm", "rms_norm", "scaled_dot_product_attention"),
    *("relu", "gelu", "silu", "sigmoid", "tanh", "cross_entropy", "max_pool2d", "avg_pool2d", "cumsum", "sort", "topk"),
    *("sum", "mean", "amax", "amin", "norm", "exp", "where"),
}


def python_findings(candidate: Candidate, policy: Policy) -> list[Finding]:
    """Remarks on one module; none where it is no Python, which the syntax check says better."""
    try:
        tree = ast.parse(candidate.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        *_imports(tree),
        *_calls(tree),
        *_attributes(tree),
        *_replacements(tree),
        *_inheritance(tree),
        *_fallbacks(tree),
        *_library(tree, policy),
    ]


def syntax_problem(source: str) -> str:
    """Why this is no module candidate, in one sentence; "" when it is."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"Python cannot read it: {error or 'too deeply nested'}"
    if not any(isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in tree.body):
        return "no class ModelNew at the top level: a candidate in Python is a class of that name, made and called as Model is"
    return ""


def _finding(node: ast.AST, reason: str, *, refused: bool) -> Finding:
    return Finding(line=getattr(node, "lineno", None), reason=reason, refused=refused)


def _imports(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module or '.'}.{alias.name}" for alias in node.names] if node.module else ["reference"]
        for name in names:
            yield from _import(node, name)


def _import(node: ast.AST, name: str) -> Iterator[Finding]:
    top = name.partition(".")[0]
    if top in REFUSED_MODULES:
        yield _finding(node, f"import {top}: {REFUSED_MODULES[top]}", refused=True)
    elif top in NOTED_MODULES:
        yield _finding(node, f"import {top}: reaches {NOTED_MODULES[top]}", refused=False)
    for prefix in REFUSED_TORCH:
        if name == prefix or name.startswith(f"{prefix}."):
            yield _finding(node, f"import {prefix}: no part of a kernel", refused=True)


def _calls(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name in REFUSED_CALLS:
                yield _finding(node, f"{name}(): {REFUSED_CALLS[name]}", refused=True)
            if name in ("setattr", "delattr") and node.args and dotted(node.args[0]).split(".")[0] != "self":
                yield _finding(
                    node, f"{name}() on {dotted(node.args[0]) or 'something'}: replaces parts of others", refused=True
                )
            if name == "getattr" and len(node.args) > 1 and not isinstance(node.args[1], ast.Constant):
                yield _finding(node, "getattr() with a computed name hides what it reaches", refused=True)


def _attributes(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in BORROWED and node.attr not in EVERYDAY:
            owner = dotted(node.value)
            if owner.partition(".")[0] in BORROWED_FROM:
                yield _finding(node, f"{owner}.{node.attr}: reaches a module that another has imported", refused=True)
        if isinstance(node, ast.Attribute) and node.attr in REFUSED_ATTRIBUTES:
            owners = ONLY_ON.get(node.attr)
            if owners is None or dotted(node.value) in owners:
                yield _finding(node, f".{node.attr}: {REFUSED_ATTRIBUTES[node.attr]}", refused=True)


def _replacements(tree: ast.AST) -> Iterator[Finding]:
    """`torch.allclose = ...`: assignments to what other modules own."""
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        for target in targets:
            held = _held(target)
            if held:
                yield _finding(node, f"assigns into {held}, which replaces parts of others", refused=True)
            name = dotted(target) if isinstance(target, ast.Attribute) else ""
            if name.partition(".")[0] in imported:
                yield _finding(node, f"assigns to {name}, which is not its own", refused=True)


def _held(target: ast.expr) -> str:
    """`clock.__dict__["now"]`: the dictionary that an assignment goes into, unless it is of the module itself."""
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Attribute):
        return ""
    owner = dotted(target.value.value)
    return f"{owner}.{target.value.attr}" if target.value.attr in HELD and owner.partition(".")[0] != "self" else ""


def _inheritance(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and "Model" in [dotted(base).rpartition(".")[2] for base in node.bases]:
            yield _finding(node, f"{node.name} inherits the reference", refused=True)


def _fallbacks(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            yield _finding(node, "try/except: a kernel that fails must be seen to fail", refused=False)


def _library(tree: ast.AST, policy: Policy) -> Iterator[Finding]:
    if policy.library_calls:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = dotted(node.func.value), node.func.attr
            if name in LIBRARY_OPERATIONS and owner in ("torch", "F", "torch.nn.functional", "nn.functional"):
                yield _finding(node, f"{owner}.{name}: a library operation instead of a kernel", refused=False)
            elif dotted(node.func) == "torch.compile":
                yield _finding(node, "torch.compile instead of a kernel", refused=False)


def dotted(node: ast.AST) -> str:
    """`a.b.c` as text; "" for anything less plain."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""
