"""A session once more: its stored answers and verdicts through the search, without network, clock or device.

Whatever was begun must be what `next_steps` asks for, whatever an answer holds is read again, ideas are compared with
those before, sweeps are worked out, rounds are selected; and every id, parent, status and selection must come out as
recorded. The first difference ends it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kerneltui.engine.decisions import ACTS
from kerneltui.engine.differences import Differs, compare_finish, compare_trees, name_all, same, same_row, told_step
from kerneltui.engine.happenings import (
    Answered,
    Asked,
    AuthorLeft,
    Decided,
    EngineStarted,
    Finished,
    Happening,
    Judged,
    RoundOpened,
    RowMade,
    read_happenings,
)
from kerneltui.engine.judging import judged_twin, known_verdict, put_sweep, summarise
from kerneltui.engine.pasting import open_to_look
from kerneltui.engine.questions import add_ideas, filled, with_candidate
from kerneltui.engine.recovery import mend
from kerneltui.engine.rereading import bare_row, draft_of, reread
from kerneltui.engine.session import Session
from kerneltui.errors import KernelTuiError, UsageError
from kerneltui.records import (
    Call,
    CallState,
    Decision,
    DecisionKind,
    Idea,
    SessionState,
    Tree,
    Variant,
    VariantKind,
    VariantState,
    Verdict,
)
from kerneltui.search.plan import SCRIPTED, next_steps
from kerneltui.search.steps import Evaluate, Open, Propose, Repair, Step, Sweep, Write
from kerneltui.store import Store

WAKE = (DecisionKind.RESUME, DecisionKind.BUDGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay found; `difference` is "" where the tree is the same."""

    happenings: int
    rounds: tuple[tuple[int, tuple[str, ...]], ...]  # with the parents that were selected
    ideas: int
    variants: int
    calls: int
    difference: str = ""


def replay(store: Store, work: Path) -> Replayed:
    """Run a session again in the empty folder `work`.

    Raises:
        UsageError: no engine ever prepared it, so there is nothing to replay.
    """
    recorded = open_to_look(store)
    with Store.create(work, recorded.settings, recorded.problem) as fresh:
        played = _Replay(recorded, fresh)
        try:
            for happening in read_happenings(store, recorded.tree):
                played.happen(happening)
            played.compare_ends()
        except Differs as error:
            return played.found(str(error))
        except KernelTuiError as error:
            return played.found(f"after {played.happenings} happenings: {error}")
        return played.found()


