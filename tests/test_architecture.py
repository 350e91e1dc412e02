"""The floors of docs/architecture.md, as tests that can fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kerneltui"

# Every top-level module, with its purpose. A new one needs its line here and in the floors of pyproject.toml.
MODULES = {
    "__init__": "version",
    "__main__": "python -m kerneltui",
    "cli": "the table of commands",
    "commands": "what each command does",
    "errors": "the exception tree",
    "records": "every noun",
    "stats": "median, interval, speed-up, racing",
    "problems": "a folder or a file -> Problem",
    "contract": "Problem signature -> contract.h",
    "settings": "session.toml <-> Settings",
    "store": "the session file",
    "migrations": "its schema",
    "search": "tree -> steps",
    "engine": "the loop",
    "authors": "sources of ideas and variants",
    "evaluator": "compile, policy, devices, supervisor",
    "judge": "program: holds torch and the reference",
    "runner": "program: runs one candidate",
    "export": "tree -> files",
    "tui": "the screen",
}

HEAVY = ("torch", "textual", "openai", "google.genai")
ALLOWED = {  # module prefix -> what it alone may import
    "kerneltui.tui": ("textual",),
    "kerneltui.authors.openai": ("openai",),
    "kerneltui.authors.gemini": ("google.genai",),
    "kerneltui.judge": ("torch",),
    "kerneltui.runner.module": ("torch",),
}


def module_names() -> list[str]:
    files = sorted(PACKAGE.rglob("*.py"))
    names = [".".join(f.relative_to(ROOT).with_suffix("").parts) for f in files if "_data" not in f.parts]
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def test_no_module_is_unlisted() -> None:
    found = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert set() == found - set(MODULES), "a new top-level module needs its line in MODULES and in the floors"


def imported_by(names: list[str]) -> list[str]:
    """The heavy packages that a fresh interpreter holds after importing these modules."""
    code = f"import sys, {', '.join(names)}; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def allowed_to(name: str) -> frozenset[str]:
    return frozenset(m for prefix, modules in ALLOWED.items() if f"{name}.".startswith(f"{prefix}.") for m in modules)


def groups() -> dict[frozenset[str], list[str]]:
    """Modules by what they may import: what none of a group brings in, no single one does."""
    found: dict[frozenset[str], list[str]] = {}
    for name in module_names():
        found.setdefault(allowed_to(name), []).append(name)
    return found


@pytest.mark.parametrize("allowed", groups(), ids=lambda allowed: "+".join(sorted(allowed)) or "nothing")
def test_a_fresh_interpreter_imports_nothing_heavy(allowed: frozenset[str]) -> None:
    names = groups()[allowed]
    if set(imported_by(names)) - allowed:
        culprits = {name: extra for name in names if (extra := set(imported_by([name])) - allowed)}
        assert {} == culprits


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or "lint-imports"
    return subprocess.run([tool, "--no-cache"], cwd=root, capture_output=True, text=True, env={"PYTHONPATH": str(root)})


def test_the_floors_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [("engine", "import torch"), ("store", "import kerneltui.engine"), ("search", "from kerneltui import store")],
)
def test_a_planted_import_breaks_the_build(tmp_path: Path, module: str, line: str) -> None:
    shutil.copytree(PACKAGE, tmp_path / "kerneltui", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "kerneltui" / f"{module}.py"
    path = path if path.exists() else tmp_path / "kerneltui" / module / "__init__.py"
    path.write_text(path.read_text() + f"\n{line}\n")
    done = lint_imports(tmp_path)
    assert done.returncode != 0, done.stdout


def test_help_imports_neither_torch_nor_a_screen() -> None:
    code = (
        "import sys; sys.argv = ['kerneltui', '--help']\n"
        "from kerneltui.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print('heavy:', *[m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "heavy:", done.stdout + done.stderr
