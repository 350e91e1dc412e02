"""Decisions of people, carried out one by one and each answered in words."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import msgspec

from kerneltui.authors import IdeaDraft
from kerneltui.engine.judging import certify, keep_profile, profile
from kerneltui.engine.pasting import hand_row, idea_of, take_answer, variant_of, word_of
from kerneltui.engine.questions import add_ideas, with_candidate
from kerneltui.engine.session import NO_AUTHOR, Session
from kerneltui.errors import UsageError, nearest
from kerneltui.records import (
    Budget,
    Candidate,
    Decision,
    DecisionKind,
    DecisionState,
    IdeaStatus,
    Language,
    Profile,
    SessionState,
    Settings,
    Variant,
    VariantState,
    in_order,
)
from kerneltui.search.steps import ON_DEVICE, SETTLED
from kerneltui.settings import dump_settings, parse_settings

SOURCE_LIMIT = 2_000_000  # characters of an injected kernel
EXPAND_LIMIT = 64
DRAINING = "stops once what runs is finished"
BRINGS_WORK = (DecisionKind.INJECT, DecisionKind.ANSWER)
NEED_THE_PROBLEM = (DecisionKind.INJECT, DecisionKind.ANSWER, DecisionKind.CERTIFY, DecisionKind.PROFILE)


async def carry_out_all(session: Session) -> None:
    """Carry out what is pending, in order; what needs the problem waits until that is prepared."""
    for decision in session.store.read_decisions(pending_only=True):
        if session.prepared is not None or decision.kind not in NEED_THE_PROBLEM:
            await carry_out(session, decision)


async def carry_out(session: Session, decision: Decision) -> None:
    """Do it and say so, or say why not."""
    try:
        await session.commit(
            lambda: _answer(session, decision, DecisionState.DONE, ACTS[decision.kind](session, decision))
        )
    except UsageError as error:
        refused = str(error)
        await session.commit(lambda: _answer(session, decision, DecisionState.REFUSED, refused))
        return
    if decision.kind in BRINGS_WORK and session.status.reason.startswith(NO_AUTHOR):
        await session.set_status(state=SessionState.RUNNING, reason="")  # what a person brought needs no author
    if decision.kind is DecisionKind.CERTIFY:
        session.begin(("certify", decision.target), certify(session, decision.target))
    if decision.kind is DecisionKind.PROFILE and "profile" not in decision.payload:
        session.begin(("profile", decision.target), profile(session, decision.target))


def _answer(session: Session, decision: Decision, state: DecisionState, words: str) -> None:
    session.store.finish_decision(decision.id, state, words)
    refused = "refused: " if state is DecisionState.REFUSED else ""
    session.say(
        decision.who or "someone",
        "decision",
        f"{decision.kind} {decision.target}: {refused}{words}".replace(" :", ":"),
        decision.target,
    )


# --------------------------------------------------------------------------- ideas


def approve(session: Session, decision: Decision) -> str:
    """A proposed idea is written from."""
    return _set_idea(session, decision, IdeaStatus.APPROVED, "approved")


def reject(session: Session, decision: Decision) -> str:
    """A proposed idea is not written from."""
    return _set_idea(session, decision, IdeaStatus.REJECTED, "rejected")


def _set_idea(session: Session, decision: Decision, status: IdeaStatus, word: str) -> str:
    idea = idea_of(session, decision)
    session.store.put_ideas([replace(idea, status=status, merged_into=None)])
    return f"{word} `{idea.title}`"


def move(session: Session, decision: Decision) -> str:
    """A proposed idea before another of its round, or behind them all."""
    idea, before = idea_of(session, decision), word_of(decision, "before", False)
    ideas = session.tree.ideas
    others = [other for other in in_order(ideas.values()) if other.round == idea.round and other.id != idea.id]
    names = [other.id for other in others]
    if before and before not in names:
        raise UsageError(f"`{before}` is no other idea of round {idea.round}")
    others.insert(names.index(before) if before else len(others), idea)
    session.store.put_ideas([replace(each, place=place) for place, each in enumerate(others) if each.place != place])
    return f"moved before {before}" if before else "moved to the end"


def edit(session: Session, decision: Decision) -> str:
    """Other words for an idea; what was written from it stays."""
    idea = idea_of(session, decision)
    title, text = word_of(decision, "title", False), word_of(decision, "text", False)
    if not title.strip() and not text.strip():
        raise UsageError("an edit needs a title or a text")
    session.store.put_ideas([replace(idea, title=title or idea.title, text=text or idea.text, human=True)])
    written = sum(v.candidate is not None for v in session.tree.of_idea(idea.id))
    return f"edited; {written} variants were written from the old words" if written else "edited"


def add_idea(session: Session, decision: Decision) -> str:
    """A person's own idea."""
    title, parent = word_of(decision, "title"), word_of(decision, "parent", False)
    if parent and parent not in session.tree.variants:
        raise UsageError(f"there is no variant `{parent}` to start from")
    draft = IdeaDraft(title=title, text=word_of(decision, "text", False))
    round_ = max(1, session.status.round)
    made = add_ideas(session, (draft,), parent=parent or None, round=round_, author=decision.who or "hand", human=True)
    able = any(author.settings.kind != "playbook" for author in session.authors.values())
    return f"added as {made[0].id}" + (
        "" if able else "; no author here can write it: paste an answer, or inject a kernel"
    )


