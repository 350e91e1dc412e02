"""The forecast of a session's next round, with worst cases from its authors' prices and prompts."""

from __future__ import annotations

from collections.abc import Sequence

from kerneltui.authors.money import worst_cases
from kerneltui.authors.prompt import first_prompt
from kerneltui.engine.pasting import open_to_look, question_on
from kerneltui.engine.session import Session
from kerneltui.errors import UsageError
from kerneltui.search.forecast import Forecast, forecast
from kerneltui.store import Store


def forecast_of(store: Store) -> Forecast:
    """The next round of a session, from outside of its engine."""
    tree = store.read_tree()
    try:
        prompt = question_on(open_to_look(store), "reference", "ideas").prompt
    except UsageError:
        prompt = first_prompt(store.read_problem())
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
