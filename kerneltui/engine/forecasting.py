"""The forecast of a session's next round, with worst cases from its authors' prices and prompts."""

from __future__ import annotations

from collections.abc import Sequence

from kerneltui.authors.money import worst_case
from kerneltui.authors.prompt import read_template
from kerneltui.engine.pasting import open_to_look, question_on
from kerneltui.engine.session import Session
from kerneltui.errors import UsageError
from kerneltui.records import AuthorSettings
from kerneltui.search.forecast import Forecast, WorstCases, forecast
from kerneltui.search.plan import SCRIPTED
from kerneltui.store import Store

CONTEXT_CHARACTERS = 8_000  # contract, device, rules and a parent's source, where no prompt can be made yet


def forecast_of(store: Store) -> Forecast:
    """The next round of a session, from outside of its engine."""
    tree = store.read_tree()
    try:
        prompt = question_on(open_to_look(store), "reference", "ideas").prompt
    except UsageError:
        prompt = store.read_problem().source + read_template("ideas.md") + " " * CONTEXT_CHARACTERS
    return forecast(tree, tree.settings, worst_cases(tree.settings.authors, prompt))


def forecast_in(session: Session, parents: Sequence[str]) -> Forecast:
    """The round that is about to open."""
    longest = max(
        (node for node in parents if node), key=lambda n: len(session.source_of(session.tree.variants[n])), default=""
    )
    prompt = question_on(session, longest, "ideas").prompt
    worst = worst_cases(session.settings.authors, prompt)
    out = {*session.out, *session.broke}
    return forecast(session.tree, session.settings, worst, parents=parents, out=out)


def worst_cases(authors: Sequence[AuthorSettings], prompt: str) -> WorstCases:
    """The most tokens and dollars of one question like this, by author."""
    return {a.label: (0, 0.0) if a.kind in SCRIPTED else worst_case(prompt, a) for a in authors}
