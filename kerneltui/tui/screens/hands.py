"""What a person does to the search: every decision that the main screen can send, and its undo."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kerneltui.contract import skeleton
from kerneltui.errors import KernelTuiError
from kerneltui.records import DecisionKind, IdeaStatus, Language, SessionState, Variant, in_order
from kerneltui.tui import words
from kerneltui.tui.engines import is_running, start_engine
from kerneltui.tui.outline import NodeKind
from kerneltui.tui.screens.selection import Selection
from kerneltui.tui.signatures import signature
from kerneltui.tui.typed import language_of, read_budget, read_kernel
from kerneltui.tui.undo import Deed, History, Step, made_node

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen


class Hands(Selection):
    """Turns keys into decisions. One per main screen."""

    def __init__(self, screen: MainScreen) -> None:
        super().__init__(screen)
        self.history = History()

    # ----------------------------------------------------------------- sending

    def send(self, steps: Iterable[Step]) -> list[int]:
        """Write decisions; their ids, none if the session cannot be written."""
        try:
            return [self.screen.model.decide(step.kind, step.target, step.payload) for step in steps]
        except KernelTuiError as error:
            self.screen.say(str(error), "error")
            return []

    def do(self, title: str, done: list[Step], undone: list[Step]) -> None:
        """Send, remember, and say so."""
        sent = self.send(done)
        if not sent:
            return
        creates = done[0].kind in (DecisionKind.INJECT, DecisionKind.ADD_IDEA)
        if undone or creates:
            deed = Deed(title=title, done=tuple(done), undone=tuple(undone), made_by=sent[0] if creates else None)
            self.history.add(deed)
        waits = "  (waits for an engine: S starts it)" if self.screen.model.is_resting() else ""
        self.screen.say(f"{title}{'; z undoes' if undone or creates else ''}{waits}", "human")

    def undo(self) -> None:
        """Take back the last deed."""
        deed = self.history.take_back()
        if deed is None:
            self.screen.say("nothing to undo in this viewer", "muted")
            return
        steps = list(deed.undone)
        if deed.made_by is not None:
            made = made_node(self.screen.model.store.read_decisions(), deed.made_by)
            if made is None:
                self.history.do_again()
                self.screen.say(f"{deed.title}: the engine has not taken it up yet; undo it then", "warning")
                return
            steps = [Step(kind=DecisionKind.PRUNE, target=made)]
        if self.send(steps):
            self.screen.say(f"undone: {deed.title}; Z does it again", "human")

    def redo(self) -> None:
        """Do the last undone deed again."""
        deed = self.history.do_again()
        if deed is None:
            self.screen.say("nothing to redo", "muted")
        elif self.send(deed.done):
            self.screen.say(f"done again: {deed.title}", "human")

    # ----------------------------------------------------------------- branches

    def prune(self) -> None:
        """Cut off, at once; a question only for many."""
        ids = [id for id in self.targets() if not self._is_pruned(id)]
        if not ids:
            self.screen.say("nothing here to prune; X restores what is pruned", "muted")
            return
        count = sum(len(self.screen.model.outline.variants_below(id)) for id in ids)
        name = f"pruned {_names(ids)}" + (f" with {words.count_text(count, 'variant')}" if count > 1 else "")
        done = [Step(kind=DecisionKind.PRUNE, target=id) for id in ids]
        undone = [Step(kind=DecisionKind.RESTORE, target=id) for id in ids]
        if count > self.screen.app.config.bulk_over:  # type: ignore[attr-defined]
            question = f"prune {words.count_text(count, 'variant')}?"
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
            self.screen.say("nothing here was pruned", "muted")
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
            self.screen.say("pins are for variants: go to one first", "muted")
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
            self.screen.say("go to a failed variant first", "muted")
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
            self.screen.say("nothing here to retry", "muted")

    def certify(self) -> None:
        """Measure a variant again with every check."""
        variant = self.one_variant()
        if variant is None or not variant.candidate:
            self.screen.say("go to a variant with code first", "muted")
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
            self.do(f"noted on {target or 'the session'}", [done], [undone] if before.strip() else [])

        if text:
            take(text)
        else:
            hint = "kept with the node, and given to the authors from now on"
            self.screen.ask(f"Note on {target or 'the session'}", take, value=before, hint=hint, check=_needs_text)

    def edit_idea(self) -> None:
        """Other words for an idea."""
        idea = self.idea()
        if idea is None:
            self.screen.say("go to an idea, or a variant of one", "muted")
            return

        def take(text: str) -> None:
            title, _, body = text.strip().partition("\n")
            payload = {"title": title.strip(), "text": body.strip()}
            if (payload["title"], payload["text"]) == (idea.title.strip(), idea.text.strip()):
                self.screen.say("the same words as before: nothing was sent", "muted")
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
            self.screen.say("go to an idea, or a variant of one", "muted")
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
            self.screen.say("no proposed idea here", "muted")
            return
        other = DecisionKind.REJECT if kind is DecisionKind.APPROVE else DecisionKind.APPROVE
        self.do(
            f"{kind}: {_names(ids)}",
            [Step(kind=kind, target=id) for id in ids],
            [Step(kind=other, target=id) for id in ids],
        )

    def move_idea(self, text: str) -> None:
        """Move the proposed idea before another of its round; without one, to the end."""
        idea = next((id for id in self.targets() if id in self.screen.model.tree.ideas), "")
        if not idea:
            self.screen.say("no idea here", "muted")
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
                self.screen.say(problem, "error")
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
            self.screen.say("go to a variant with code first", "muted")
            return

        def take(text: str) -> None:
            if text.strip() == candidate.source.strip():
                self.screen.say("the same text: nothing was sent", "muted")
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

    # ----------------------------------------------------------------- the engine

    def pause(self, on: bool | None = None) -> None:
        """Pause, or resume."""
        paused = self.screen.model.tree.status.state is SessionState.PAUSED
        kind = DecisionKind.RESUME if (paused if on is None else not on) else DecisionKind.PAUSE
        self.do(
            "resume asked" if kind is DecisionKind.RESUME else "pause asked: what runs is finished",
            [Step(kind=kind)],
            [],
        )

    def start(self) -> None:
        """Start an engine where none runs."""
        model = self.screen.model
        if is_running(model.tree.status):
            self.screen.say(f"an engine runs already (pid {model.tree.status.pid})", "muted")
            return
        try:
            pid = start_engine(model.folder)
        except KernelTuiError as error:
            self.screen.say(str(error), "error")
            return
        self.screen.say(f"engine started, pid {pid}; its log is {model.folder / 'engine.log'}", "human")

    def budget(self, text: str = "") -> None:
        """Other caps."""
        if text:
            self._take_budget(text)
            return
        settings = self.screen.model.tree.settings
        hint = f"now: {settings.rounds} rounds, {words.budget_text(settings.budget)}.  usd tokens evaluations wall target plateau; off = no cap"
        self.screen.ask(
            "Budget, such as: rounds +2, usd 40, wall 2h", self._take_budget, hint=hint, check=self._check_budget
        )

    def _check_budget(self, text: str) -> str:
        try:
            read_budget(text, self.screen.model.tree.settings.rounds, self.screen.model.tree.settings.budget)
        except ValueError as error:
            return str(error)
        return ""

    def _take_budget(self, text: str) -> None:
        settings = self.screen.model.tree.settings
        try:
            payload = read_budget(text, settings.rounds, settings.budget)
        except ValueError as error:
            self.screen.say(str(error), "error")
            return
        before = {key: settings.rounds if key == "rounds" else getattr(settings.budget, key) for key in payload}
        self.do(
            f"budget: {text}",
            [Step(kind=DecisionKind.BUDGET, payload=payload)],
            [Step(kind=DecisionKind.BUDGET, payload=before)],
        )

    def stop(self) -> None:
        """End the search and close."""
        status = self.screen.model.tree.status
        busy = sum(bool(worker.doing) for worker in status.workers)
        question = f"stop the search ({words.count_text(busy, 'process')[:-1] + 'es' if busy != 1 else '1 process'} at work) and close?"

        def yes() -> None:
            if self.send([Step(kind=DecisionKind.STOP)]):
                self.screen.app.exit(0)

        self.screen.confirm(question, yes)


def _names(ids: list[str]) -> str:
    return ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")


def _needs_text(text: str) -> str:
    return "" if text.strip() else "there is nothing to send yet"
