"""Header, workers, budget and events: from the model to coloured lines. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kerneltui.records import CallState, Event, SessionState
from kerneltui.tui import words
from kerneltui.tui.actions import (
    FOOTER,
    FOOTER_DETAIL,
    FOOTER_DETAIL_REST,
    FOOTER_LAST,
    FOOTER_PANES,
    FOOTER_TABS,
    by_id,
    key_text,
    keys_of,
)
from kerneltui.tui.arrange import Pane
from kerneltui.tui.model import LAG_SHOWN_S, Model
from kerneltui.tui.render import Glyphs, bar, cut, fit, one_line, right
from kerneltui.tui.widgets.linelist import Line, Span

_STATE_TOKENS = {
    SessionState.RUNNING: "ok",
    SessionState.PAUSED: "warning",
    SessionState.FINISHED: "best",
    SessionState.STOPPED: "warning",
    SessionState.NEW: "muted",
}
EVENT_TOKENS = {"best": "best", "round": "round", "machine": "warning", "pause": "warning", "finish": "best",
                "author": "muted", "verdict": "", "decision": "human"}  # fmt: skip


def header(model: Model, glyphs: Glyphs, *, frozen: bool, now: float, width: int) -> tuple[list[Span], list[Span]]:
    """Left: what is searched and how far it is. Right: money and the engine."""
    status, tree = model.tree.status, model.tree
    gone = model.engine_gone(now)
    left: list[Span] = [(f" {one_line(model.folder.name)} ", "round")]
    if width >= 120 and status.device:
        left.append((f" {one_line(status.device.name)} ", "muted"))
    state = "ENGINE GONE" if gone else words.state_text(status)
    left.append((f" {state}", "error" if gone else _STATE_TOKENS[status.state]))
    left.append((f" round {status.round}/{tree.settings.rounds} ", ""))
    best = tree.variants.get(status.best or "")
    if best is not None:
        ratio = words.ratio_text(best, glyphs) or words.time_text(best.median_us, glyphs)
        left.append((f"  best {ratio} ", "best"))
        left.append((f"{best.id} ", "muted"))
        eager = (model.prepared.get("baselines_us") or {}).get("eager")
        if eager and width >= 120:
            left.append((f"  eager {words.time_text(float(eager), glyphs)} ", "muted"))
    return left, _header_right(model, frozen=frozen, now=now, width=width)


def _header_right(model: Model, *, frozen: bool, now: float, width: int) -> list[Span]:
    status = model.tree.status
    spans: list[Span] = []
    spend = words.spend_text(model.tree)
    if spend != "$0.00" or model.tree.settings.budget.usd is not None:
        spans.append((f" {spend} ", ""))
    if status.started and width >= 120:
        spans.append((f" {words.span_text(active_s(model, now))} ", "muted"))
    lag = model.lag_s(now)
    if model.engine_alive and status.state in (SessionState.RUNNING, SessionState.PAUSED):
        if lag > LAG_SHOWN_S:
            spans.append((f" lag {lag:.0f}s ", "warning"))
        elif width >= 120:
            spans.append((f" engine {status.pid} ", "muted"))
    if not model.is_resting():
        waits = [words.wait_text(label, held, now) for label, held in words.waiting(status, now).items()]
        more = f" +{len(waits) - 1}" if len(waits) > 1 else ""
        spans += [(f" {waits[0]}{more} ", "warning")] if waits else []
    if frozen:
        spans.append((" FROZEN F ", "warning"))
    return spans


def active_s(model: Model, now: float) -> float:
    """Seconds of search, this run's included."""
    status = model.tree.status
    running = model.engine_alive and status.state is SessionState.RUNNING
    return status.active_s + (min(5.0, max(0.0, now - status.heartbeat)) if running and status.heartbeat else 0.0)


# --------------------------------------------------------------------------- standing remarks