def expand(session: Session, decision: Decision) -> str:
    """More variants of one idea."""
    idea, count = idea_of(session, decision), decision.payload.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= EXPAND_LIMIT:
        raise UsageError(f"count is {count!r}; 1 to {EXPAND_LIMIT} more variants can be asked for")
    rows = [
        Variant(
            id=session.store.next_variant_id(),
            idea=idea.id,
            round=idea.round,
            parent=idea.parent,
            author=idea.author,
            created=time.time(),
        )
        for _ in range(count)
    ]
    session.put(*rows)
    if idea.status is not IdeaStatus.APPROVED:
        session.store.put_ideas([replace(idea, status=IdeaStatus.APPROVED, merged_into=None)])
    return f"{count} more to be written"


# --------------------------------------------------------------------------- branches


def prune(session: Session, decision: Decision) -> str:
    """Cut a branch off; what runs in it is let run on for some seconds, so that it can be restored."""
    if decision.target in session.tree.ideas:
        return _set_idea(session, decision, IdeaStatus.PRUNED, "pruned")
    session.put(replace(variant_of(session, decision), pruned=True, pinned=False))
    return "pruned, with all below it"


def restore(session: Session, decision: Decision) -> str:
    """Undo a prune, a rejection or a merge; what was cancelled waits again. An idea may be put up for decision again."""
    if decision.payload.get("proposed"):
        return propose_again(session, decision)
    if decision.target in session.tree.ideas:
        words = _set_idea(session, decision, IdeaStatus.APPROVED, "restored")
    else:
        session.put(replace(variant_of(session, decision), pruned=False))
        words = "restored"
    below = _below(session, decision.target)
    again = [_uncancelled(v) for v in below if v.state is VariantState.CANCELLED]
    session.put(*[replace(v, pruned=False) if v.id == decision.target else v for v in again])
    return words + (f"; {len(again)} that were cancelled are taken up again" if again else "")


def propose_again(session: Session, decision: Decision) -> str:
    """Undo an approval or a rejection: to be decided on again, unless its code is being written already."""
    if session.tree.of_idea(idea_of(session, decision).id):
        return _set_idea(session, decision, IdeaStatus.REJECTED, "code was being written already; rejected")
    return _set_idea(session, decision, IdeaStatus.PROPOSED, "to be decided on again:")


