"""What a person does to nodes of the tree: branches, words, kernels."""

from __future__ import annotations

from pathlib import Path

from kerneltui.contract import skeleton
from kerneltui.records import DecisionKind, IdeaStatus, Language, Variant, in_order
from kerneltui.tui import words
from kerneltui.tui.outline import NodeKind
from kerneltui.tui.screens.governing import Governing
from kerneltui.tui.signatures import signature
from kerneltui.tui.typed import language_of, read_kernel
from kerneltui.tui.undo import Step, inverse


class Hands(Governing):
    """Turns keys into decisions. One per main screen."""

    # ----------------------------------------------------------------- branches

    def prune(self) -> None:
        """Cut off, at once; a question only for many, or for a round."""
        row = self.screen.current
        whole = row is not None and row.kind is NodeKind.ROUND and not self.screen.model.marks
        ids = [id for id in self.targets() if not self._is_pruned(id)]
        if ids:
            self.prune_nodes(ids, row.id if whole and row else "")
        else:
            self.say("nothing here to prune; X restores what is pruned", "muted")

    def prune_nodes(self, ids: list[str], round_: str = "") -> None:
        """Cut these off, all of a round where one is named."""
        below = {variant.id for id in ids for variant in self.screen.model.outline.variants_below(id)}
        count = len(below | {id for id in ids if id in self.screen.model.tree.variants})
        name = f"pruned {_names(ids)}" + (f" with {words.count_text(count, 'variant')}" if count > len(ids) else "")
        done = [Step(kind=DecisionKind.PRUNE, target=id) for id in ids]
        undone = [Step(kind=DecisionKind.RESTORE, target=id) for id in ids]
        if round_ or count > self.screen.app.config.bulk_over:  # type: ignore[attr-defined]
            where = f" of all {words.count_text(len(ids), 'idea')} of round {round_[1:]}" if round_ else ""
            question = f"prune {words.count_text(count, 'variant')}{where}?"
            self.screen.confirm(question, lambda: self.do(name, done, undone))
        else:
            self.do(name, done, undone)

    def _is_pruned(self, id: str) -> bool:
        tree = self.screen.model.tree
        if id in tree.ideas:
            return tree.ideas[id].status in (IdeaStatus.PRUNED, IdeaStatus.REJECTED)
        return tree.variants[id].pruned

    def restore(self) -> None:
        """Take back a prune, a rejection or a merge."""
        ids = [id for id in self.targets() if self._is_pruned(id) or self._is_merged(id)]
        if not ids:
            self.say("nothing here was pruned", "muted")
            return
        self.do(f"restored {_names(ids)}", [Step(kind=DecisionKind.RESTORE, target=id) for id in ids],
                [Step(kind=DecisionKind.PRUNE, target=id) for id in ids])  # fmt: skip

    def _is_merged(self, id: str) -> bool:
        idea = self.screen.model.tree.ideas.get(id)
        return idea is not None and idea.status is IdeaStatus.MERGED

    def pin(self) -> None:
        """Pin, or unpin if all are pinned."""
        variant = self.one_variant()
        found = [v for v in self.variants() if v.id in self.screen.model.marks] or ([variant] if variant else [])
        if not found:
            self.say("pins are for variants: go to one first", "muted")
            return
        on = not all(v.pinned for v in found)
        kinds = (DecisionKind.PIN, DecisionKind.UNPIN) if on else (DecisionKind.UNPIN, DecisionKind.PIN)
        names = _names([v.id for v in found])
        self.do(f"{'pinned' if on else 'unpinned'} {names}", [Step(kind=kinds[0], target=v.id) for v in found],
                [Step(kind=kinds[1], target=v.id) for v in found])  # fmt: skip

    def retry(self) -> None:
        """Have variants written or judged again."""
        found = [v for v in self.variants() if words.is_failure(v)] or self.variants()[:1]
        self._retry(found)

    def retry_like(self) -> None:
        """The same for all that failed in the same way."""
        variant = self.one_variant() or next(iter(self.variants()), None)
        if variant is None or not words.is_failure(variant):
            self.say("go to a failed variant first", "muted")
            return
        wanted = signature(variant)
        every = self.screen.model.tree.variants.values()
        found = [v for v in every if words.is_failure(v) and signature(v) == wanted]
        self.screen.confirm(
            f"retry {words.count_text(len(found), 'variant')} like {variant.id}?", lambda: self._retry(found)
        )

    def _retry(self, found: list[Variant]) -> None:
        if found:
            steps = [Step(kind=DecisionKind.RETRY, target=v.id) for v in found]
            self.do(f"retry of {_names([v.id for v in found])} asked", steps, [])
        else:
            self.say("nothing here to retry", "muted")

    def certify(self) -> None:
        """Measure a variant again with every check."""
        variant = self.one_variant()
        if variant is None or not variant.candidate:
            self.say("go to a variant with code first", "muted")
        else:
            self.do(f"certifying {variant.id}", [Step(kind=DecisionKind.CERTIFY, target=variant.id)], [])

    # ----------------------------------------------------------------- words

    def note(self, text: str = "") -> None:
        """A remark that later prompts carry."""
        row, tree = self.screen.current, self.screen.model.tree
        target = row.id if row is not None and row.kind is not NodeKind.ROUND else ""
        before = (
            tree.ideas[target].note
            if target in tree.ideas
            else tree.variants[target].note
            if target
            else tree.settings.notes
        )

        def take(note: str) -> None:
            done = Step(kind=DecisionKind.NOTE, target=target, payload={"text": note})
            undone = Step(kind=DecisionKind.NOTE, target=target, payload={"text": before})
            self.do(f"noted on {target or 'the session'}", [done], [undone])

        if text:
            take(text)
        else:
            hint = "kept with the node, and given to the authors from now on"
            self.screen.ask(f"Note on {target or 'the session'}", take, value=before, hint=hint, check=_needs_text)

    def edit_idea(self) -> None:
        """Other words for an idea."""
        idea = self.idea()
        if idea is None:
            self.say("go to an idea, or a variant of one", "muted")
            return

        def take(text: str) -> None:
            title, _, body = text.strip().partition("\n")
            payload = {"title": title.strip(), "text": body.strip()}
            if (payload["title"], payload["text"]) == (idea.title.strip(), idea.text.strip()):
                self.say("the same words as before: nothing was sent", "muted")
                return
            undone = Step(kind=DecisionKind.EDIT, target=idea.id, payload={"title": idea.title, "text": idea.text})
            self.do(f"edited {idea.id}", [Step(kind=DecisionKind.EDIT, target=idea.id, payload=payload)], [undone])

        hint = "first line: title; the rest: what to do. + then writes more variants from it."
        self.screen.edit(
            f"Idea {idea.id}", f"{idea.title}\n\n{idea.text}", f"idea-{idea.id}", take, hint=hint, check=_needs_text
        )

    def add_idea(self) -> None:
        """A person's own idea, starting from the variant under the cursor."""
        variant = self.one_variant()
        parent = variant.id if variant is not None and variant.candidate else ""

        def take(text: str) -> None:
            title, _, body = text.strip().partition("\n")
            payload = {"title": title.strip(), "text": body.strip(), "parent": parent}
            self.do(f"idea added: {title.strip()[:40]}", [Step(kind=DecisionKind.ADD_IDEA, payload=payload)], [])

        hint = f"first line: title; the rest: what to do. It starts from {parent or 'the reference'}."
        self.screen.edit("A new idea", "", "idea-new", take, hint=hint, check=_needs_text)

    def expand(self, text: str = "") -> None:
        """More variants of an idea."""
        idea = self.idea()
        if idea is None:
            self.say("go to an idea, or a variant of one", "muted")
            return

        def take(count: str) -> None:
            step = Step(kind=DecisionKind.EXPAND, target=idea.id, payload={"count": int(count)})
            self.do(f"{count} more variants of {idea.id} asked", [step], [])

        def check(count: str) -> str:
            return "" if count.isdecimal() and int(count) > 0 else "a number from 1"

        if text and not check(text):
            take(text)
        else:
            self.screen.ask(f"More variants of {idea.id}", take, value="2", hint="how many", check=check)

    def set_status(self, kind: DecisionKind) -> None:
        """Approve or reject proposed ideas."""
        tree = self.screen.model.tree
        ids = [id for id in self.targets() if id in tree.ideas and tree.ideas[id].status is IdeaStatus.PROPOSED]
        if not ids:
            self.say("no proposed idea here", "muted")
            return
        self.decide_on(kind, ids)

    def decide_on(self, kind: DecisionKind, ids: list[str]) -> None:
        """The same for these ideas; undone, they are to be decided on again."""
        self.do(f"{kind}: {_names(ids)}", [Step(kind=kind, target=id) for id in ids], [inverse(kind, id) for id in ids])

    def move_idea(self, text: str) -> None:
        """Move the proposed idea before another of its round; without one, to the end."""
        idea = next((id for id in self.targets() if id in self.screen.model.tree.ideas), "")
        if not idea:
            self.say("no idea here", "muted")
            return
        self.move(idea, text.strip())

    def move(self, id: str, before: str) -> None:
        """Move an idea; undone by moving it back."""
        ideas = self.screen.model.tree.ideas
        row = [idea.id for idea in in_order(ideas.values()) if idea.round == ideas[id].round]
        next_ = row[row.index(id) + 1] if row.index(id) + 1 < len(row) else ""
        kind = DecisionKind.MOVE
        self.do(
            f"move: {id}",
            [Step(kind=kind, target=id, payload={"before": before})],
            [Step(kind=kind, target=id, payload={"before": next_})],
        )

    # ----------------------------------------------------------------- kernels

    def language(self) -> Language:
        """What this session searches."""
        contract = self.screen.model.contract
        if contract is not None:
            return contract.language
        device = self.screen.model.tree.status.device
        return Language.CUDA if device is not None and device.kind == "cuda" else Language.CPP

    def inject(self, path: str = "") -> None:
        """A kernel from a file, a paste, or the skeleton."""
        if path:
            text, problem = read_kernel(path)
            if problem:
                self.say(problem, "error")
            else:
                self._send_kernel(text, Path(path).name, language_of(path, self.language()), "")
            return
        contract = self.screen.model.contract
        start = skeleton(contract) if contract is not None else ""
        editor = self.screen.editor(
            "Inject a kernel", start, "inject", hint="the skeleton below has the signature that is wanted"
            if start else "no contract yet: the engine writes it when it first runs", path_line=True,
            read_path=read_kernel, check=_needs_text, send="injects it", suffix=".cu",
        )  # fmt: skip

        def take(text: str | None) -> None:
            if text is not None:
                name = Path(editor.path).name if editor.path else "by hand"
                self._send_kernel(text, name, language_of(editor.path, self.language()), "")

        self.screen.app.push_screen(editor, take)

    def fork(self) -> None:
        """A new variant from this one's source."""
        variant = self.one_variant()
        candidate = self.screen.model.candidate(variant)
        if variant is None or candidate is None:
            self.say("go to a variant with code first", "muted")
            return

        def take(text: str) -> None:
            if text.strip() == candidate.source.strip():
                self.say("the same text: nothing was sent", "muted")
            else:
                self._send_kernel(text, f"fork of {variant.id}", candidate.language, variant.id)

        self.screen.edit(
            f"Fork of {variant.id}",
            candidate.source,
            f"fork-{variant.id}",
            take,
            send="injects it",
            suffix=".cu",
            check=_needs_text,
        )

    def _send_kernel(self, source: str, name: str, language: Language, parent: str) -> None:
        payload = {"source": source, "language": str(language), "name": name, "parent": parent}
        self.do(f"injected {name}", [Step(kind=DecisionKind.INJECT, payload=payload)], [])


def _names(ids: list[str]) -> str:
    return ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")


def _needs_text(text: str) -> str:
    return "" if text.strip() else "there is nothing to send yet"