def banner(model: Model, trouble: str, glyphs: Glyphs, now: float, width: int, last_words: str) -> list[Line]:
    """What a person must know before anything else: no engine, no session, what is missing. At most three lines."""
    status = model.tree.status
    found: list[Line] = []
    if trouble:
        found.append([(f" The session cannot be read now: {one_line(trouble)}", "error")])
    if model.engine_gone(now):
        since = words.clock_text(status.heartbeat)
        found.append([(f" The engine has been gone since {since}. Nothing was lost.  ", "error"),
                      ("S", "key"), (" starts it again  ", ""), (":", "key"), (f" engine log   (pid was {status.pid})", "muted")])  # fmt: skip
        if last_words:
            found.append([(f" It said last: {one_line(last_words)}", "muted")])
    elif status.state is SessionState.NEW:
        found.append([(" No engine has run here yet. ", "warning"), ("S", "key"), (" starts the search", "")])
    elif status.state is SessionState.RUNNING and status.reason:
        asks = bool(model.outline.proposed)
        review: list[Span] = [("  ", ""), ("V", "key"), (" reviews them", "")] if asks else []
        found.append([(f" {one_line(status.reason)[:1].upper()}{one_line(status.reason)[1:]}", "warning"), *review])
    elif status.state is SessionState.PAUSED:
        reason = f": {one_line(status.reason)}" if status.reason else ""
        found.append([(f" Paused{reason}  ", "warning"), ("P", "key"), (" resumes", "")])
    elif status.state in (SessionState.FINISHED, SessionState.STOPPED):
        reason = f": {one_line(status.reason)}" if status.reason else ""
        found.append([(f" {words.state_text(status).capitalize()}{reason}  ", "muted"),
                      ("b", "key"), (" more rounds  ", "muted"), ("S", "key"), (" goes on", "muted")])  # fmt: skip
    room = 3 - len(found)
    notices = list(status.notices)
    for index, notice in enumerate(notices[:room]):
        more = len(notices) - room
        tail = f"  (+{more} more in the tree's rounds)" if index == room - 1 and more > 0 else ""
        text = cut(f" {glyphs.dot} {one_line(notice)}", max(10, width - len(tail)), glyphs.cut)
        found.append([(text, "warning"), (tail, "muted")])
    return found


# --------------------------------------------------------------------------- panes


def workers(model: Model, glyphs: Glyphs, now: float, width: int) -> list[Line]:
    """What every process does now."""
    if model.is_resting():
        return [[(" No engine is at work.", "muted")]]
    found: list[Line] = []
    waits = words.waiting(model.tree.status, now)
    for label, held in waits.items():
        nodes = ", ".join(worker.node for worker in held if worker.node)
        found.append([(f" {words.wait_text(label, held, now)} (rate limit)", "warning"), (f"  {nodes}", "muted")])
    for worker in model.tree.status.workers:
        if any(worker in held for held in waits.values()):
            continue
        name = fit(one_line(worker.name), 18 if width >= 70 else 12, glyphs.cut)
        if not worker.doing:
            found.append([(f" {name}", "muted"), (" idle", "muted")])
            continue
        spent = words.span_text(now - worker.since) if worker.since else ""
        doing = cut(one_line(worker.doing), max(8, width - (38 if width >= 70 else 32)), glyphs.cut)
        found.append([(f" {name} ", ""), (fit(worker.node, 8), "muted"), (f" {doing}", "run"), (f"  {spent}", "muted")])
    if not found:
        found.append([(" The engine prepares the problem.", "run")])
    return found


def queue_text(model: Model) -> str:
    """How much waits."""
    if not model.outline.counted:
        return "counting"
    tallies = model.outline.round_tallies()
    waiting, running = sum(tally.waiting for tally in tallies), sum(tally.running for tally in tallies)
    return f"{running} running  {waiting} waiting"


def budget(model: Model, glyphs: Glyphs, now: float, width: int) -> list[Line]:
    """Every cap with what is used of it."""
    tree, caps = model.tree, model.tree.settings.budget
    known, unknown, reserved = words.spend(tree)
    note = " + unknown" if unknown else ""
    found = [_gauge("rounds", tree.status.round, tree.settings.rounds, f"{tree.status.round} of {tree.settings.rounds}",
                    glyphs, width)]  # fmt: skip
    if tree.calls or caps.usd is not None:
        used = words.money_text(known) + note + (f" ({words.money_text(reserved)} reserved)" if reserved else "")
        cap = f" of {words.money_text(caps.usd)}" if caps.usd is not None else ", no cap"
        found.append(_gauge("dollars", known + reserved, caps.usd, used + cap, glyphs, width))
    tokens = sum((call.tokens_in or 0) + (call.tokens_out or 0) for call in tree.calls.values())
    if tokens or caps.tokens is not None:
        cap = f" of {caps.tokens:,}" if caps.tokens is not None else ", no cap"
        found.append(_gauge("tokens", tokens, caps.tokens, f"{tokens:,}{cap}", glyphs, width))
    judged = sum(tally.judged for tally in model.outline.round_tallies())
    cap = f" of {caps.evaluations:,}" if caps.evaluations is not None else ", no cap"
    text = f"{judged:,}{cap}" if model.outline.counted else "counting"
    found.append(_gauge("judged", judged, caps.evaluations, text, glyphs, width))
    spent = active_s(model, now)
    cap = f" of {words.span_text(caps.wall_s)}" if caps.wall_s is not None else ", no cap"
    found.append(_gauge("time", spent, caps.wall_s, f"{words.span_text(spent)}{cap}", glyphs, width))
    return found