def _uncancelled(variant: Variant) -> Variant:
    if variant.outcome is not None:
        return replace(variant, state=VariantState.DONE)
    return replace(variant, state=VariantState.WRITTEN if variant.candidate else VariantState.WAITING)


def _below(session: Session, node: str) -> list[Variant]:
    """Every variant at or under an idea or a variant."""
    inside = {node}
    found: list[Variant] = []
    for variant in session.tree.variants.values():  # parents come before children
        idea = session.tree.ideas.get(variant.idea or "")
        above = {variant.id, variant.idea, variant.parent, idea.parent if idea else None}
        if above & inside:
            inside.add(variant.id)
            found.append(variant)
    return found


def pin(session: Session, decision: Decision) -> str:
    """A variant goes on into every round."""
    variant = variant_of(session, decision)
    if session.tree.is_pruned(variant):
        raise UsageError(f"{variant.id} is pruned; restore it first")
    session.put(replace(variant, pinned=True))
    return "pinned: it goes on into every round"


def unpin(session: Session, decision: Decision) -> str:
    """A variant goes on by merit only."""
    session.put(replace(variant_of(session, decision), pinned=False))
    return "not pinned any more"


def note(session: Session, decision: Decision) -> str:
    """A person's words on a node, given to authors."""
    text = word_of(decision, "text", False)
    if not decision.target:
        _write_settings(session, replace(session.store.settings(), notes=text))
        return "noted for every author"
    if decision.target in session.tree.ideas:
        session.store.put_ideas([replace(idea_of(session, decision), note=text)])
    else:
        session.put(replace(variant_of(session, decision), note=text))
    return "noted"


# --------------------------------------------------------------------------- variants


def inject(session: Session, decision: Decision) -> str:
    """A person's own kernel."""
    source, word = word_of(decision, "source"), word_of(decision, "language", False) or str(session.language)
    if len(source) > SOURCE_LIMIT or "\0" in source:
        raise UsageError(f"this is no kernel source: {len(source):,} characters, or binary")
    if word not in list(Language):
        raise UsageError(f"language is `{word}`{nearest(word, [str(language) for language in Language])}")
    if Language(word) not in (session.language, Language.PYTHON):
        kind = session.status.device.kind if session.status.device else "unknown"
        raise UsageError(f"this session is on a {kind} device, which takes {session.language}")
    parent = word_of(decision, "parent", False)
    if parent and parent not in session.tree.variants:
        raise UsageError(f"there is no variant `{parent}` to hang it under")
    row = hand_row(session, decision, parent or None)
    made = with_candidate(
        session, row, Candidate(source=source, language=Language(word)), word_of(decision, "name", False)
    )
    session.put(made)
    return f"injected as {made.id}"


def retry(session: Session, decision: Decision) -> str:
    """Write again what no author could write; judge again what was judged."""
    variant = variant_of(session, decision)
    if variant.state not in SETTLED:
        raise UsageError(f"{variant.id} is not finished yet: {variant.state}")
    if session.tree.is_pruned(variant):
        raise UsageError(f"{variant.id} is pruned; restore it first")
    if variant.candidate is None:
        session.put(replace(variant, state=VariantState.WAITING, author_error="", call=None))
        return "to be written again"
    fresh = replace(variant, state=VariantState.WRITTEN, attempts=variant.attempts + 1, outcome=None, stage=None)
    fresh = replace(fresh, message="", median_us=None, speedup=None, badge=None, same_as=None, screened=False)
    session.put(fresh)
    return "to be judged again"


def certify_later(session: Session, decision: Decision) -> str:
    """Measure a variant again with every check."""
    variant = variant_of(session, decision)
    if variant.candidate is None or variant.state in ON_DEVICE:
        raise UsageError(f"{variant.id} has no finished kernel to certify")
    return "being certified"