class _Replay:
    def __init__(self, recorded: Session, fresh: Store) -> None:
        self.then = recorded.tree
        self.recorded = recorded
        tree = fresh.read_tree()
        self.session = Session(
            store=fresh,
            tree=tree,
            settings=recorded.settings,
            problem=recorded.problem,
            prepared=recorded.prepared,
            status=replace(tree.status, worlds=recorded.status.worlds, device=recorded.status.device),
        )
        self.tree.status = self.session.status
        self.scripted = {a.label for a in recorded.settings.authors if a.kind in SCRIPTED}
        self.verdicts: dict[str, list[Verdict]] = {}
        for variant, verdict in recorded.store.read_verdicts():
            self.verdicts.setdefault(variant, []).append(verdict)
        self.writes: Counter[tuple[str, str]] = Counter()  # asked for and not begun, by idea and author
        self.sweeps: dict[str, Sweep] = {}  # likewise, by root
        self.counts: dict[int, int] = {}  # ideas that a question asks for
        self.certifying: Counter[str] = Counter()
        self.rounds: list[tuple[int, tuple[str, ...]]] = []
        self.happenings = 0

    @property
    def tree(self) -> Tree:
        return self.session.tree

    def found(self, difference: str = "") -> Replayed:
        return Replayed(
            happenings=self.happenings,
            rounds=tuple(self.rounds),
            ideas=len(self.tree.ideas),
            variants=len(self.tree.variants),
            calls=len(self.tree.calls),
            difference=difference,
        )

    def happen(self, happening: Happening) -> None:
        match happening:
            case RoundOpened():
                self.open_round(happening)
            case RowMade(variant=variant):
                self.make_row(variant)
            case Asked(call=call):
                self.ask(call)
            case Answered(call=call):
                self.answer(call)
            case Judged():
                self.judge(happening)
            case Decided(decision=decision):
                self.decide(decision)
            case AuthorLeft(author=author, broke=broke):
                (self.session.broke if broke else self.session.out)[author] = "as recorded"
                self.let_go(author)
            case EngineStarted():
                self.session.out.clear()
                self.session.broke.clear()
                self.writes.clear()
                self.sweeps.clear()
                self.session.commit_now(lambda: _ignore(mend(self.session)))
            case Finished():
                pass  # compared at the end: a session may finish, be given more, and go on
        self.happenings += 1

    # ----------------------------------------------------------------- the search

    def steps(self) -> list[Step]:
        return next_steps(self.tree, self.session.settings, {*self.session.out, *self.session.broke})

    def wanted(self, kind: type[Any], **having: Any) -> Any:
        """The step of that kind that the search asks for now.

        Raises:
            Differs: it asks for something else.
        """
        steps = self.steps()
        for step in steps:
            if isinstance(step, kind) and all(getattr(step, name) == value for name, value in having.items()):
                return step
        named = ", ".join(f"{name} {value!r}" for name, value in having.items())
        told = "; ".join(map(told_step, steps[:4])) or "nothing"
        raise Differs(f"recorded is {kind.__name__.lower()} with {named}; the search asks for: {told}")

    def open_round(self, opened: RoundOpened) -> None:
        step = self.wanted(Open, round=opened.number)
        if step.parents != opened.parents:
            raise Differs(
                f"round {opened.number} started from {name_all(opened.parents)}; the search selects {name_all(step.parents)}"
            )
        self.rounds.append((step.round, step.parents))
        self.put_status(round=step.round, parents=step.parents, shares=step.shares)

    def put_status(self, **changes: Any) -> None:
        self.session.status = self.tree.status = replace(self.session.status, **changes)

    def swept(self, root: str) -> Sweep:
        """The sweep that is asked for. Several begin together, and the rows of the first hide the next."""
        if root not in self.sweeps:
            self.sweeps = {step.variant: step for step in self.steps() if isinstance(step, Sweep)}
        if root not in self.sweeps:
            self.wanted(Sweep, variant=root)  # says what is asked for instead
        return self.sweeps.pop(root)

    # ----------------------------------------------------------------- rows

    def make_row(self, then: Variant) -> None:
        if then.id in self.tree.variants:
            same(then, self.tree.variants[then.id], ("idea", "parent", "kind", "round"))
            return
        if then.kind is VariantKind.STARTER:
            row = replace(bare_row(then), state=VariantState.WRITTEN)
            self.session.commit_now(lambda: self.put_new(self.with_recorded_source(row, then)))
        elif then.kind is VariantKind.SWEEP:
            step = self.swept(then.parent or "")
            self.session.commit_now(lambda: put_sweep(self.session, step))
            same_row(then, self.tree)
        elif then.kind is VariantKind.REPAIR:
            step = self.wanted(Repair, variant=then.parent)
            self.make_answered_row(then, step.author)
        elif then.kind is VariantKind.ATTEMPT and not then.human:
            scripted = then.author in self.scripted  # asked for when its question was put
            self.make_answered_row(
                then, then.author if scripted else self.writer(then.idea or "", self.first_author(then))
            )
        else:
            raise Differs(f"{then.id} was made by hand, and no decision on record makes it")

    def writer(self, idea: str, first: str) -> str:
        """The author that the search wants the idea's next variant from: `first` if it is one of them.

        Another is taken only where the first one is not known, because its engine was cut off before it asked.
        """
        if not self.writes[idea, first]:
            for other in [key for key in self.writes if key[0] == idea]:
                del self.writes[other]
            for step in self.steps():
                if isinstance(step, Write) and step.idea == idea:
                    self.writes[idea, step.author] = step.count
        able = [author for (i, author), count in self.writes.items() if i == idea and count]
        if not able:
            self.wanted(Write, idea=idea, author=first)  # says what is asked for instead
        author = first if first in able else able[0]
        self.writes[idea, author] -= 1
        return author

    def first_author(self, then: Variant) -> str:
        """Who was first asked for a row; another may have filled it since."""
        calls = [c for c in self.then.calls.values() if c.node == then.id and c.purpose == "write"]
        return calls[0].author if calls else then.author

    def make_answered_row(self, then: Variant, author: str) -> None:
        row = replace(bare_row(then), author=author, state=VariantState.WRITING)
        if then.author in self.scripted and then.candidate is not None:
            self.session.commit_now(lambda: self.put_new(self.with_recorded_source(row, then)))
        else:
            self.session.commit_now(lambda: self.put_new(row))

    def put_new(self, row: Variant) -> None:
        number = self.session.store.next_variant_id()
        if number != row.id:
            raise Differs(f"recorded is {row.id}; the next row here is {number}")
        self.session.put(row)

    def with_recorded_source(self, row: Variant, then: Variant) -> Variant:
        candidate = self.recorded.store.read_candidate(then.candidate or "")
        return replace(with_candidate(self.session, row, candidate, then.name), call=then.call)

    def let_go(self, author: str) -> None:
        """Rows of an author that is not asked any more wait for another; those with a question under way do not."""
        asked = {call.node for call in self.tree.calls.values() if call.state is CallState.RESERVED}
        rows = [v for v in self.tree.variants.values() if v.state is VariantState.WRITING and v.author == author]
        free = [replace(row, state=VariantState.WAITING) for row in rows if row.id not in asked]
        self.session.commit_now(lambda: self.session.put(*free))

    # ----------------------------------------------------------------- questions

    def ask(self, call: Call) -> None:
        if call.purpose == "sweep":
            self.close_sweep(call)
            return
        row = self.tree.variants.get(call.node)
        if call.purpose == "ideas":
            step = self.wanted(Propose, parent=call.node or None, author=call.author, round=call.round)
            self.counts[call.id] = step.count
        elif call.author in self.scripted:
            self.take_write(self.idea_node(call), call.author)
        elif row is not None and row.state is VariantState.WAITING:
            self.take_waiting(row, call)
        elif row is None or row.author != call.author:
            raise Differs(
                f"{call.author} was asked for {call.node}; here it would be {row.author if row else 'nobody'}"
            )
        bare = Call(
            id=0,
            purpose=call.purpose,
            node=self.idea_node(call),
            author=call.author,
            round=call.round,
            reserved_usd=call.reserved_usd,
            reserved_tokens=call.reserved_tokens,
            created=call.created,
        )
        made: list[Call] = []
        self.session.commit_now(lambda: made.append(self.session.store.reserve_call(bare)))
        if made[0].id != call.id:
            raise Differs(f"recorded is question {call.id}; the next one here is {made[0].id}")

    def close_sweep(self, call: Call) -> None:
        step = self.swept(call.node)
        self.session.commit_now(lambda: put_sweep(self.session, step))
        if self.tree.calls.get(call.id) is None:
            raise Differs(f"the sweep of {call.node} had no setting left to try; the search finds one")

    def take_waiting(self, row: Variant, call: Call) -> None:
        if call.purpose == "repair":
            self.wanted(Repair, variant=row.parent, author=call.author)
        else:
            self.take_write(row.idea or "", call.author)
        self.session.commit_now(lambda: self.session.put(replace(row, state=VariantState.WRITING, author=call.author)))

    def take_write(self, idea: str, author: str) -> None:
        """One of the variants that this author is asked for."""
        if self.writer(idea, author) != author:
            raise Differs(f"{author} was asked for {idea}; the search asks another")

    def idea_node(self, call: Call) -> str:
        """While a playbook is being asked, its question is about the idea; the row came with the answer."""
        then = self.then.variants.get(call.node)
        if call.author in self.scripted and call.purpose == "write" and then is not None:
            return then.idea or ""
        return call.node

    def answer(self, call: Call) -> None:
        if call.purpose == "sweep":
            return
        self.session.commit_now(lambda: self.session.store.finish_call(call))
        if call.state is CallState.FAILED:
            self.give_back(call)
        elif call.purpose == "ideas":
            self.take_ideas(call)
        elif call.author not in self.scripted:
            self.take_source(call)

    def give_back(self, call: Call) -> None:
        row = self.tree.variants.get(call.node)
        if row is not None and row.state is VariantState.WRITING:
            self.session.commit_now(lambda: self.session.put(replace(row, state=VariantState.WAITING)))

    def take_ideas(self, call: Call) -> None:
        recorded = [idea for idea in self.then.ideas.values() if idea.call == call.id]
        drafts = (
            tuple(map(draft_of, recorded))
            if call.author in self.scripted
            else reread(self.session, self.recorded, call, self.counts.get(call.id, 1)).ideas
        )
        made: list[Idea] = []

        def write() -> None:
            made.extend(
                add_ideas(
                    self.session, drafts, parent=call.node or None, round=call.round, author=call.author, call=call.id
                )
            )

        self.session.commit_now(write)
        if [idea.id for idea in made] != [idea.id for idea in recorded]:
            names = name_all([idea.id for idea in recorded]), name_all([idea.id for idea in made])
            raise Differs(f"answer {call.id} gave the ideas {names[0]}; read again, it gives {names[1]}")
        for idea, now in zip(recorded, made, strict=True):
            same(idea, now, () if idea.human else ("title", "technique", "merged_into"))

    def take_source(self, call: Call) -> None:
        row = self.tree.variants.get(call.node)
        if row is None:
            raise Differs(f"answer {call.id} is for {call.node}, which the search did not make")
        full = self.recorded.store.read_call(call.id)
        now = reread(self.session, self.recorded, call, self.counts.get(call.id, 1))
        self.session.commit_now(lambda: self.session.put(filled(self.session, row, full, now)))
        then = self.then.variants[row.id]
        if then.call == call.id:
            same(then, self.tree.variants[row.id], ("candidate", "author_error"))

    # ----------------------------------------------------------------- verdicts and decisions

    def judge(self, judged: Judged) -> None:
        row = self.tree.variants.get(judged.variant)
        if row is None or row.candidate is None:
            raise Differs(f"{judged.variant} was judged; it has no source here")
        certified = self.certifying[row.id] > 0 and not judged.shared
        if certified:
            self.certifying[row.id] -= 1
        else:
            self.wanted(Evaluate, variant=row.id)
        may_share = not certified and not row.attempts and not row.screened
        known = known_verdict(self.session, row.candidate) if may_share else None
        if (known is not None) != judged.shared:
            told = "took over the verdict of an equal candidate" if judged.shared else "was judged itself"
            raise Differs(f"{row.id} {told}; here it would not have been so")
        if known is not None:
            twin = judged_twin(self.session, row)
            summary = summarise(row, known, final=False)
            if twin is not None:
                summary = replace(summary, same_as=twin.id, screened=twin.screened)
            self.session.commit_now(lambda: self.session.put(summary))
        else:
            verdict = self.verdicts[row.id].pop(0)
            summary = summarise(row, verdict, final=False)
            self.session.commit_now(lambda: self.session.store.add_verdict(summary, verdict))

    def decide(self, decision: Decision) -> None:
        if decision.kind is DecisionKind.CERTIFY:
            self.certifying[decision.target] += decision.state == "done"
            return
        refused = decision.state != "done"
        try:
            self.session.commit_now(lambda: _ignore(ACTS[decision.kind](self.session, decision)))
        except UsageError as error:
            if not refused:
                raise Differs(f"{decision.kind} {decision.target} was carried out; here: {error}") from error
            return
        if refused:
            raise Differs(f"{decision.kind} {decision.target} was refused ({decision.answer}); here it is not")
        if decision.kind in WAKE:
            self.session.broke.clear()
        self.session.settings = self.tree.settings = self.recorded.settings

    def compare_ends(self) -> None:
        """Ids, parents, statuses, verdicts and the best, and that the search ends as it did."""
        compare_trees(self.then, self.tree)
        then = self.recorded.status
        if then.state is SessionState.FINISHED and not self.session.broke and not self.session.out:
            self.put_status(active_s=then.active_s)
            compare_finish(then.reason, self.steps())


def _ignore(_: object) -> None:
    """What an act says goes to the event log, which a replay does not compare."""
