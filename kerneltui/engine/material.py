"""From the tree to what an author may know."""

from __future__ import annotations

from collections import Counter

from kerneltui.authors import Material, Tried
from kerneltui.authors.sweep import Setting, declared, default_point
from kerneltui.engine.session import Session
from kerneltui.evaluator.profiling import profile_words
from kerneltui.records import Contract, Idea, Language, Variant, VariantState, is_ranked, sha256, standing
from kerneltui.search.ledger import ledger, lines

TEMPLATES = "prompts"  # folder in a session that overrides prompt templates


def gather(session: Session, parent: Variant | None, notes_of: Idea | None = None) -> Material:
    """Everything about the problem, the device and the tree that matters for a question on `parent`."""
    tree, prepared = session.tree, session.prepared
    if prepared is None:
        raise AssertionError("authors are asked after the evaluator has prepared")
    contract = prepared.contract or Contract(function="", language=Language.PYTHON, tensors=())
    source = session.source_of(parent) if parent else ""
    best = tree.best()
    verdict = session.store.read_verdict(best.id) if best else None
    return Material(
        problem=session.problem,
        contract=contract,
        device=prepared.device,
        language=session.language,
        round=session.status.round,
        parent=parent,
        parent_source=source,
        parent_verdict=session.store.read_verdict(parent.id) if parent else None,
        baselines_us=dict(prepared.baselines_us),
        floor_us=prepared.floor_us,
        best=verdict.measurement if verdict else None,
        tried=tried(session),
        notes=notes(session, parent, notes_of),
        ledger=lines(ledger([tree])),
        profile=profile_of(session, parent),
        templates=templates(session),
        policy=session.settings.policy,
        used_keys=frozenset(idea.key for idea in tree.ideas.values() if idea.key),
        new_keys=frozenset(i.key for i in tree.ideas.values() if i.key and i.round >= session.status.round),
        lineage=lineage_keys(session, parent),
        round_keys=frozenset(
            key for id_ in session.status.parents for key in lineage_keys(session, tree.variants.get(id_))
        ),
        tried_settings=frozenset(setting for setting, _ in settings_tried(session, source)) if source else frozenset(),
    )


def tried(session: Session) -> tuple[Tried, ...]:
    """Every idea with what became of its variants, in order."""
    found = []
    of_idea: dict[str, list[Variant]] = {}
    for variant in session.tree.variants.values():
        if variant.idea and variant.outcome is not None and variant.same_as is None:
            of_idea.setdefault(variant.idea, []).append(variant)
    for idea in session.tree.ideas.values():
        judged = of_idea.get(idea.id)
        if not judged:
            continue
        ranked = sorted((v for v in judged if is_ranked(v)), key=standing)
        best = ranked[0] if ranked else None
        outcomes = dict(Counter(str(variant.outcome) for variant in judged))
        found.append(
            Tried(
                idea=idea,
                outcomes=outcomes,
                best=best.speedup if best else None,
                median_us=best.median_us if best else None,
            )
        )
    return tuple(found)


def profile_of(session: Session, parent: Variant | None) -> dict[str, str]:
    """What was counted of the parent on a device like this one; nothing where it was not."""
    found = session.store.read_profile(parent.candidate) if parent and parent.candidate else None
    here = session.prepared.device.world if session.prepared else ""
    return profile_words(found) if found and found.device and found.device.world == here else {}


def notes(session: Session, parent: Variant | None, idea: Idea | None) -> tuple[str, ...]:
    """What people wrote: on the session, on the variant, on the idea."""
    said = (session.settings.notes, parent.note if parent else "", idea.note if idea else "")
    return tuple(note for note in said if note.strip())


def templates(session: Session) -> dict[str, str]:
    """Prompt templates that the session folder overrides, by file name."""
    folder = session.store.folder / TEMPLATES
    found = sorted(path for path in folder.glob("*") if path.is_file()) if folder.is_dir() else []
    return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in found}


def lineage_keys(session: Session, variant: Variant | None) -> tuple[str, ...]:
    """Keys of the ideas from the reference down to a variant."""
    keys: list[str] = []
    seen: set[str] = set()
    while variant is not None and variant.id not in seen:
        seen.add(variant.id)
        idea = session.tree.ideas.get(variant.idea) if variant.idea else None
        if idea is not None and idea.key and idea.key not in keys:
            keys.append(idea.key)
        variant = session.tree.variants.get(variant.parent or (idea.parent if idea else None) or "")
    return tuple(reversed(keys))


def settings_tried(session: Session, source: str) -> list[tuple[Setting, float | None]]:
    """Settings of one source's tunables that the tree holds, with the relative time of those that may be ranked."""
    tunables, wanted = declared(source), sha256(source)
    found = []
    for variant in session.tree.variants.values():
        if variant.source == wanted and variant.state is not VariantState.CANCELLED:
            ranked = is_ranked(variant) and session.tree.is_here(variant)
            cost = 1 / variant.speedup.ratio if ranked and variant.speedup else None
            found.append((default_point(tunables, source, variant.defines), cost))
    return found
