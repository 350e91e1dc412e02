"""What to do next: `next_steps(tree, settings)`, pure and deterministic. No clock, no I/O.

    Open       begin a round from its parents
    Propose    ask an author for ideas on a parent
    Write      ask an author for variants of an idea
    Repair     ask an author to mend a failed variant
    Sweep      try other tunables of a variant
    Evaluate   judge a variant
    Finish     end, with the reason in plain words

The tree alone says what was done: a Call that was reserved or answered is not made again, a Variant that is under
way is not started again. Whoever carries steps out writes that down before anything else happens.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

from kerneltui.records import (
    AuthorSettings,
    Call,
    CallState,
    Idea,
    IdeaStatus,
    Language,
    Outcome,
    Settings,
    Tree,
    Variant,
    VariantKind,
    VariantState,
    in_order,
    is_ranked,
    standing,
)
from kerneltui.search.bandit import shares, with_shares
from kerneltui.search.selection import champion_by_round, root, select, share_out
from kerneltui.search.spending import spend
from kerneltui.search.steps import (
    SETTLED,
    UNDER_WAY,
    Evaluate,
    Finish,
    Open,
    Propose,
    Repair,
    Step,
    Sweep,
    Write,
)

SCRIPTED = frozenset({"playbook"})  # author kinds that know their own cards only: no repairs, nobody else's ideas
LANGUAGE_OF = {"cuda": Language.CUDA, "cpu": Language.CPP}
REPAIRABLE = frozenset({Outcome.COMPILE_ERROR, Outcome.LAUNCH_ERROR, Outcome.MISMATCH, Outcome.TIMEOUT})


def next_steps(tree: Tree, settings: Settings, out: Collection[str] = ()) -> list[Step]:
    """Everything that can be begun now; nothing, while all that is left is under way or waits for a person.

    `out` names authors that are not to be asked.
    """
    return _Plan(tree, settings, frozenset(out)).steps()


class _Plan:
    """One look at the tree: indexes made once, questions asked of them."""

    def __init__(self, tree: Tree, settings: Settings, out: frozenset[str]) -> None:
        self.tree, self.settings = tree, settings
        self.round = tree.status.round
        self.used = spend(tree)
        budget = settings.budget
        self.broke = _over("${:.2f}", self.used.usd + self.used.reserved_usd, budget.usd) or _over(
            "{:,.0f} tokens", self.used.tokens + self.used.reserved_tokens, budget.tokens
        )
        self.alive = [
            author
            for author in with_shares(settings.authors, tree.status.shares if settings.shares == "bandit" else ())
            if author.label not in out and (author.kind in SCRIPTED or not self.broke)
        ]
        self.scripted = {author.label for author in settings.authors if author.kind in SCRIPTED}
        self.asked = {(call.purpose, call.node, call.author, call.round) for call in _made(tree.calls.values())}
        self.told_nothing = {(purpose, node) for purpose, node, _, _ in self.asked}
        self.children: dict[str, list[Variant]] = {}
        self.attempts: dict[str, list[Variant]] = {}
        for variant in tree.variants.values():
            self.children.setdefault(variant.parent or "", []).append(variant)
            if variant.idea and variant.kind is VariantKind.ATTEMPT:
                self.attempts.setdefault(variant.idea, []).append(variant)
        self.live = [variant for variant in tree.variants.values() if not tree.is_pruned(variant)]

    def steps(self) -> list[Step]:
        at_once = self.over_wall() or self.on_target()
        if at_once:
            return [Finish(at_once)]
        if self.evaluations_left == 0:
            limit = self.settings.budget.evaluations
            return [] if self.busy else [Finish(f"{self.used.evaluations} of {limit} evaluations are used")]
        evaluations = list(self.evaluations())
        writes: list[Repair | Write] = [*self.repairs(), *self.writes()]
        proposals = list(self.proposals())
        steps: list[Step] = [*evaluations, *self.within_room(writes), *proposals]
        return steps + self.ends_of_round(len(writes), sum(step.count for step in proposals))

    # ----------------------------------------------------------------- evaluations

    def evaluations(self) -> Iterator[Evaluate]:
        """Judge what is written, and what was only judged elsewhere."""
        away = [v for v in self.foreign if v.state is VariantState.DONE]
        ready = [v for v in self.live if v.state is VariantState.WRITTEN]
        for variant in [*ready, *away][: self.evaluations_left]:
            by_hand = variant.kind in (VariantKind.STARTER, VariantKind.HAND) or variant.pinned
            full = by_hand or variant in away or self.beam_us is None
            yield Evaluate(variant.id, full, None if full else self.beam_us)

    @cached_property
    def evaluations_left(self) -> int | None:
        limit = self.settings.budget.evaluations
        return None if limit is None else max(0, limit - self.used.evaluations)

    @cached_property
    def ranked(self) -> list[Variant]:
        return sorted((v for v in self.live if is_ranked(v) and self.tree.is_here(v)), key=standing)

    @cached_property
    def beam_us(self) -> float | None:
        """The slowest time in the beam; None while that is not full."""
        beam = [v for v in self.ranked if v.same_as is None][: self.settings.beam]
        return max((v.median_us or 0.0 for v in beam), default=None) if len(beam) == self.settings.beam else None

    @cached_property
    def survivors(self) -> list[Variant]:
        return select(self.tree, self.settings, self.ranked)

    @cached_property
    def foreign(self) -> list[Variant]:
        """Correct on another device only: as many of the fastest as the beam lacks here, and what people care for."""
        kind = self.tree.status.device.kind if self.tree.status.device else ""
        away = [v for v in self.live if v.outcome is Outcome.CORRECT and not self.tree.is_here(v) and not v.same_as]
        away = [v for v in away if v.language in (None, Language.PYTHON, LANGUAGE_OF.get(kind))]
        away.sort(key=lambda v: (not (v.pinned or v.kind is VariantKind.STARTER), *standing(v)))
        cared_for = sum(v.pinned or v.kind is VariantKind.STARTER for v in away)
        return away[: max(cared_for, self.settings.beam - len(self.ranked))]

    # ----------------------------------------------------------------- answers wanted

    def repairs(self) -> Iterator[Repair]:
        for variant in self.live:
            child = next((c for c in self.children.get(variant.id, ()) if c.kind is VariantKind.REPAIR), None)
            if child is not None:
                if child.state is VariantState.WAITING and (author := self.mender(variant)):
                    yield Repair(variant.id, author)
            elif self.is_mendable(variant) and (author := self.mender(variant)):
                yield Repair(variant.id, author)

    def is_mendable(self, variant: Variant) -> bool:
        failed = variant.state is VariantState.DONE and variant.outcome in REPAIRABLE and variant.same_as is None
        written = variant.kind in (VariantKind.ATTEMPT, VariantKind.REPAIR) and not variant.human
        return failed and written and self.mended(variant) < self.settings.repairs

    def mended(self, variant: Variant) -> int:
        """Repairs on the way from the first attempt to `variant`."""
        count, node = 0, variant
        while node.kind is VariantKind.REPAIR and node.parent in self.tree.variants:
            count, node = count + 1, self.tree.variants[node.parent]
        return count

    def mender(self, variant: Variant) -> str | None:
        able = [author for author in self.alive if author.kind not in SCRIPTED]
        own = [author.label for author in able if author.label == variant.author]
        slots = share_out(able, 1, _number(variant.id) % 64)  # any fixed number spreads the work
        return own[0] if own else slots[0][0] if slots else None

    def writes(self) -> Iterator[Write]:
        for idea in in_order(self.tree.ideas.values()):
            if idea.status is IdeaStatus.APPROVED and not self.is_dead(idea):
                missing = self.missing(idea)
                if not missing:
                    continue
                first = len(self.attempts.get(idea.id, ())) - self.waiting(idea)
                offset = (_number(idea.id) * self.settings.variants + first) % 64
                for author, count in share_out(self.writers(idea), missing, offset):
                    yield Write(idea.id, author, count)

    def waiting(self, idea: Idea) -> int:
        rows = self.attempts.get(idea.id, ())
        return sum(v.state is VariantState.WAITING and not v.pruned for v in rows)

    def missing(self, idea: Idea) -> int:
        """Variants of an idea that are still to be written."""
        if idea.status is IdeaStatus.APPROVED and not self.writers(idea):
            return 0
        exhausted = ("write", idea.id) in self.told_nothing
        fresh = 0 if exhausted else max(0, self.settings.variants - len(self.attempts.get(idea.id, ())))
        return fresh + self.waiting(idea)

    def writers(self, idea: Idea) -> list[AuthorSettings]:
        if idea.author in self.scripted:
            return [author for author in self.alive if author.label == idea.author]
        return [author for author in self.alive if author.kind not in SCRIPTED]

    def is_dead(self, idea: Idea) -> bool:
        above = self.tree.variants.get(idea.parent or "")
        return above is not None and self.tree.is_pruned(above)

    def within_room(self, writes: Sequence[Repair | Write]) -> Iterator[Step]:
        """No more than can still be judged."""
        room = self.room
        for step in writes:
            wanted = step.count if isinstance(step, Write) else 1
            given = wanted if room is None else min(wanted, room)
            room = None if room is None else room - given
            if given and isinstance(step, Write):
                yield Write(step.idea, step.author, given)
            elif given:
                yield step

    @property
    def room(self) -> int | None:
        if self.evaluations_left is None:
            return None
        coming = sum(v.state in (VariantState.WRITING, VariantState.WRITTEN) for v in self.live)
        return max(0, self.evaluations_left - coming)

    # ----------------------------------------------------------------- rounds

    def proposals(self) -> Iterator[Propose]:
        for position, parent in enumerate(self.tree.status.parents if self.round else ()):
            above = self.tree.variants.get(parent)
            if above is not None and self.tree.is_pruned(above):
                continue
            for author, count in share_out(self.alive, self.settings.ideas, position * self.settings.ideas):
                if ("ideas", parent, author, self.round) not in self.asked:
                    yield Propose(parent or None, author, count, self.round)

    def ends_of_round(self, writes: int, ideas: int) -> list[Step]:
        """Sweeps once enough of the round is in, then the next round or the end."""
        if self.foreign or not self.is_closing(self.settings.close_at, ideas):
            return []
        if screened := [v for v in self.survivors if v.screened]:
            return [Evaluate(v.id, True) for v in screened if v.state is VariantState.DONE]
        sweeps, sweeping = self.sweeps() if self.round else ([], False)
        if sweeps or sweeping:
            return sweeps
        if not self.alive and self.settings.authors and not self.broke:
            return []  # what is missing may be missing because nobody could be asked
        over = self.over()
        if over:
            complete = not self.busy and not writes and self.is_closing(1.0, ideas) and not self.undecided
            return [Finish(over)] if complete else []
        moved = shares(self.tree, self.settings) if self.settings.shares == "bandit" else ()
        return [Open(self.round + 1, self.parents(), moved)]

    def is_closing(self, share: float, ideas: int) -> bool:
        """Whether that share of the round's variants is in."""
        rows = [v for v in self.live if v.round == self.round]
        settled = sum(v.state in SETTLED for v in rows)
        coming = sum(v.state not in SETTLED | {VariantState.WAITING} for v in rows)
        missing = sum(self.missing(idea) for idea in self.undone)
        mending = sum(1 for step in self.repairs() if self.tree.variants[step.variant].round == self.round)
        asked = sum(
            c.purpose == "ideas" and c.round == self.round and c.state is CallState.RESERVED
            for c in self.tree.calls.values()
        )
        unborn = (ideas + asked * self.settings.ideas) * self.settings.variants
        return settled >= share * (settled + coming + missing + mending + unborn)

    @cached_property
    def undone(self) -> list[Idea]:
        """Ideas of this round that are, or may be, written from."""
        open_ = (IdeaStatus.APPROVED, IdeaStatus.PROPOSED)
        return [
            i for i in self.tree.ideas.values() if i.round == self.round and i.status in open_ and not self.is_dead(i)
        ]

    @property
    def undecided(self) -> bool:
        return any(idea.status is IdeaStatus.PROPOSED and not self.is_dead(idea) for idea in self.tree.ideas.values())

    @cached_property
    def busy(self) -> bool:
        under_way = any(variant.state in UNDER_WAY for variant in self.tree.variants.values())
        return under_way or any(call.state is CallState.RESERVED for call in self.tree.calls.values())

    def parents(self) -> tuple[str, ...]:
        if self.round == 0:
            own = [v.id for v in self.ranked if v.round == 0 and v.same_as is None]
            return ("", *sorted(own))
        chosen = [variant.id for variant in self.survivors]
        return tuple(chosen + self.wildcard(chosen)) or ("",)

    def wildcard(self, chosen: Sequence[str]) -> list[str]:
        """With a small probability, an older kernel that was not chosen."""
        dice = random.Random(f"{self.settings.seed} {self.round}")
        older = [v.id for v in self.ranked if v.round < self.round and v.same_as is None and v.id not in chosen]
        return [dice.choice(sorted(older))] if dice.random() < self.settings.wildcard and older else []

    # ----------------------------------------------------------------- sweeps

    def sweeps(self) -> tuple[list[Step], bool]:
        """Sweeps to begin, and whether one is under way."""
        steps: list[Step] = []
        sweeping, room = False, self.room
        for swept in self.swept_roots():
            points = [c for c in self.children.get(swept.id, ()) if c.kind is VariantKind.SWEEP]
            if any(c.state not in SETTLED for c in points if not self.tree.is_pruned(c)):
                sweeping = True
                continue
            count = self.settings.sweep_points - len(points)
            count = count if room is None else min(count, room)
            if count > 0 and ("sweep", swept.id) not in self.told_nothing:
                steps.append(Sweep(swept.id, count))
                room = None if room is None else room - count
        return steps, sweeping

    def swept_roots(self) -> list[Variant]:
        """Survivors that declare tunables, no more of them in one round than the beam is wide."""
        begun = {c.parent for c in self.live if c.kind is VariantKind.SWEEP and c.round == self.round}
        roots = {root(variant): None for variant in self.survivors}
        found = [self.tree.variants[id_] for id_ in roots if id_ in self.tree.variants]
        able = [v for v in found if v.tunables and v.outcome is Outcome.CORRECT and not self.tree.is_pruned(v)]
        fresh = max(0, self.settings.beam - len(begun))
        new = [v for v in able if v.id not in begun][:fresh]
        return [v for v in able if v.id in begun or v in new]

    # ----------------------------------------------------------------- ends

    def over(self) -> str:
        """Why no further round is opened; "" when one is."""
        if self.round >= self.settings.rounds:
            return f"all {self.settings.rounds} rounds are done"
        if self.broke and not self.alive:
            return self.broke
        if self.is_plateau():
            return f"no gain above noise for {self.settings.budget.plateau_rounds} rounds"
        news = [idea for idea in self.tree.ideas.values() if idea.round == self.round]
        if self.round and all(idea.status is IdeaStatus.MERGED for idea in news):
            return "nothing left to do: no author has a further idea"
        return ""

    def is_plateau(self) -> bool:
        patience = self.settings.budget.plateau_rounds
        if patience is None or self.round < patience:
            return False
        return self.round - max(champion_by_round(self.tree), default=0) >= patience

    def over_wall(self) -> str:
        limit, used = self.settings.budget.wall_s, self.tree.status.active_s
        return f"{used / 60:.1f} of {limit / 60:.1f} minutes are used" if limit is not None and used >= limit else ""

    def on_target(self) -> str:
        target = self.settings.budget.target_speedup
        best = self.ranked[0] if self.ranked else None
        if target is None or best is None or best.speedup is None or best.speedup.ratio < target:
            return ""
        return (
            f"target reached: {best.id} is {best.speedup.ratio:.2f} times as fast as eager ({target:.2f} was asked for)"
        )


def _made(calls: Iterable[Call]) -> Iterator[Call]:
    return (call for call in calls if call.state is not CallState.FAILED)


def _number(id_: str) -> int:
    digits = "".join(letter for letter in id_ if letter.isdigit())
    return int(digits or 0)


def _over(form: str, used: float, limit: float | None) -> str:
    if limit is None or used < limit:
        return ""
    return f"{form.format(used)} of {form.format(limit)} are spent or reserved"
