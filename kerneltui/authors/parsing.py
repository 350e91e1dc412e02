"""Answer -> records: the source or the ideas in it, or one sentence that says why there is none.

read_answer   the whole of it: an Ask and its Reply -> Answer. Also for answers that a person pastes in.

Nothing is lost in silence: an Answer has ideas or a source, or `problem` says what was wrong. `notes` say which block
was taken and what was mended. The raw text stays in the Reply.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kerneltui.authors import Answer, Ask, Reply
from kerneltui.authors.cpp import CODE_START, defined_functions, defines, open_ends
from kerneltui.authors.edits import EditFailed, apply_edits, has_edits
from kerneltui.authors.fences import Block, find_blocks, strip_thinking
from kerneltui.authors.ideas import read_ideas
from kerneltui.authors.mending import inline_headers, mend_code, mend_text
from kerneltui.records import Language

LONGEST = 1_000_000  # characters of an answer; a source file has a few thousand
MOST_ENDS = 20  # fences that are tried as the end of a block
TRUNCATED = frozenset(("length", "max_tokens", "max_output_tokens"))
OTHER_LANGUAGES = frozenset(
    """python py bash sh shell console text txt json yaml toml diff patch makefile cmake md markdown output log ptx sass
    """.split()  # noqa: SIM905 - twenty quoted words are no easier to read
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found where; `problem` when nothing was."""

    source: str = ""
    problem: str = ""
    label: str = ""
    notes: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Reading:
    """One answer being read."""

    ask: Ask
    reply: Reply
    text: str  # mended, without thinking
    thinking_open: bool
    notes: list[str] = field(default_factory=list)

    @property
    def language(self) -> Language:
        return self.ask.material.language

    @property
    def function(self) -> str:
        return self.ask.material.contract.function

    @property
    def wanted(self) -> str:
        return "class ModelNew" if self.language is Language.PYTHON else f"`{self.function}`"

    @property
    def truncated(self) -> bool:
        return self.reply.finish_reason.lower() in TRUNCATED

    @property
    def parent(self) -> str:
        return self.ask.failed_source or self.ask.material.parent_source


def read_answer(ask: Ask, reply: Reply, *, block: int | None = None) -> Answer:
    """The source or the ideas of a reply, or the reason why there is none. Never raises.

    `block` takes that fenced block (from 0) instead of the one that would be chosen.
    """
    if len(reply.text) > LONGEST:
        problem = f"the answer is {len(reply.text):,} characters long; more than {LONGEST:,} are not read"
        return Answer(problem=problem, reply=reply)
    text, notes = mend_text(reply.text)
    text, thinking, thinking_open = strip_thinking(text)
    if thinking.strip():
        notes.append("thinking was left out")
    reading = Reading(ask=ask, reply=reply, text=text, thinking_open=thinking_open, notes=notes)
    if ask.purpose == "ideas":
        return answer_ideas(reading)
    return answer_source(reading, block)


def no_answer(reading: Reading) -> str:
    """Why there is nothing to read at all; "" when there is something."""
    reply = reading.reply
    if reading.truncated and not reading.text.strip():
        return ate_the_budget(reply) or cut_off(reading)
    if reading.thinking_open:
        return cut_off(reading) if reading.truncated else "the answer never left its thinking: it was not finished"
    if not reply.text.strip():
        return "the answer is empty"
    return "" if reading.text.strip() else "the answer holds thinking and nothing else"


def ate_the_budget(reply: Reply) -> str:
    """The sentence for an answer whose tokens all went into thinking."""
    if reply.text.strip() or not reply.tokens_reasoning:
        return ""
    spent = reply.tokens_out or reply.tokens_reasoning
    return f"{reply.tokens_reasoning:,} of {spent:,} tokens went into thinking: raise the cap (max_tokens)"


def cut_off(reading: Reading) -> str:
    tokens = reading.reply.tokens_out
    where = f"at {tokens:,} tokens" if tokens else "by its token limit"
    return f"answer cut off {where}: raise the cap (max_tokens)"


# --------------------------------------------------------------------------- ideas


def answer_ideas(reading: Reading) -> Answer:
    """Whole ideas are kept even when the answer broke off after them."""
    ideas, notes, broken = read_ideas(reading.text, max(1, reading.ask.count), truncated=reading.truncated)
    problem = ""
    if not ideas:
        problem = no_answer(reading)
        if not problem and reading.truncated:
            problem = f"{cut_off(reading)}; no idea in it was whole"
        elif not problem and broken:
            problem = "the JSON of the answer breaks off before the first whole idea"
        elif not problem:
            problem = "no ideas in the answer: neither JSON nor a list"
    return Answer(ideas=tuple(ideas), problem=problem, notes=(*reading.notes, *notes), reply=reading.reply)


# --------------------------------------------------------------------------- source


def answer_source(reading: Reading, block: int | None) -> Answer:
    problem = no_answer(reading)
    if problem:
        found = Found(problem=problem)
    else:
        found = find_source(reading) if block is None else chosen_by_person(reading, block)
    notes = (*reading.notes, *found.notes)
    if found.problem:
        return Answer(problem=found.problem, notes=notes, reply=reading.reply)
    source, mended = mend_code(found.source, reading.language)
    return Answer(
        source=source, language=reading.language, name=found.label, notes=(*notes, *mended), reply=reading.reply
    )


def find_source(reading: Reading) -> Found:
    """A block that defines the function, else an edit of the parent, else the text itself as code."""
    blocks = find_blocks(reading.text)
    unfinished = cut_block(reading, blocks)
    if unfinished:
        return Found(problem=unfinished)
    chosen = choose_block(reading, blocks)
    if chosen is not None:
        return from_block(reading, blocks, chosen)
    if has_edits(reading.text):
        return from_edits(reading)
    if not any(looks_like(reading, block) for block in blocks):
        bare = from_bare_text(reading)
        if bare is not None:
            return bare
    return Found(problem=nothing_found(reading, blocks))


