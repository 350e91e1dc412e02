"""Source in colours: Pygments tokens become spans of our theme's tokens. Pure, cached by content."""

from __future__ import annotations

from collections import OrderedDict

from kerneltui.records import Language, sha256
from kerneltui.tui.render import lines
from kerneltui.tui.widgets.linelist import Line, Span

THREAD_ABOVE_LINES = 300  # below, colouring takes less than a frame
TOO_LONG_BYTES = 400_000  # beyond, colours cost more than they give
TOO_WIDE = 2_000  # columns of one line
KEPT = 64

_LEXERS = {Language.CUDA: "cuda", Language.CPP: "cpp", Language.PYTHON: "python"}
_TOKENS = (
    ("Token.Comment.Preproc", "preprocessor"),
    ("Token.Comment", "comment"),
    ("Token.Keyword.Type", "type"),
    ("Token.Keyword", "keyword"),
    ("Token.Name.Builtin", "builtin"),
    ("Token.Name.Function", "function"),
    ("Token.Name.Class", "type"),
    ("Token.Name.Namespace", "preprocessor"),
    ("Token.Name.Decorator", "preprocessor"),
    ("Token.Literal.String", "string"),
    ("Token.Literal", "literal"),
    ("Token.Operator", "operator"),
)
_cache: OrderedDict[str, list[Line]] = OrderedDict()


def is_worth_colouring(source: str) -> bool:
    """Whether the text is small enough for it."""
    return len(source) <= TOO_LONG_BYTES


def cached(source: str, language: Language) -> list[Line] | None:
    """The coloured lines, if they were made before."""
    return _cache.get(sha256(f"{language}\0{source}"))


def colour(source: str, language: Language) -> list[Line]:
    """Every line as spans; plain where the text is too large."""
    key = sha256(f"{language}\0{source}")
    found = _cache.get(key)
    if found is None:
        texts = lines(source)
        wide = any(len(text) > TOO_WIDE for text in texts)
        found = list(texts) if wide or not is_worth_colouring(source) else _colour(texts, language)
        _cache[key] = found
        if len(_cache) > KEPT:
            _cache.popitem(last=False)
    return found


def _colour(texts: list[str], language: Language) -> list[Line]:
    # Pygments takes 40 ms to import, which the first paint should not wait for.
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(_LEXERS[language], stripnl=False, ensurenl=False)
    coloured: list[Line] = []
    spans: list[Span] = []
    for kind, text in lexer.get_tokens("\n".join(texts)):
        token = _token(str(kind))
        first, *rest = text.split("\n")
        if first:
            spans.append((first, token))
        for part in rest:
            coloured.append(spans)
            spans = [(part, token)] if part else []
    if spans:
        coloured.append(spans)
    return coloured


_known: dict[str, str] = {}


def _token(kind: str) -> str:
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = next((token for prefix, token in _TOKENS if kind.startswith(prefix)), "")
    return found
