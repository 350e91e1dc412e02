from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltui.errors import SettingsError
from kerneltui.records import AuthorSettings, Budget, Policy, Settings
from kerneltui.settings import dump_settings, parse_settings

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
WORD = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
NUMBER = st.floats(0, 1e9)
COUNT = st.integers(1, 10**6)


def maybe(strategy: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | strategy


AUTHORS = st.builds(
    AuthorSettings,
    kind=st.sampled_from(["openai", "gemini", "playbook", "command"]),
    model=TEXT,
    name=TEXT,
    share=NUMBER,
    effort=TEXT,
    temperature=maybe(st.floats(0, 2)),
    max_tokens=maybe(COUNT),
    base_url=TEXT,
    api=st.sampled_from(["responses", "chat"]),
    api_key_env=st.sampled_from(["", "OPENAI_API_KEY"]),
    command=st.lists(WORD, min_size=1, max_size=3).map(tuple),
    timeout_s=st.floats(0.1, 1e6),
    thinking_budget=maybe(st.integers(-1, 10**6)),
    price_in_usd=maybe(NUMBER),
    price_out_usd=maybe(NUMBER),
    price_cached_usd=maybe(NUMBER),
)
SETTINGS = st.builds(
    Settings,
    problem=WORD.filter(lambda text: bool(text.strip())),
    rounds=COUNT,
    ideas=COUNT,
    variants=COUNT,
    beam=COUNT,
    repairs=st.integers(0, 9),
    per_idea=COUNT,
    per_lineage=COUNT,
    wildcard=st.floats(0, 1),
    close_at=st.floats(0, 1),
    sweep_points=st.integers(0, 99),
    review=st.booleans(),
    seed=st.integers(0, 2**63 - 1),
    authors=st.lists(AUTHORS, max_size=3).map(tuple),
    budget=st.builds(
        Budget,
        usd=maybe(NUMBER),
        tokens=maybe(COUNT),
        evaluations=maybe(COUNT),
        wall_s=maybe(st.floats(0.1, 1e9)),
        target_speedup=maybe(st.floats(0.1, 1e9)),
        plateau_rounds=maybe(COUNT),
    ),
    policy=st.builds(Policy, library_calls=st.booleans(), lower_precision=st.booleans(), fast_math=st.booleans()),
    device=WORD,
    devices=st.lists(WORD, max_size=2).map(tuple),
    sizes=st.dictionaries(WORD, COUNT, max_size=3),
    tolerance=st.sampled_from(["", "kernelbench", "crfm", "strict"]),
    deadline_s=st.floats(0.1, 1e6),
    notes=TEXT,
)


@given(SETTINGS)
def test_what_is_written_is_read_back(settings: Settings) -> None:
    assert parse_settings(dump_settings(settings), "session.toml") == settings


def test_a_problem_is_enough() -> None:
    assert parse_settings('problem = "softmax"', "session.toml") == Settings(problem="softmax")


def test_no_author_table_written_means_none() -> None:
    settings = replace(Settings(problem="softmax"), authors=())
    assert parse_settings(dump_settings(settings), "session.toml").authors == ()


def test_tables() -> None:
    text = """
    problem = "p.py"
    rounds = 3
    deadline_s = 5
    [sizes]
    ROWS = 64
    [budget]
    usd = 2
    [policy]
    library_calls = true
    [[author]]
    kind = "openai"
    model = "o3"
    share = 2
    [[author]]
    kind = "command"
    command = ["claude", "-p"]
    """
    expected = Settings(
        problem="p.py",
        rounds=3,
        deadline_s=5.0,
        sizes={"ROWS": 64},
        budget=Budget(usd=2.0),
        policy=Policy(library_calls=True),
        authors=(
            AuthorSettings(kind="openai", model="o3", share=2.0),
            AuthorSettings(kind="command", command=("claude", "-p")),
        ),
    )
    assert parse_settings(text, "session.toml") == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("raunds = 3", "session.toml: `raunds` is no setting; did you mean `rounds`?"),
        ("authors = 3", "session.toml: `authors` is no setting; did you mean `author`?"),
        ("[budget]\nusb = 3", "session.toml: [budget] `usb` is no setting; did you mean `usd`?"),
        (
            "[policy]\nxyz = 3",
            "session.toml: [policy] `xyz` is no setting; known are fast_math, library_calls, lower_precision.",
        ),
        (
            '[[author]]\nkind = "openai"\nmodle = "o3"',
            "session.toml: [[author]] 1: `modle` is no setting; did you mean `model`?",
        ),
        ('rounds = "three"', "session.toml: `rounds` is 'three'; a whole number from 1 is expected."),
        ("rounds = 0", "session.toml: `rounds` is 0; a whole number from 1 is expected."),
        ("rounds = 2.5", "session.toml: `rounds` is 2.5; a whole number from 1 is expected."),
        ("rounds = true", "session.toml: `rounds` is true; a whole number from 1 is expected."),
        ("close_at = 1.5", "session.toml: `close_at` is 1.5; a number from 0 to 1 is expected."),
        ("deadline_s = 0", "session.toml: `deadline_s` is 0; a number above 0 is expected."),
        ("deadline_s = inf", "session.toml: `deadline_s` is inf; a number above 0 is expected."),
        ("review = 1", "session.toml: `review` is 1; true or false is expected."),
        ("notes = 1", "session.toml: `notes` is 1; a text is expected."),
        ("devices = 'cuda'", "session.toml: `devices` is 'cuda'; a list of texts is expected."),
        ("budget = 3", "session.toml: [budget] is 3; a table is expected."),
        (
            "[author]\nkind = 'openai'",
            "session.toml: `author` is {'kind': 'openai'}; tables headed [[author]] are expected.",
        ),
        (
            "[sizes]\nROWS = 0",
            "session.toml: `sizes` is {'ROWS': 0}; a table of NAME = whole number from 1 is expected.",
        ),
        (
            "tolerance = 'loose'",
            "session.toml: `tolerance` is 'loose'; one of '', 'kernelbench', 'crfm', 'strict' is expected.",
        ),
        (
            "[[author]]\nmodel = 'o3'",
            "session.toml: [[author]] 1: `kind` is missing; "
            "one of 'openai', 'gemini', 'command', 'playbook' is expected.",
        ),
        (
            "[[author]]\nkind = 'gemini'\nshare = -1",
            "session.toml: [[author]] 1: `share` is -1; a number from 0 is expected.",
        ),
        (
            "[[author]]\nkind = 'command'",
            'session.toml: [[author]] 1: `command` is missing; give the program, as in command = ["claude", "-p"].',
        ),
    ],
)
def test_what_cannot_be_followed_is_named(text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_settings(f'problem = "softmax"\n{text}', "session.toml")
    assert str(raised.value) == sentence


@pytest.mark.parametrize("text", ["", "rounds = 3", 'problem = "  "'])
def test_a_problem_is_needed(text: str) -> None:
    with pytest.raises(SettingsError, match=r"`problem` is (missing|empty)"):
        parse_settings(text, "session.toml")


def test_broken_toml_names_the_line() -> None:
    with pytest.raises(SettingsError, match=r"session.toml: not valid TOML: .*line 2"):
        parse_settings('problem = "softmax"\nrounds = = 3', "session.toml")


def test_a_key_in_the_wrong_place_is_not_shown() -> None:
    text = 'problem = "softmax"\n[[author]]\nkind = "openai"\napi_key_env = "sk-live-0123"'
    with pytest.raises(SettingsError) as raised:
        parse_settings(text, "session.toml")
    assert "sk-live" not in str(raised.value)
    assert "`api_key_env` is not the name of an environment variable" in str(raised.value)
