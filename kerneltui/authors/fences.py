"""Markdown answer -> fenced blocks, by CommonMark's rule, with thinking taken out first.

strip_thinking   text -> the text after the thinking, and the thinking
find_blocks      text -> every fenced block, in order
"""

from __future__ import annotations

import re
from dataclasses import dataclass

OPENING = re.compile(r"^(?P<quote>(?:[ \t]*>)+[ \t]?)?(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
TAG = re.compile(r"<(?P<end>/?)(?P<word>think|thinking|thought|reasoning)>", re.IGNORECASE)
LABEL = re.compile(r"(?P<name>[\w][\w./+-]*\.(?:cuh|cu|cpp|cc|cxx|c|hpp|hxx|hh|h|py))\b")
WHOLE_LABEL = re.compile(r"^\W*(?:file(?:name)?|path)?\W*" + LABEL.pattern + r"\W*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. Lines count from 1 in the text it was found in."""

    text: str
    info: str  # the info string, stripped
    closed: bool
    first_line: int  # of its opening fence
    last_line: int
    label: str = ""  # a file name that stands in or over it

    @property
    def language(self) -> str:
        """First word of the info string, lower case."""
        words = re.split(r"[\s{},:=]+", self.info.strip("{. "))
        return words[0].lower() if words else ""

    @property
    def lines(self) -> int:
        return self.text.count("\n") + (not self.text.endswith("\n")) if self.text else 0


# --------------------------------------------------------------------------- thinking


def strip_thinking(text: str) -> tuple[str, str, bool]:
    """The text without its thinking, the thinking, and whether a thinking block was left open.

    Tags inside a fence or between backticks are text, not thinking. A closing tag alone means that all before it was
    thinking: some chat templates swallow the opening one.
    """
    kept: list[str] = []
    thought: list[str] = []
    fence: tuple[str, int] | None = None
    inside = False
    seen_opening = False
    for line in text_lines(text):
        if not inside:
            fence, was_fence = step_fence(fence, line.rstrip("\r\n"))
            if was_fence or fence is not None:
                kept.append(line)
                continue
        at = 0
        while True:
            match = find_tag(line, at, closing=inside)
            (thought if inside else kept).append(line[at : match.start() if match else None])
            if match is None:
                break
            at = match.end()
            inside = not inside
            seen_opening = True
    if not seen_opening:
        return strip_untagged_opening(text)
    return "".join(kept), "".join(thought), inside


def text_lines(text: str) -> list[str]:
    """Lines with their line feeds. Only line feeds end a line: form feeds and U+2028 occur inside code."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def find_tag(line: str, start: int, *, closing: bool) -> re.Match[str] | None:
    for match in TAG.finditer(line, start):
        before, after = line[match.start() - 1 : match.start()], line[match.end() : match.end() + 1]
        if bool(match["end"]) == closing and not (before == after == "`"):
            return match
    return None


def strip_untagged_opening(text: str) -> tuple[str, str, bool]:
    """Take a closing tag on a line of its own as the end of thinking that nobody opened."""
    offset = end = 0
    for line in text_lines(text):
        offset += len(line)
        if re.fullmatch(r"\s*</(?:think|thinking|thought|reasoning)>\s*", line, re.IGNORECASE):
            end = offset
    return text[end:], text[:end], False


# --------------------------------------------------------------------------- fences


def step_fence(fence: tuple[str, int] | None, line: str) -> tuple[tuple[str, int] | None, bool]:
    """The open fence after this line as (character, length), and whether the line was a fence itself."""
    match = OPENING.match(line)
    if match is None:
        return fence, False
    marks = match["fence"]
    if fence is None:
        return ((marks[0], len(marks)), True) if may_open(match) else (None, False)
    closes = marks[0] == fence[0] and len(marks) >= fence[1] and not match["info"].strip()
    return (None, True) if closes else (fence, False)


def may_open(match: re.Match[str]) -> bool:
    return match["fence"][0] == "~" or "`" not in match["info"]


def find_blocks(text: str) -> list[Block]:
    """Every fenced block; one that is never closed runs to the end of the text.

    Deeper indentation than CommonMark's three columns is taken too, since models indent below list items. A block of
    Markdown, or one without a language, that holds an opening fence is looked into as well.
    """
    lines = text.split("\n")
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        match = OPENING.match(lines[at].rstrip("\r"))
        if match is None or not may_open(match):
            at += 1
            continue
        block = read_block(lines, at, match)
        blocks.append(block)
        blocks += blocks_within(block)
        at = block.last_line
    return blocks


def read_block(lines: list[str], start: int, opening: re.Match[str]) -> Block:
    fence: tuple[str, int] | None = (opening["fence"][0], len(opening["fence"]))
    depth = (opening["quote"] or "").count(">")
    width = len(opening["indent"])
    body: list[str] = []
    at = start + 1
    closed = False
    while at < len(lines):
        line = unquote(lines[at], depth)
        after, was_fence = step_fence(fence, line.rstrip("\r"))
        if was_fence and after is None and indent_of(line) <= width + 3:
            closed = True
            break
        body.append(unindent(line, width))
        at += 1
    content = "\n".join(body)
    if body and closed:
        content += "\n"
    return Block(
        text=content,
        info=opening["info"].strip(),
        closed=closed,
        first_line=start + 1,
        last_line=at + 1 if closed else len(lines),
        label=find_label(lines, start, opening["info"], body),
    )


def blocks_within(block: Block) -> list[Block]:
    if block.language not in ("", "markdown", "md", "text", "txt"):
        return []
    inner = find_blocks(block.text)
    return [entry for entry in inner if entry.info] if inner and inner[0].info else []


def unquote(line: str, depth: int) -> str:
    for _ in range(depth):
        line = re.sub(r"^[ \t]*>[ \t]?", "", line, count=1)
    return line


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def unindent(line: str, width: int) -> str:
    return line[min(width, indent_of(line)) :]


def find_label(lines: list[str], start: int, info: str, body: list[str]) -> str:
    """A file name in the info string, in a comment on the first line, or alone on the line above."""
    in_info = LABEL.search(info)
    if in_info:
        return in_info["name"]
    first = body[0].strip() if body else ""
    if first.startswith(("//", "#", "/*")) and not first.startswith("#include"):
        match = WHOLE_LABEL.match(first.rstrip("*/ "))
        if match:
            return match["name"]
    above = next((line.strip() for line in reversed(lines[max(0, start - 2) : start]) if line.strip()), "")
    match = WHOLE_LABEL.match(above)
    return match["name"] if match else ""
