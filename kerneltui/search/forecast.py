"""What the next round will take: from what this session's rounds took, else from worst cases. Pure.

forecast     tree, settings, worst case of a call by author -> Forecast
words        Forecast -> one line
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from kerneltui.records import AuthorSettings, Call, CallState, IdeaStatus, Settings, Tree, Variant, VariantKind
from kerneltui.search.bandit import shares, with_shares
from kerneltui.search.plan import SCRIPTED
from kerneltui.search.selection import select, share_out
from kerneltui.search.spending import Spend, spend

WorstCases = Mapping[str, tuple[int | None, float | None]]  # by author: the most tokens and dollars of one call
HISTORY, WORST = "as the rounds so far", "worst cases: nothing was measured here yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One round. What is unknown is None or counted as unknown, never 0."""

    round: int
    parents: int
    ideas: int
    calls: int  # questions to models; a playbook is not asked for anything that costs
    evaluations: int
    tokens: int | None
    usd: float  # of the calls whose cost can be told
    unknown_calls: int  # the others
    wall_s: float | None
    basis: str
    remarks: tuple[str, ...] = ()  # where it does not fit into what is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How a round of this session goes."""

    ideas: float  # per idea that was asked for, duplicates left out
    variants: float  # per idea
    repairs: float  # per variant
    sweep_points: float  # per round
    measured: bool


def forecast(
    tree: Tree,
    settings: Settings,
    worst: WorstCases,
    *,
    parents: Sequence[str] | None = None,
    out: Collection[str] = (),
) -> Forecast:
    """The round after the present one. `parents` where they are known; `out` names authors that are not asked."""
    starts = len(parents) if parents is not None else expected_parents(tree, settings)
    rates = find_rates(tree, settings)
    authors = _authors(tree, settings, out)
    ideas = _whole(starts * settings.ideas * rates.ideas) if authors else 0
    variants = ideas * rates.variants
    by_model = [author for author in authors if author.kind not in SCRIPTED]
    share = _share(by_model) / _share(authors) if authors else 0.0
    asked = _calls(by_model, starts, settings, variants * share, variants * share * rates.repairs)
    tokens, usd, unknown = _cost(tree, asked, worst)
    evaluations = _whole(variants + variants * share * rates.repairs + rates.sweep_points)
    found = Forecast(
        round=tree.status.round + 1,
        parents=starts,
        ideas=ideas,
        calls=sum(asked.values()),
        evaluations=evaluations,
        tokens=tokens,
        usd=usd,
        unknown_calls=unknown,
        wall_s=_wall_s(tree, evaluations),
        basis=HISTORY if rates.measured else WORST,
    )
    return _with_remarks(found, settings, spend(tree), tree.status.active_s)


def before_start(settings: Settings, worst: WorstCases) -> Forecast:
    """All rounds of a search that has not begun, at their worst: the first from the reference and a starter."""
    tree = Tree(settings=settings)
    rounds = [forecast(tree, settings, worst, parents=("", "starter"))]
    rounds += [forecast(tree, settings, worst, parents=("",) * settings.beam)] * (settings.rounds - 1)
    tokens = [found.tokens for found in rounds]
    whole = Forecast(
        round=settings.rounds,
        parents=max(found.parents for found in rounds),
        ideas=sum(found.ideas for found in rounds),
        calls=sum(found.calls for found in rounds),
        evaluations=sum(found.evaluations for found in rounds),
        tokens=None if None in tokens else sum(filter(None, tokens)),
        usd=sum(found.usd for found in rounds),
        unknown_calls=sum(found.unknown_calls for found in rounds),
        wall_s=None,
        basis=WORST,
    )
    return _with_remarks(whole, settings, spend(tree), 0.0)


def expected_parents(tree: Tree, settings: Settings) -> int:
    """How many parents the next round will have, as things stand."""
    if tree.status.round == 0:
        return 1 + sum(variant.kind is VariantKind.STARTER for variant in tree.variants.values())
    return max(1, len(select(tree, settings)))


# --------------------------------------------------------------------------- how rounds go


def find_rates(tree: Tree, settings: Settings) -> Rates:
    """From the rounds that were had; the widths of the settings where there was none."""
    asked = {(c.round, c.node, c.author) for c in tree.calls.values() if c.purpose == "ideas" and _is_answered(c)}
    questions = len({(number, node) for number, node, _ in asked})
    ideas = [i for i in tree.ideas.values() if i.status is not IdeaStatus.MERGED and i.call in tree.calls]
    attempts = [v for v in tree.variants.values() if v.kind is VariantKind.ATTEMPT and v.idea in tree.ideas]
    if not questions or not ideas or not attempts:
        worst_sweep = settings.beam * settings.sweep_points
        return Rates(
            ideas=1, variants=settings.variants, repairs=settings.repairs, sweep_points=worst_sweep, measured=False
        )
    repairs = sum(v.kind is VariantKind.REPAIR for v in tree.variants.values())
    points = sum(v.kind is VariantKind.SWEEP for v in tree.variants.values())
    return Rates(
        ideas=min(1.0, len(ideas) / (questions * max(1, settings.ideas))),
        variants=min(float(settings.variants), len(attempts) / len(ideas)),
        repairs=min(float(settings.repairs), repairs / max(1, _by_models(tree, settings, attempts))),
        sweep_points=points / max(1, tree.status.round),
        measured=True,
    )


def _by_models(tree: Tree, settings: Settings, attempts: Sequence[Variant]) -> int:
    scripted = {author.label for author in settings.authors if author.kind in SCRIPTED}
    return sum(variant.author not in scripted for variant in attempts)