def chosen_by_person(reading: Reading, at: int) -> Found:
    blocks = find_blocks(reading.text)
    if not 0 <= at < len(blocks):
        return Found(problem=f"there is no block {at + 1} in the answer; it has {len(blocks)}")
    return from_block(reading, blocks, at)


def cut_block(reading: Reading, blocks: list[Block]) -> str:
    """The sentence for a last block of code that the token limit, or something unsaid, cut in the middle."""
    last = blocks[-1] if blocks else None
    if last is None or last.closed or not looks_like(reading, last):
        return ""
    if reading.truncated:
        return cut_off(reading)
    ends = open_ends(last.text, reading.language)
    if ends and not has_edits(last.text):
        return f"the code ends in the middle: {ends} left open at its end"
    return ""


def looks_like(reading: Reading, block: Block) -> bool:
    """Whether a block may be in the language that was asked for."""
    if reading.language is Language.PYTHON:
        return block.language in ("", "python", "py", "python3")
    return block.language not in OTHER_LANGUAGES or defines(block.text, reading.function, reading.language)


def choose_block(reading: Reading, blocks: list[Block]) -> int | None:
    """The last block that defines the contract's function and is no edit."""
    for at in range(len(blocks) - 1, -1, -1):
        block = blocks[at]
        if block.language in ("diff", "patch") or has_edits(block.text):
            continue
        if defines(block.text, reading.function, reading.language):
            return at
    return None


def from_block(reading: Reading, blocks: list[Block], at: int) -> Found:
    block = blocks[at]
    where = f"block {at + 1} of {len(blocks)}"
    notes = [f"{where} was taken (lines {block.first_line}–{block.last_line} of the answer)"] if len(blocks) > 1 else []
    if not block.closed:
        notes.append("its fence is never closed")
    source = block.text
    if block.closed and open_ends(source, reading.language):
        longer = extend(reading, block)
        if longer is not None:
            source = longer
            notes.append("a line of ``` inside the code was taken for the end of it; the code goes on after it")
    files = {entry.label: entry.text for entry in blocks if entry.label and entry is not block}
    source, inlined = inline_headers(source, files)
    notes += [f"{name} from the answer was put in place of its #include" for name in inlined]
    if reading.truncated:
        notes.append("the answer was cut off after the code")
    return Found(source=source, label=block.label, notes=tuple(notes))


def extend(reading: Reading, block: Block) -> str | None:
    """The block up to the first later fence at which nothing is left open."""
    lines = reading.text.split("\n")
    first = block.first_line  # index of the line after the opening fence
    ends = [at for at in range(block.last_line, len(lines)) if lines[at].strip() == "```"]
    for end in ends[:MOST_ENDS]:
        text = "\n".join(lines[first:end]) + "\n"
        if not open_ends(text, reading.language):
            return text
    return None


def from_edits(reading: Reading) -> Found:
    try:
        source, count = apply_edits(reading.text, reading.parent)
    except EditFailed as error:
        return Found(problem=cut_off(reading) if reading.truncated else str(error))
    if reading.truncated:
        return Found(problem=f"{cut_off(reading)}; edits may be missing")
    if not defines(source, reading.function, reading.language):
        return Found(problem=f"after the edits nothing defines {reading.wanted}")
    return Found(source=source, notes=(f"{count} edit{'s were' if count > 1 else ' was'} applied to the parent",))


def from_bare_text(reading: Reading) -> Found | None:
    """Code without any fence: from the first line that looks like code to the last that closes it."""
    if not defines(reading.text, reading.function, reading.language):
        return None
    lines = [line for line in reading.text.split("\n") if not line.strip().startswith(("```", "~~~"))]
    first = next((at for at, line in enumerate(lines) if CODE_START.match(line)), 0)
    last = len(lines)
    if reading.language is not Language.PYTHON:
        last = next(
            (at + 1 for at in range(len(lines) - 1, first, -1) if "}" in lines[at] or lines[at].startswith("#")), last
        )
    source = "\n".join(lines[first:last]).rstrip() + "\n"
    if not defines(source, reading.function, reading.language):
        source, first, last = "\n".join(lines), 0, len(lines)
    ends = open_ends(source, reading.language)
    if reading.truncated and (ends or last == len(lines)):
        return Found(problem=cut_off(reading))
    if ends:
        return Found(problem=f"the code ends in the middle: {ends} left open at its end")
    return Found(source=source, notes=(f"no fence in the answer: lines {first + 1}–{last} were taken as code",))


def nothing_found(reading: Reading, blocks: list[Block]) -> str:
    """The sentence for an answer that does not hold the function."""
    if reading.truncated:
        return cut_off(reading)
    if not blocks:
        return f"no code in the answer: nothing in it defines {reading.wanted}"
    if reading.language is not Language.PYTHON:
        if any(defines(block.text, "", Language.PYTHON) for block in blocks):
            return (
                f"the answer is a Python module (ModelNew) where a C++ file that defines {reading.wanted} was asked for"
            )
        functions = [name for block in blocks for name in defined_functions(block.text)]
        if functions:
            return (
                f"no block defines {reading.wanted}; the answer defines `{'`, `'.join(dict.fromkeys(functions[-3:]))}`"
            )
    kinds = ", ".join(f"{block.language or 'no language'}, {block.lines} lines" for block in blocks[:4])
    return f"no block defines {reading.wanted}; {len(blocks)} seen: {kinds}"
