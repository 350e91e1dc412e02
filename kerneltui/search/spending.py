"""What a session has used, and whether the next call may be made."""

from __future__ import annotations

from dataclasses import dataclass

from kerneltui.records import CallState, Settings, Tree, Variant
from kerneltui.search.steps import ON_DEVICE


@dataclass(frozen=True, slots=True)
class Spend:
    """What was used. `usd` and `tokens` are known, `reserved_*` may still come, `unknown` calls are neither."""

    usd: float = 0.0
    reserved_usd: float = 0.0
    tokens: int = 0
    reserved_tokens: int = 0
    unknown: int = 0  # calls whose cost nobody knows
    evaluations: int = 0  # begun, cached verdicts not counted


def spend(tree: Tree) -> Spend:
    """Add up calls and evaluations. A call of unknown cost counts with what was reserved for it."""
    usd = reserved_usd = 0.0
    tokens = reserved_tokens = unknown = 0
    for call in tree.calls.values():
        if call.cost_usd is not None:
            usd += call.cost_usd
        else:
            reserved_usd += call.reserved_usd or 0.0
            unknown += call.state is not CallState.RESERVED and call.reserved_usd is None
        known = call.tokens_in is not None or call.tokens_out is not None
        tokens += (call.tokens_in or 0) + (call.tokens_out or 0)
        reserved_tokens += 0 if known else call.reserved_tokens or 0
    begun = sum(_evaluations(variant) for variant in tree.variants.values())
    return Spend(usd, reserved_usd, tokens, reserved_tokens, unknown, begun)


def refuse_call(tree: Tree, settings: Settings, worst_usd: float | None, worst_tokens: int | None) -> str:
    """Why a call with this worst case may not be made; "" when it may."""
    budget, used = settings.budget, spend(tree)
    if budget.usd is not None and worst_usd is None and budget.tokens is None:
        return (
            "its worst case in dollars is not known, so the dollar cap cannot hold: give price_in_usd, price_out_usd and "
            "max_tokens for this author, or a token cap"
        )
    if budget.tokens is not None and worst_tokens is None:
        return "no cap on its answers is known, so the token cap cannot hold: give max_tokens"
    if budget.usd is not None and worst_usd and used.usd + used.reserved_usd + worst_usd > budget.usd:
        left = budget.usd - used.usd - used.reserved_usd
        return f"${max(left, 0):.2f} of ${budget.usd:.2f} left, the next call may cost ${worst_usd:.2f}"
    if budget.tokens is not None and worst_tokens and used.tokens + used.reserved_tokens + worst_tokens > budget.tokens:
        left_tokens = budget.tokens - used.tokens - used.reserved_tokens
        return f"{max(left_tokens, 0)} of {budget.tokens} tokens left, the next call may use {worst_tokens}"
    return ""


def _evaluations(variant: Variant) -> int:
    if variant.same_as is not None:
        return variant.attempts
    return variant.attempts + (variant.state in ON_DEVICE or variant.outcome is not None)
