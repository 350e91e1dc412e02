"""What a call costs, and the most it can cost. Unknown is None, never 0.

find_price    settings -> Price: session.toml first, then the person's own table, then the one that ships
cost_usd      price and usage -> dollars
worst_case    prompt and cap -> the most tokens and dollars one call can use
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from kerneltui.errors import SettingsError, nearest
from kerneltui.records import AuthorSettings

SHIPPED = Path(__file__).with_name("prices.toml")
BYTES_PER_TOKEN = 2  # code measures 3 to 4; digits and rare scripts come near 2
EXTRA_TOKENS = 300  # roles and the JSON schema, which the prompt's text does not show
DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|latest|\d{8})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars per million tokens."""

    in_usd: float
    out_usd: float
    cached_usd: float | None = None  # None: cached input costs what other input does
    above_tokens: int | None = None  # prompts longer than this cost:
    above_in_usd: float | None = None
    above_out_usd: float | None = None
    above_cached_usd: float | None = None
    most_tokens: int | None = None  # that the model can write in one answer, thinking included
    source: str = ""  # where the figures come from, for the screen

    @property
    def free(self) -> bool:
        return not any((self.in_usd, self.out_usd, self.cached_usd, self.above_in_usd, self.above_out_usd))

    def at(self, tokens_in: int) -> Price:
        """The price for a prompt of this length."""
        if self.above_tokens is None or tokens_in <= self.above_tokens:
            return self
        return replace(
            self,
            in_usd=self.in_usd if self.above_in_usd is None else self.above_in_usd,
            out_usd=self.out_usd if self.above_out_usd is None else self.above_out_usd,
            cached_usd=self.cached_usd if self.above_cached_usd is None else self.above_cached_usd,
        )


FIELDS = frozenset(entry.name for entry in fields(Price))


def own_prices() -> Path:
    """The person's own table."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(home) / "kerneltui" / "prices.toml"


def read_prices(path: Path) -> dict[str, Price]:
    """The models of a price table; {} where there is no such file.

    Raises:
        SettingsError: the file says something we cannot follow.
    """
    try:
        stamp = path.stat().st_mtime_ns
    except OSError:
        return {}
    return read_table(path, stamp)


@lru_cache(maxsize=8)
def read_table(path: Path, stamp: int) -> dict[str, Price]:
    """`stamp` is the time of the file's last change: another stamp, another reading."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: cannot be read as TOML: {error}") from error
    as_of = str(table.get("as_of", ""))
    models = table.get("models", {})
    if not isinstance(models, dict):
        raise SettingsError(f"{path}: `models` is to be a table, such as [models.o3]")
    return {name.lower(): to_price(path, name, entry, as_of) for name, entry in models.items()}


def to_price(path: Path, name: str, entry: Any, as_of: str) -> Price:
    if not isinstance(entry, dict):
        raise SettingsError(f'{path}: models."{name}" is to be a table with in_usd and out_usd')
    for key, value in entry.items():
        if key not in FIELDS:
            raise SettingsError(f'{path}: models."{name}" has an unknown key `{key}`{nearest(key, FIELDS)}')
        wrong = not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf
        if key != "source" and wrong:
            raise SettingsError(f'{path}: models."{name}".{key} is to be a number of dollars, not {value!r}')
    if "in_usd" not in entry or "out_usd" not in entry:
        raise SettingsError(f'{path}: models."{name}" needs both in_usd and out_usd')
    source = entry.get("source") or f"{path.name}, {as_of}".rstrip(", ")
    return Price(**{**entry, "source": source})


# --------------------------------------------------------------------------- one author's price


def find_price(settings: AuthorSettings) -> Price | None:
    """The price of this author's model; None when nobody knows it."""
    listed = listed_price(settings.model)
    in_usd, out_usd = settings.price_in_usd, settings.price_out_usd
    if in_usd is None and out_usd is None and settings.price_cached_usd is None:
        return listed
    if listed is None and (in_usd is None or out_usd is None):
        return None
    known = listed or Price(in_usd=0.0, out_usd=0.0)
    return Price(
        in_usd=known.in_usd if in_usd is None else in_usd,
        out_usd=known.out_usd if out_usd is None else out_usd,
        cached_usd=known.cached_usd
        if settings.price_cached_usd is None and in_usd is None
        else settings.price_cached_usd,
        most_tokens=known.most_tokens,
        source="session.toml",
    )


def listed_price(model: str) -> Price | None:
    """By exact name, then without `models/` before it and a date after it: `o3-2025-04-16` is `o3`."""
    name = model.lower().removeprefix("models/")
    for path in (own_prices(), SHIPPED):
        prices = read_prices(path)
        found = prices.get(name) or prices.get(DATED.sub("", name))
        if found is not None:
            return found
    return None


def cost_usd(price: Price | None, tokens_in: int | None, tokens_out: int | None, cached: int | None) -> float | None:
    """Dollars of one request. Reasoning is part of `tokens_out`, cached tokens are part of `tokens_in`."""
    if price is None:
        return None
    if price.free:
        return 0.0
    if tokens_in is None or tokens_out is None:
        return None
    rate = price.at(tokens_in)
    cached = min(cached or 0, tokens_in)
    cached_usd = rate.in_usd if rate.cached_usd is None else rate.cached_usd
    return ((tokens_in - cached) * rate.in_usd + cached * cached_usd + tokens_out * rate.out_usd) / 1e6


def estimate_tokens(prompt: str) -> int:
    """More tokens than any known tokenizer makes of a prompt like ours."""
    return len(prompt.encode("utf-8", "replace")) // BYTES_PER_TOKEN + EXTRA_TOKENS


def worst_cases(authors: Sequence[AuthorSettings], prompt: str) -> dict[str, tuple[int | None, float | None]]:
    """The same for one question like this, by author; what is scripted costs nothing."""
    return {a.label: (0, 0.0) if a.kind == "playbook" else worst_case(prompt, a) for a in authors}


def worst_case(prompt: str, settings: AuthorSettings) -> tuple[int | None, float | None]:
    """The most tokens and dollars that one request can use: None where no cap or no price is known.

    The cap is the author's `max_tokens`, or else the most that its model can write.
    """
    price = find_price(settings)
    tokens_in = estimate_tokens(prompt)
    cap = settings.max_tokens if settings.max_tokens is not None or price is None else price.most_tokens
    if cap is None:
        return None, 0.0 if price is not None and price.free else None
    return tokens_in + cap, cost_usd(price, tokens_in, cap, 0)