def _is_answered(call: Call) -> bool:
    return call.state is CallState.DONE


def _authors(tree: Tree, settings: Settings, out: Collection[str]) -> list[AuthorSettings]:
    moved = shares(tree, settings) if settings.shares == "bandit" else ()
    return [a for a in with_shares(settings.authors, moved) if a.label not in out and a.share > 0]


def _share(authors: Sequence[AuthorSettings]) -> float:
    return sum(author.share for author in authors)


def _whole(number: float) -> int:
    """Rounded up: half a question is a question."""
    return int(number) if number == int(number) else int(number) + 1


# --------------------------------------------------------------------------- what calls cost


def _calls(
    authors: Sequence[AuthorSettings], starts: int, settings: Settings, writes: float, repairs: float
) -> dict[tuple[str, str], int]:
    """Questions by author and purpose."""
    asked: dict[tuple[str, str], int] = {}
    for position in range(starts):
        for label, _ in share_out(authors, settings.ideas, position * settings.ideas):
            asked[label, "ideas"] = asked.get((label, "ideas"), 0) + 1
    for purpose, count in (("write", _whole(writes)), ("repair", _whole(repairs))):
        for label, portion in share_out(authors, count):
            asked[label, purpose] = portion
    return asked


def _cost(tree: Tree, asked: Mapping[tuple[str, str], int], worst: WorstCases) -> tuple[int | None, float, int]:
    tokens: int | None = 0
    usd, unknown = 0.0, 0
    for (label, purpose), count in asked.items():
        each_tokens, each_usd = _one_call(tree, label, purpose, worst)
        tokens = None if tokens is None or each_tokens is None else tokens + round(count * each_tokens)
        usd += count * (each_usd or 0.0)
        unknown += 0 if each_usd is not None else count
    return tokens, usd, unknown


def _one_call(tree: Tree, label: str, purpose: str, worst: WorstCases) -> tuple[float | None, float | None]:
    """Means of this author's calls for the purpose, else of all its calls, else its worst case."""
    own = [call for call in tree.calls.values() if call.author == label and _is_answered(call)]
    alike = [call for call in own if call.purpose == purpose] or own
    worst_tokens, worst_usd = worst.get(label, (None, None))
    used = [(c.tokens_in or 0) + (c.tokens_out or 0) for c in alike if c.tokens_out is not None]
    paid = [c.cost_usd for c in alike if c.cost_usd is not None]
    return (fmean(used) if used else worst_tokens), (fmean(paid) if paid else worst_usd)


def _wall_s(tree: Tree, evaluations: int) -> float | None:
    """By the time an evaluation took so far, all waiting included; None before a round was had."""
    begun = spend(tree).evaluations
    if tree.status.round < 1 or not begun or tree.status.active_s <= 0:
        return None
    return evaluations * tree.status.active_s / begun


# --------------------------------------------------------------------------- words


def _with_remarks(found: Forecast, settings: Settings, used: Spend, active_s: float) -> Forecast:
    budget = settings.budget
    said: list[str] = []
    if budget.usd is not None:
        left = max(0.0, budget.usd - used.usd - used.reserved_usd)
        if found.usd > left:
            said.append(f"more than the ${left:.2f} left of ${budget.usd:.2f}")
    if budget.tokens is not None and found.tokens is not None:
        left_tokens = max(0, budget.tokens - used.tokens - used.reserved_tokens)
        if found.tokens > left_tokens:
            said.append(f"more than the {left_tokens:,} tokens left")
    if budget.evaluations is not None and found.evaluations > budget.evaluations - used.evaluations:
        said.append(f"more than the {max(0, budget.evaluations - used.evaluations)} evaluations left")
    if budget.wall_s is not None and found.wall_s is not None and found.wall_s > budget.wall_s - active_s:
        said.append(f"more than the {_time(max(0.0, budget.wall_s - active_s))} left")
    if found.round > settings.rounds:
        said.append(f"beyond the {settings.rounds} rounds that are allowed")
    return Forecast(**{**{name: getattr(found, name) for name in Forecast.__slots__}, "remarks": tuple(said)})


def words(found: Forecast) -> str:
    """`round 2: 12 questions, about 45,000 tokens, $0.31, 30 evaluations, 4 min (as the rounds so far)`."""
    return _words(f"round {found.round}", found)


def words_on_all(found: Forecast, settings: Settings) -> str:
    """The same of a whole search; a budget ends it sooner."""
    return _words(f"all {settings.rounds} rounds", found)


def _words(what: str, found: Forecast) -> str:
    exact = "about" if found.basis == HISTORY else "at most"
    parts: list[str] = []
    if found.calls:
        parts.append(f"{found.calls} question{'s' if found.calls != 1 else ''}")
        parts.append("tokens unknown" if found.tokens is None else f"{found.tokens:,} tokens")
        parts.append(_money(found))
    parts.append(f"{found.evaluations} evaluations")
    parts.append("time unknown" if found.wall_s is None else _time(found.wall_s))
    said = f"{what}: {exact} {', '.join(parts)} ({found.basis})"
    return said + "".join(f"; {remark}" for remark in found.remarks)


def _money(found: Forecast) -> str:
    known = f"${found.usd:.2f}"
    if not found.unknown_calls:
        return known
    if found.unknown_calls == found.calls:
        return "dollars unknown"
    return f"{known} and {found.unknown_calls} questions of unknown cost"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
