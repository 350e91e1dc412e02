"""An answer to an ideas question -> idea drafts: JSON by schema, JSON as models write it, or a list in prose.

read_ideas   text -> drafts and notes; raises when there is none
SCHEMA       what structured output is asked to follow
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kerneltui.authors import IdeaDraft, jsonish
from kerneltui.authors.fences import find_blocks
from kerneltui.authors.jsonish import Cut

FIELDS = ("title", "text", "bottleneck", "technique", "expected", "risk")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ideas": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in FIELDS},
                "required": list(FIELDS),
                "additionalProperties": False,
            },
        }
    },
    "required": ["ideas"],
    "additionalProperties": False,
}
SPELLINGS = {
    "title": ("title", "name", "idea", "heading", "headline"),
    "text": ("text", "description", "details", "detail", "explanation", "rationale", "body", "summary", "plan", "how"),
    "bottleneck": ("bottleneck", "limiter", "problem"),
    "technique": ("technique", "method", "optimization", "optimisation", "category"),
    "expected": ("expected", "expected_effect", "expected_speedup", "effect", "expected_gain", "gain", "impact"),
    "risk": ("risk", "risks", "caveat", "caveats"),
    "key": ("key",),
}
ITEM = re.compile(
    r"""^[ \t]{0,3}(?:\#{1,6}[ \t]*)?(?:\*\*|__)?
    (?: idea[ \t]*\#?\d{1,3}(?:[ \t]*[:.)–—-]+ | (?=\*\*|[ \t]*$))
      | \#?\d{1,3}[.):][ \t]
      | (?P<bullet>[-*+•][ \t]+(?=\*\*|__)) )
    [ \t]*(?P<rest>.*)$""",
    re.IGNORECASE | re.VERBOSE,
)
HEADING = re.compile(r"^\#{2,6}[ \t]+(.+)$", re.MULTILINE)
FIELD_LINE = re.compile(
    r"""^[ \t]*(?:[-*+•][ \t]+)?(?:\*\*|__)?
    (?P<name>title|text|description|bottleneck|technique|expected(?:[ _]\w+)?|effect|risks?|how|why)
    (?:\*\*|__)?[ \t]*:(?:\*\*|__)?[ \t]*(?P<rest>.*)$""",
    re.IGNORECASE | re.VERBOSE,
)
TITLE_LIMIT = 120


def read_ideas(text: str, wanted: int, *, truncated: bool) -> tuple[list[IdeaDraft], list[str], bool]:
    """Drafts, notes, and whether the list broke off. At most `wanted`; a note names what was left out."""
    drafts, broken = from_json(text)
    notes: list[str] = []
    if not drafts:
        drafts = list(from_list(text))
        if drafts:
            notes.append("no JSON in the answer: ideas were read from its list")
        if drafts and truncated:
            drafts = drafts[:-1]
    if (broken or truncated) and drafts:
        notes.append(f"cut off after {len(drafts)} whole idea{'s' if len(drafts) > 1 else ''}: kept")
    if len(drafts) > wanted:
        left = "; ".join(draft.title for draft in drafts[wanted:])
        notes.append(f"{len(drafts)} ideas came where {wanted} were asked for; left out: {left}")
        drafts = drafts[:wanted]
    return drafts, notes, broken


# --------------------------------------------------------------------------- JSON


def from_json(text: str) -> tuple[list[IdeaDraft], bool]:
    """Ideas from the last JSON value that holds a list of them, or from single objects, and whether it was cut."""
    drafts: list[IdeaDraft] = []
    broken = single = False
    for value, cut in json_values(text):
        new = [draft for item in idea_objects(value) if (draft := to_draft(item)) is not None]
        if new:
            drafts = drafts + new if single and is_idea(value) else new
            single, broken = is_idea(value), cut
        elif cut:
            broken = True
    return drafts, broken


def json_values(text: str) -> Iterator[tuple[Any, bool]]:
    """JSON values of the fenced blocks; without one, of the text itself."""
    sources = [block.text for block in find_blocks(text) if block.text.lstrip()[:1] in ("{", "[")] or [text]
    for source in sources:
        at = 0
        for _ in range(100):
            start = next_start(source, at)
            if start is None:
                break
            value, end, cut = jsonish.read(source, start)
            yield value, cut
            at = max(end, start + 1)


def next_start(text: str, at: int) -> int | None:
    """The next bracket that begins something: an object, or a list of objects or strings."""
    match = re.compile(r"\{\s*(?:[\"'“}]|//|/\*|\w+\s*:)|\[\s*(?:[{\"“]|//|/\*)").search(text, at)
    return match.start() if match else None


def idea_objects(value: Any) -> Iterator[Any]:
    """Whole objects that describe one idea each, wherever the answer wrapped them."""
    if isinstance(value, list):
        for item in value:
            yield from idea_objects(item)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        folded = fold(value)
        wrapped = [item for item in folded.values() if isinstance(item, list) and any(is_idea(entry) for entry in item)]
        single = [item for item in folded.values() if isinstance(item, dict) and is_idea(item)]
        if is_idea(value) and not isinstance(value, Cut):
            yield value
        elif not is_idea(value):
            for item in [*wrapped, *single]:
                yield from idea_objects(item)


def is_idea(value: Any) -> bool:
    if isinstance(value, str):
        return len(value.split()) > 3
    if not isinstance(value, dict):
        return False
    folded = fold(value)
    return any(isinstance(folded.get(name), str) for name in (*SPELLINGS["title"], *SPELLINGS["text"]))


def fold(value: dict[str, Any]) -> dict[str, Any]:
    return {re.sub(r"[\s-]+", "_", str(name).strip().lower()): item for name, item in value.items()}


def to_draft(value: Any) -> IdeaDraft | None:
    if isinstance(value, str):
        return draft_of({"text": value}) if is_idea(value) else None
    folded = fold(value)
    found = {}
    for name, spellings in SPELLINGS.items():
        held = next((folded[spelling] for spelling in spellings if folded.get(spelling) not in (None, "", [])), "")
        found[name] = flat_text(held)
    return draft_of(found)


def flat_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "; ".join(flat_text(item) for item in value)
    if isinstance(value, dict):
        return "; ".join(f"{name}: {flat_text(item)}" for name, item in value.items())
    if isinstance(value, float):
        return f"{value:g}"
    return clean(str(value))


def clean(text: str) -> str:
    """Without control characters and lone surrogates; line breaks and tabs stay."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text).strip()


def draft_of(found: dict[str, str]) -> IdeaDraft | None:
    title = " ".join(found.get("title", "").split()).strip("*_#` ")
    text = found.get("text", "")
    if not title and not text:
        return None
    if not title:
        title = first_sentence(text)
    elif len(title) > TITLE_LIMIT:
        text = f"{title}\n\n{text}".strip()
    rest = {name: found.get(name, "") for name in ("bottleneck", "technique", "expected", "risk", "key")}
    return IdeaDraft(title=shorten(title), text=text, **rest)


def first_sentence(text: str) -> str:
    first = text.strip().split("\n")[0].strip("*_#` ")
    return re.split(r"(?<=[.!?;])\s", first)[0].rstrip(".")


def shorten(title: str) -> str:
    return title if len(title) <= TITLE_LIMIT else title[: TITLE_LIMIT - 1].rstrip() + "…"


# --------------------------------------------------------------------------- prose


def from_list(text: str) -> Iterator[IdeaDraft]:
    """Ideas of a numbered list, of headings, or of bullets that begin in bold."""
    items: list[tuple[str, list[str]]] = []
    numbered = any(is_numbered(line) for line in text.split("\n"))
    for line in text.split("\n"):
        match = ITEM.match(line)
        if match and (not numbered or is_numbered(line)):
            items.append((match["rest"], []))
        elif items:
            items[-1][1].append(line)
    if not items:
        items = [(match[1], []) for match in HEADING.finditer(text)]
        parts = HEADING.split(text)[2::2]
        items = [(head, part.split("\n")) for (head, _), part in zip(items, parts, strict=True)]
    for head, body in items:
        draft = draft_of(list_item(head, body))
        if draft is not None:
            yield draft


def is_numbered(line: str) -> bool:
    match = ITEM.match(line)
    return match is not None and match["bullet"] is None


def list_item(head: str, body: list[str]) -> dict[str, str]:
    head = clean(head)
    bold = re.match(r"(?:\*\*|__)?(.+?)(?:\*\*|__)[ \t]*[:.–—-]*[ \t]*(.*)$", head)
    if bold:
        title, rest = bold[1].rstrip(":. "), bold[2]
    else:
        split = re.split(r"\s+[–—-]\s+|:\s+", head, maxsplit=1)
        title, rest = (
            (split[0], split[1]) if len(split) == 2 and len(split[0]) <= TITLE_LIMIT else (first_sentence(head), head)
        )
    found = {"title": title.strip("*_#` ")}
    words = [rest] if rest and rest != title else []
    for line in body:
        match = FIELD_LINE.match(line)
        name = field_name(match["name"]) if match else None
        if match and name and name not in found:
            found[name] = clean(match["rest"].strip("*_ "))
        else:
            words.append(line)
    prose = clean("\n".join(words))
    found["text"] = "\n\n".join(part for part in (found.get("text", ""), prose) if part)
    return found


def field_name(word: str) -> str | None:
    folded = re.sub(r"\s+", "_", word.lower())
    return next((name for name, spellings in SPELLINGS.items() if folded in spellings), None)
