"""What the search has cost, by author, round or idea: dollars, tokens, device seconds, and what came of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kerneltui.records import Call, CallState, Outcome, Tree, Variant

NOBODY = "(no author)"  # starters, sweep points, kernels by hand


class By(StrEnum):
    """What a line of the account stands for."""

    AUTHOR = "author"
    ROUND = "round"
    IDEA = "idea"


@dataclass(slots=True)
class Account:
    """One line."""

    name: str
    calls: int = 0
    failed: int = 0
    tokens: int = 0
    usd: float = 0.0
    unknown: int = 0  # calls whose cost nobody knows
    variants: int = 0
    correct: int = 0
    device_s: float = 0.0
    compile_s: float = 0.0
    best: float | None = None  # speed-up

    @property
    def usd_a_correct(self) -> float | None:
        """Dollars for one correct variant."""
        return self.usd / self.correct if self.correct and self.calls else None


def accounts(tree: Tree, by: By, seconds: Mapping[str, tuple[float, float]]) -> list[Account]:
    """Every line; rounds in order, the others with the dearest first. `seconds`: variant -> device, compiler."""
    found: dict[str, Account] = {}
    for call in tree.calls.values():
        _add_call(found.setdefault(_name_of_call(tree, call, by), Account("")), call)
    for variant in tree.variants.values():
        name = _name_of_variant(variant, by)
        _add_variant(found.setdefault(name, Account("")), variant, seconds.get(variant.id, (0.0, 0.0)))
    for name, account in found.items():
        account.name = name
    if by is By.ROUND:
        return sorted(found.values(), key=lambda account: int(account.name[1:]))
    return sorted(found.values(), key=lambda account: (-account.usd, -account.device_s, account.name))


def total(lines: list[Account]) -> Account:
    """The sum of all lines."""
    found = Account("total")
    for line in lines:
        for name in ("calls", "failed", "tokens", "usd", "unknown", "variants", "correct", "device_s", "compile_s"):
            setattr(found, name, getattr(found, name) + getattr(line, name))
        found.best = max((best for best in (found.best, line.best) if best is not None), default=None)
    return found


def _add_call(account: Account, call: Call) -> None:
    account.calls += 1
    account.failed += call.state is CallState.FAILED
    account.tokens += (call.tokens_in or 0) + (call.tokens_out or 0)
    account.usd += call.cost_usd or 0.0
    account.unknown += call.cost_usd is None


def _add_variant(account: Account, variant: Variant, seconds: tuple[float, float]) -> None:
    account.variants += 1
    account.device_s += seconds[0]
    account.compile_s += seconds[1]
    if variant.outcome is Outcome.CORRECT:
        account.correct += 1
        if variant.speedup is not None:
            account.best = max(account.best or 0.0, variant.speedup.ratio)


def _name_of_call(tree: Tree, call: Call, by: By) -> str:
    """A call for ideas serves the round that they are for, and no idea in particular."""
    if by is By.AUTHOR:
        return call.author
    variant = tree.variants.get(call.node)
    idea = tree.ideas.get(call.node if variant is None else variant.idea or "")
    if by is By.ROUND:
        own = variant.round if variant else idea.round if idea else 0
        return f"r{call.round or own}"
    return "(finding ideas)" if call.purpose == "ideas" or idea is None else idea.id


def _name_of_variant(variant: Variant, by: By) -> str:
    if by is By.AUTHOR:
        return variant.author or NOBODY
    return f"r{variant.round}" if by is By.ROUND else variant.idea or "(no idea)"
