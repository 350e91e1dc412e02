"""Ask -> prompt: a pure function of the material, through templates that a session folder may override.

build_prompt   the exact text that is sent
sections       what the placeholders of a template stand for
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from kerneltui.authors import Ask, Material, Tried
from kerneltui.authors.describing import describe_device, describe_failure, describe_resources, microseconds
from kerneltui.contract import words
from kerneltui.errors import SettingsError
from kerneltui.records import Language, Problem

CONTEXT_CHARACTERS = 8_000  # contract, device, rules and a parent's source, where no prompt can be made yet


def first_prompt(problem: Problem) -> str:
    """As long as a first prompt will be, before device and contract are known."""
    return problem.source + read_template("ideas.md") + " " * CONTEXT_CHARACTERS


TEMPLATES = Path(__file__).with_name("templates")
FILES = {"ideas": "ideas.md", "write": "write.md", "repair": "repair.md"}
MOST_TRIED = 40  # lines of history; the most telling are kept
FENCE_WORD = {Language.CUDA: "cuda", Language.CPP: "cpp", Language.PYTHON: "python"}
LANGUAGE_WORD = {Language.CUDA: "CUDA C++", Language.CPP: "C++", Language.PYTHON: "Python"}


def build_prompt(ask: Ask) -> str:
    """The prompt of an idea, write or repair question.

    Raises:
        SettingsError: a template of the session folder has an unknown placeholder.
    """
    name = FILES[ask.purpose]
    own = ask.material.templates.get(name)
    text = read_template(name) if own is None else own
    try:
        filled = Template(text).substitute(sections(ask))
    except (KeyError, ValueError) as error:
        known = ", ".join(f"${{{word}}}" for word in sections(ask))
        raise SettingsError(
            f"template {name}: cannot follow the placeholder {error}; known are {known}; $$ is a $"
        ) from error
    return re.sub(r"\n{3,}", "\n\n", plain(filled)).strip() + "\n"


def read_template(name: str) -> str:
    """A template that ships with the program."""
    return (TEMPLATES / name).read_text("utf-8")


def plain(text: str) -> str:
    """Without lone surrogates, which no request can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


def sections(ask: Ask) -> dict[str, str]:
    """Every placeholder; one with nothing to say is empty."""
    material = ask.material
    return {
        "reference": section("The operation", reference_text(material)),
        "contract": section("The contract", contract_text(material)),
        "device": section("The device", describe_device(material.device)),
        "speed": section("Speed so far", speed_text(material)),
        "parent": section("The parent: what to improve", parent_text(material)),
        "report": section("The compiler on the parent", describe_resources(material.parent_verdict)),
        "profile": section("Profile of the parent", table(material.profile)),
        "tried": section("What was tried before", tried_text(material.tried)),
        "ledger": section("Which techniques paid on this device", bullets(material.ledger)),
        "policy": section("Rules", policy_text(material)),
        "notes": section("Notes of the person in charge", bullets(material.notes)),
        "idea": section("The idea", idea_text(ask)),
        "failed": section("The file that failed", fenced(ask.failed_source, material.language)),
        "failure": section("How it failed", describe_failure(ask.failed_verdict)),
        "tunables": section("Tunable parameters", tunables_text(material)),
        "attempt": attempt_text(ask),
        "count": f"{ask.count} distinct ideas" if ask.count != 1 else "one idea",
    }


def section(title: str, body: str) -> str:
    return f"## {title}\n\n{body.strip()}\n" if body.strip() else ""


def fenced(source: str, language: Language | str) -> str:
    """The source in a fence longer than any run of backticks in it."""
    if not source.strip():
        return ""
    longest = max((len(run) for run in re.findall(r"`+", source)), default=0)
    marks = "`" * max(3, longest + 1)
    word = FENCE_WORD.get(language, str(language)) if isinstance(language, Language) else language
    return f"{marks}{word}\n{source.rstrip()}\n{marks}"