def profile_later(session: Session, decision: Decision) -> str:
    """Count what a variant's kernel does; keep what a command has counted already."""
    variant = variant_of(session, decision)
    if variant.candidate is None or variant.state in ON_DEVICE:
        raise UsageError(f"{variant.id} has no finished kernel to profile")
    if "profile" not in decision.payload:
        return "being profiled"
    try:
        found = msgspec.convert(decision.payload["profile"], Profile)
    except msgspec.ValidationError as error:
        raise UsageError(f"this is no profile: {error}") from error
    keep_profile(session, variant.id, found)
    return "its profile is kept"


# --------------------------------------------------------------------------- session


def pause(session: Session, decision: Decision) -> str:
    """Begin nothing new; what runs is finished."""
    _set_state(session, SessionState.PAUSED, f"paused by {decision.who or 'a person'}")
    return "paused: what runs is finished, nothing new is begun"


def resume(session: Session, decision: Decision) -> str:
    """Go on; authors that were out are asked again."""
    session.out.clear()
    session.broke.clear()
    session.trouble.clear()
    _set_state(session, SessionState.RUNNING, "")
    return "going on"


def stop(session: Session, decision: Decision) -> str:
    """End the search, at once or once what runs is finished; it can be run again."""
    if decision.payload.get("drain"):
        _set_state(session, SessionState.PAUSED, f"{DRAINING} (asked by {decision.who or 'a person'})")
        return "stops once what runs is finished; resume goes on after all"
    _set_state(session, SessionState.STOPPED, f"stopped by {decision.who or 'a person'}")
    return "stopped"


def _set_state(session: Session, state: SessionState, reason: str) -> None:
    session.status = replace(session.status, state=state, reason=reason)
    session.store.put_status(session.status)


def change_budget(session: Session, decision: Decision) -> str:
    """Other caps or rounds, written to session.toml."""
    settings = session.store.settings()
    known = {field.name for field in fields(Budget)}
    budget: dict[str, Any] = {}
    rounds = settings.rounds
    for key, value in decision.payload.items():
        if key not in known | {"rounds"}:
            raise UsageError(f"`{key}` is no budget{nearest(key, known | {'rounds'})}")
        number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        if not number and not (value is None and key != "rounds"):
            raise UsageError(f"{key} is {value!r}; a number of 0 or more is expected, or null for no cap")
        whole = key in ("rounds", "tokens", "evaluations", "plateau_rounds")
        value = int(value) if whole and value is not None else value
        if key == "rounds":
            rounds = value
        else:
            budget[key] = value
    _write_settings(session, replace(settings, rounds=rounds, budget=replace(settings.budget, **budget)))
    session.broke.clear()
    return ", ".join(f"{key} = {'no cap' if value is None else value}" for key, value in decision.payload.items())


def _write_settings(session: Session, settings: Settings) -> None:
    parse_settings(dump_settings(settings), "session.toml")  # what could not be read back is not written
    try:
        session.store.write_settings(settings)
    except OSError as error:
        raise UsageError(f"session.toml cannot be written: {error.strerror or error}") from error


ACTS: dict[DecisionKind, Callable[[Session, Decision], str]] = {
    DecisionKind.APPROVE: approve,
    DecisionKind.REJECT: reject,
    DecisionKind.MOVE: move,
    DecisionKind.PRUNE: prune,
    DecisionKind.RESTORE: restore,
    DecisionKind.EDIT: edit,
    DecisionKind.ADD_IDEA: add_idea,
    DecisionKind.INJECT: inject,
    DecisionKind.ANSWER: take_answer,
    DecisionKind.PIN: pin,
    DecisionKind.UNPIN: unpin,
    DecisionKind.RETRY: retry,
    DecisionKind.NOTE: note,
    DecisionKind.EXPAND: expand,
    DecisionKind.CERTIFY: certify_later,
    DecisionKind.PROFILE: profile_later,
    DecisionKind.PAUSE: pause,
    DecisionKind.RESUME: resume,
    DecisionKind.BUDGET: change_budget,
    DecisionKind.STOP: stop,
}
