"""Prices, costs and worst cases; unknown is None, never 0."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kerneltui.authors.money import (
    EXTRA_TOKENS,
    SHIPPED,
    Price,
    cost_usd,
    estimate_tokens,
    find_price,
    own_prices,
    read_prices,
    worst_case,
)
from kerneltui.errors import SettingsError
from kerneltui.records import AuthorSettings


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def settings(model: str = "o3", **changes: float | int | None) -> AuthorSettings:
    return AuthorSettings(kind="openai", model=model, **changes)  # type: ignore[arg-type]


def write_own(text: str) -> None:
    own_prices().parent.mkdir(parents=True, exist_ok=True)
    own_prices().write_text(text)


def test_the_shipped_table_can_be_read() -> None:
    prices = read_prices(SHIPPED)
    assert {"o3", "gemini-2.5-pro"} <= set(prices)
    for price in prices.values():
        assert 0 < price.in_usd < price.out_usd
        assert price.cached_usd is None or price.cached_usd < price.in_usd
        assert price.most_tokens is not None and price.most_tokens >= 8192
        assert price.source == "prices.toml, list price of 2025, check"


NAMES = {"o3": True, "O3": True, "o3-2025-04-16": True, "models/gemini-2.5-pro": True, "gemini-2.5-pro-latest": True}
UNKNOWN = {"": False, "o3-ultra": False, "openai/o3": False, "gemini-9": False}


@pytest.mark.parametrize("model", NAMES | UNKNOWN)
def test_models_by_name(model: str) -> None:
    assert (find_price(settings(model)) is not None) == (NAMES | UNKNOWN)[model]


def test_own_table_goes_before_the_shipped_one_and_settings_before_both() -> None:
    write_own('as_of = "today"\n[models.o3]\nin_usd = 7\nout_usd = 9\n[models."my/model"]\nin_usd = 0\nout_usd = 0\n')
    price = find_price(settings())
    assert price == Price(in_usd=7, out_usd=9, source="prices.toml, today")
    free = find_price(settings("my/model"))
    assert free is not None and free.free
    own = find_price(settings("o3", price_in_usd=1.0))
    assert own == Price(in_usd=1.0, out_usd=9, source="session.toml")
    assert find_price(settings("unheard-of", price_in_usd=1.0)) is None
    write_own("[models.o3]\nin_usd = 8\nout_usd = 9\n")
    changed = find_price(settings())
    assert changed is not None and changed.in_usd == 8


@pytest.mark.parametrize(
    "text",
    ["[models.o3]\nin_usd = 1\n", "[models.o3]\nin_usd = -1\nout_usd = 1\n", '[models.o3]\nin_usd = "1"\nout_usd = 1\n',
     "[models.o3]\nin = 1\nout_usd = 1\n", "models = 3\n", "[models]\no3 = 2\n", "not toml", "[models.o3]\nin_usd = nan\nout_usd = 1\n"],
)  # fmt: skip
def test_a_wrong_table_is_an_error_that_names_the_file(text: str) -> None:
    write_own(text)
    with pytest.raises(SettingsError, match=r"prices\.toml"):
        find_price(settings())


def test_costs() -> None:
    price = Price(in_usd=2.0, out_usd=8.0, cached_usd=0.5)
    assert cost_usd(price, 1_000_000, 500_000, 400_000) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.5 * 8)
    assert cost_usd(price, 1000, 0, 5000) == pytest.approx(1000 * 0.5 / 1e6)
    assert cost_usd(Price(in_usd=2.0, out_usd=8.0), 1000, 10, 1000) == pytest.approx((2000 + 80) / 1e6)
    assert cost_usd(price, None, 10, 0) is None
    assert cost_usd(price, 10, None, 0) is None
    assert cost_usd(None, 10, 10, 0) is None
    assert cost_usd(Price(in_usd=0, out_usd=0), None, None, None) == 0.0


def test_long_prompts_have_their_own_price() -> None:
    price = find_price(settings("gemini-2.5-pro"))
    assert cost_usd(price, 200_000, 1000, 0) == pytest.approx(0.2 * 1.25 + 0.001 * 10)
    assert cost_usd(price, 200_001, 1000, 0) == pytest.approx(0.200001 * 2.5 + 0.001 * 15)


def test_the_worst_case_needs_a_cap_and_a_price() -> None:
    prompt = "x" * 2000
    tokens_in = 1000 + EXTRA_TOKENS
    assert estimate_tokens(prompt) == tokens_in
    tokens, usd = worst_case(prompt, settings(max_tokens=4096))
    assert (tokens, usd) == (tokens_in + 4096, pytest.approx((tokens_in * 2 + 4096 * 8) / 1e6))
    assert worst_case(prompt, settings())[0] == tokens_in + 100_000  # the most that o3 can write
    assert worst_case(prompt, settings("unheard-of")) == (None, None)
    assert worst_case(prompt, settings("unheard-of", max_tokens=10)) == (tokens_in + 10, None)
    assert worst_case(prompt, settings("mine", price_in_usd=0.0, price_out_usd=0.0)) == (None, 0.0)


def test_estimates_are_never_below_what_tokenizers_make() -> None:
    """Gemini makes one token of each digit, and others at most one of each character of rare scripts."""
    for text in ("0123456789" * 100, "試験" * 100, "    for (int i = 0; i < n; ++i) {\n" * 50):
        digits = sum(char.isdigit() for char in text)
        assert estimate_tokens(text) >= max(digits / 2, len(text) / 3.5)
    assert math.isfinite(estimate_tokens("\ud800"))