def _gauge(name: str, used: float, cap: float | None, text: str, glyphs: Glyphs, width: int) -> Line:
    cells = max(6, min(24, width - 44))
    share = used / cap if cap else 0.0
    picture = bar(share, cells, glyphs) if cap else " " * cells
    return [
        (f" {name:<9}", "muted"),
        (picture, "warning" if share > 0.9 and name != "rounds" else "bar"),
        (f"  {text}", ""),
    ]


def spend_lines(model: Model) -> list[Line]:
    """Dollars, tokens and calls by author."""
    rows: dict[str, list[float]] = {}
    unknown: dict[str, int] = {}
    for call in model.tree.calls.values():
        row = rows.setdefault(call.author, [0.0, 0.0, 0.0, 0.0])
        row[0] += 1
        row[1] += call.cost_usd or 0.0
        row[2] += (call.tokens_in or 0) + (call.tokens_out or 0)
        row[3] += call.state is CallState.FAILED
        unknown[call.author] = unknown.get(call.author, 0) + (call.cost_usd is None)
    if not rows:
        return []
    found: list[Line] = ["", [(f" {'author':<24}{'calls':>7}{'failed':>8}{'tokens':>12}{'cost':>10}", "muted")]]
    for author, (calls, usd, tokens, failed) in sorted(rows.items(), key=lambda item: -item[1][1]):
        cost = words.money_text(usd) + ("+?" if unknown[author] else "")
        found.append(
            [
                (f" {fit(one_line(author), 24)}", ""),
                (f"{calls:>7.0f}{failed:>8.0f}{tokens:>12,.0f}", "number"),
                (right(cost, 10), "number"),
            ]
        )
    return found


def event_line(event: Event, model: Model) -> Line:
    """Time, who, what."""
    token = EVENT_TOKENS.get(event.kind, "")
    who = fit(model.who_text(one_line(event.who)), 9)
    return [(f" {words.clock_text(event.created)} ", "muted"), (who, "human" if who.strip() == "you" else "muted"),
            (" " + one_line(event.text), token)]  # fmt: skip


# --------------------------------------------------------------------------- footer


def footer(width: int, pane: Pane = Pane.TREE, tab: str = "", *, only: Sequence[str] = ()) -> list[Span]:
    """As many keys as fit of those that do something here; quit, commands and keys always among them.

    `only`: beside these three nothing else does something, whatever the pane.
    """
    wanted = only or FOOTER_PANES.get(pane, FOOTER)
    if pane is Pane.DETAIL and not only:
        wanted = tuple(dict.fromkeys((*FOOTER_DETAIL, *FOOTER_TABS.get(tab, ()), *FOOTER_DETAIL_REST)))
    tail = _keys(FOOTER_LAST)
    room = width - sum(len(text) for text, _ in tail)
    spans: list[Span] = []
    for id in wanted:
        pair = _keys((id,))
        cells = sum(len(text) for text, _ in pair)
        if cells > room:
            break
        spans += pair
        room -= cells
    return spans + tail


def _keys(ids: Sequence[str]) -> list[Span]:
    spans: list[Span] = []
    for id in ids:
        action = by_id(id)
        spans += [(f" {key_text(keys_of(action)[0])}", "key"), (f" {action.short} ", "muted")]
    return spans


def message(text: str, token: str) -> list[Span]:
    """The last thing that happened to this viewer."""
    stamp = time.strftime(" %H:%M ") if text else ""
    return [(stamp, "muted"), (text, token)]