def bullets(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {line.strip()}" for line in lines if line.strip())


def table(values: dict[str, str]) -> str:
    return bullets(tuple(f"{name}: {value}" for name, value in values.items()))


# --------------------------------------------------------------------------- sections


def reference_text(material: Material) -> str:
    problem = material.problem
    lead = f"{problem.title}. The reference in PyTorch ({problem.dtype}):"
    notes = f"\n\n{problem.notes}" if problem.notes else ""
    return f"{lead}\n\n{fenced(problem.source, 'python')}{notes}"


def contract_text(material: Material) -> str:
    if material.language is Language.PYTHON:
        return (
            "The answer is a Python module that defines `class ModelNew(torch.nn.Module)` with the constructor, the"
            " parameter names and the `forward` of the reference's `Model`. It may build CUDA inline or use Triton."
        )
    return words(material.contract)


def speed_text(material: Material) -> str:
    lines = [f"{name}: {microseconds(value)}" for name, value in material.baselines_us.items()]
    parent = material.parent
    parent_us = parent.median_us if parent is not None else None
    if parent_us is not None:
        gain = f", {parent.speedup.ratio:.2f}x eager" if parent is not None and parent.speedup is not None else ""
        lines.append(f"the parent: {microseconds(parent_us)}{gain}")
    if material.best is not None:
        lines.append(f"the best so far: {microseconds(material.best.median_us)}")
    if material.floor_us is not None:
        far = (
            f"; the parent takes {parent_us / material.floor_us:.1f} times that"
            if parent_us and material.floor_us
            else ""
        )
        lines.append(
            f"the floor (bytes and operations that must happen, at measured rates): {microseconds(material.floor_us)}{far}"
        )
    return bullets(tuple(lines))


def parent_text(material: Material) -> str:
    if not material.parent_source.strip():
        return "There is none yet: start from the reference." if material.parent is None else ""
    return fenced(material.parent_source, material.language)


def idea_text(ask: Ask) -> str:
    idea = ask.idea
    if idea is None:
        return ""
    lines = [f"**{idea.title}**" if idea.title else "", "", idea.text]
    facts = {"Bottleneck": idea.bottleneck, "Technique": idea.technique, "Expected": idea.expected, "Risk": idea.risk}
    return "\n".join(lines) + "\n\n" + table({name: value for name, value in facts.items() if value})


def attempt_text(ask: Ask) -> str:
    if ask.index == 0:
        return ""
    return (
        f"This is attempt {ask.index + 1} at the idea; the earlier ones take the plainest way to it. Choose another way:"
        " other tile shapes, another mapping of work to threads, another use of memory.\n\n"
    )


def tried_text(tried: tuple[Tried, ...]) -> str:
    """A line an idea; where there are too many, the best and the last."""
    cut = ""
    if len(tried) > MOST_TRIED:
        ranked = sorted(tried, key=lambda entry: entry.best.ratio if entry.best else 0.0, reverse=True)
        keep = {id(entry) for entry in ranked[: MOST_TRIED // 2]} | {id(entry) for entry in tried[-(MOST_TRIED // 2) :]}
        cut = f"\n\n({len(tried) - len(keep)} more, neither among the best nor recent, are left out.)"
        tried = tuple(entry for entry in tried if id(entry) in keep)
    return bullets(tuple(tried_line(entry) for entry in tried)) + cut


def tried_line(entry: Tried) -> str:
    idea = entry.idea
    outcomes = (
        ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in entry.outcomes.items())
        or "not judged yet"
    )
    best = f"; best {entry.best.ratio:.2f}x eager" if entry.best is not None else ""
    time = f" ({microseconds(entry.median_us)})" if entry.median_us is not None else ""
    hoped = f"; expected {' '.join(idea.expected.split())[:120]}" if idea.expected else ""
    technique = f" [{idea.technique}]" if idea.technique else ""
    return f"round {idea.round}: {idea.title}{technique}: {outcomes}{best}{time}{hoped}"


def policy_text(material: Material) -> str:
    policy = material.policy
    lines = [
        f"Write {LANGUAGE_WORD[material.language]}.",
        "Do the work in every call: nothing may be kept from one call to the next, and no result may be guessed.",
        "Read no files, start no processes or threads that outlive the call, and do not touch clocks or environment.",
    ]
    if not policy.library_calls:
        lines.append("Call no vendor library (cuBLAS, cuDNN, CUTLASS device APIs, MKL): the kernel itself is wanted.")
    elif material.language is Language.CUDA:
        lines.append(
            "cuBLAS, cuBLASLt, cuDNN, cuFFT, cuRAND, cuSOLVER and cuSPARSE may be called, on the stream you are given; what "
            "you include is linked."
        )
    if policy.lower_precision:
        lines.append("Lower precision inside is allowed where the result stays within the tolerance.")
    else:
        lines.append("Compute at the precision of the reference or better; no TF32 or half precision inside.")
    lines.append("Fast-math is allowed." if policy.fast_math else "Rely on no fast-math.")
    return bullets(tuple(lines))


def tunables_text(material: Material) -> str:
    if material.language is Language.PYTHON:
        return ""
    return TUNABLES


TUNABLES = """Where a size is a matter of taste (block size, tile, unroll, rows per thread), declare it, and every value
will be measured. Declare in comments of exactly this form, integers only, and give each a default:

    // tune: BLOCK = 64, 128, 256
    // tune: ROWS = 1, 2, 4
    // tune-if: BLOCK * ROWS <= 1024
    #ifndef BLOCK
    #define BLOCK 128
    #endif
    #ifndef ROWS
    #define ROWS 2
    #endif

Values arrive as -D defines. The file must be correct for every combination that the tune-if lines allow. Declare at most
four, and only what matters."""
