"""Every act of a person, in one table: keys, footer, `?`, palette, docs and command-line twins come from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kerneltui.records import DecisionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing that can be done on the main screen."""

    id: str  # what `[keys]` in a configuration names
    keys: tuple[str, ...]  # Textual's names; the first is shown
    title: str  # in `?` and the palette
    short: str = ""  # in the footer; "" is not shown there
    group: str = "view"  # move, view, steer, copy, engine
    decision: DecisionKind | None = None  # what it asks the engine for
    twin: str = ""  # the same on the command line, after `kerneltui`
    undo: bool = False  # z takes it back
    argument: str = ""  # what the palette takes after its name
    command: str = ""  # its name in the palette; "" is the title


K = DecisionKind
ACTIONS: tuple[Action, ...] = (
    # steer
    Action(id="node.open", keys=("enter",), title="open in full; round or idea: open, close; log: its code line", short="open",
           twin="show SESSION NODE"),
    Action(id="idea.edit", keys=("e",), title="edit the idea", short="edit", group="steer", decision=K.EDIT,
           twin="edit SESSION IDEA", undo=True, command="edit idea"),
    Action(id="kernel.inject", keys=("i",), title="inject a kernel: a file, a paste, or the skeleton", short="inject",
           group="steer", decision=K.INJECT, twin="inject SESSION FILE", undo=True, argument="FILE", command="inject"),
    Action(id="branch.prune", keys=("x",), title="prune: cut off this and all below it", short="prune", group="steer",
           decision=K.PRUNE, twin="prune SESSION NODE", undo=True, command="prune"),
    Action(id="branch.restore", keys=("X",), title="restore what was pruned", group="steer", decision=K.RESTORE,
           twin="restore SESSION NODE", undo=True, command="restore"),
    Action(id="branch.pin", keys=("p",), title="pin: keep as a parent whatever comes; again: unpin", short="pin",
           group="steer", decision=K.PIN, twin="pin SESSION NODE", undo=True, command="pin"),
    Action(id="branch.unpin", keys=(), title="unpin", group="steer", decision=K.UNPIN, twin="unpin SESSION NODE",
           undo=True, command="unpin"),
    Action(id="node.retry", keys=("r",), title="retry: have it written or judged again", short="retry", group="steer",
           decision=K.RETRY, twin="retry SESSION NODE", command="retry"),
    Action(id="group.retry", keys=("R",), title="retry everything that failed in the same way", short="retry alike", group="steer",
           decision=K.RETRY, twin="retry SESSION NODE", command="retry signature"),
    Action(id="node.note", keys=("m",), title="note: kept with the node and given to later prompts", short="note",
           group="steer", decision=K.NOTE, twin="note SESSION NODE TEXT", undo=True, argument="TEXT", command="note"),
    Action(id="idea.add", keys=("a",), title="add an idea of your own", short="add idea", group="steer", decision=K.ADD_IDEA,
           twin="add-idea SESSION TITLE", undo=True, command="add idea"),
    Action(id="kernel.fork", keys=("E",), title="fork: edit this kernel as a new variant", short="fork", group="steer",
           decision=K.INJECT, twin="inject SESSION FILE --parent NODE", undo=True, command="fork"),
    Action(id="idea.expand", keys=("plus",), title="write more variants of this idea", short="more variants", group="steer", decision=K.EXPAND,
           twin="expand SESSION IDEA", argument="COUNT", command="expand"),
    Action(id="kernel.certify", keys=("C",), title="certify: measure again in a fresh process, with the sanitizers", short="certify",
           group="steer", decision=K.CERTIFY, twin="certify SESSION NODE", command="certify"),
    Action(id="kernel.profile", keys=("percent_sign",), title="profile: count what it does, with ncu on a GPU, perf on a CPU",
           short="profile", group="steer", decision=K.PROFILE, twin="profile SESSION VARIANT", command="profile"),
    Action(id="idea.approve", keys=("A",), title="approve the proposed idea", group="steer", decision=K.APPROVE,
           twin="approve SESSION IDEA", command="approve"),
    Action(id="idea.reject", keys=(), title="reject the proposed idea", group="steer", decision=K.REJECT,
           twin="reject SESSION IDEA", command="reject"),
    Action(id="idea.move", keys=(), title="move the proposed idea before another; in the review: J and K", group="steer",
           decision=K.MOVE, twin="move SESSION IDEA --before IDEA", undo=True, argument="ID", command="move idea"),
    Action(id="edit.undo", keys=("z", "u"), title="undo", short="undo", group="steer", command="undo"),
    Action(id="edit.redo", keys=("Z",), title="redo", group="steer", command="redo"),
    Action(id="row.mark", keys=("space",), title="mark this row; acts then apply to all that are marked", group="steer"),
    Action(id="row.range", keys=("v",), title="mark from the last mark to here", group="steer"),
    Action(id="row.unmark", keys=(), title="clear all marks", group="steer", command="clear marks"),
    # engine
    Action(id="engine.pause", keys=("P",), title="pause or resume the search", short="pause", group="engine",
           decision=K.PAUSE, twin="pause SESSION", command="pause"),
    Action(id="engine.resume", keys=(), title="resume the search", group="engine", decision=K.RESUME,
           twin="resume SESSION", command="resume"),
    Action(id="engine.budget", keys=("b",), title="change rounds and caps: usd 40, rounds +2, wall 2h", short="budget", group="engine",
           decision=K.BUDGET, twin="budget SESSION NAME=VALUE", argument="NAME VALUE", command="budget"),
    Action(id="engine.start", keys=("S",), title="start the engine, if none runs", short="start", group="engine",
           twin="run SESSION", command="start"),
    Action(id="engine.log", keys=(), title="open the engine's log", group="engine", command="engine log"),
    Action(id="engine.stop", keys=("Q",), title="stop the search and close (asks)", group="engine", decision=K.STOP,
           twin="stop SESSION", command="stop"),
    Action(id="engine.drain", keys=(), title="drain: begin nothing new, end once what runs is finished", group="engine",
           decision=K.STOP, twin="stop SESSION --drain", command="drain"),
    Action(id="app.quit", keys=("q",), title="close the viewer; the search goes on", short="quit", group="engine",
           command="quit"),
    # view
    Action(id="view.filter", keys=("slash",), title="filter the tree", short="filter", twin="show SESSION --filter TEXT",
           argument="TEXT", command="filter"),
    Action(id="view.next_match", keys=("n",), title="next failure; in a log: next error", short="next error", command="next failure"),
    Action(id="view.previous_match", keys=("N",), title="previous failure; in a log: previous error"),
    Action(id="goto.best", keys=("B",), title="go to the best variant", short="best", command="goto best"),
    Action(id="goto.running", keys=(), title="go to the next running variant", command="goto running"),
    Action(id="goto.node", keys=(), title="go to a node", argument="ID", command="goto"),
    Action(id="view.sort", keys=("o",), title="sort: best, newest, name, cost", argument="ORDER", command="sort"),
    Action(id="view.diff", keys=("d",), title="diff against the parent", short="diff", twin="show SESSION NODE",
           command="diff"),
    Action(id="view.diff_base", keys=("D",), title="diff base: parent, best, marked", short="diff base", command="diff base"),
    Action(id="view.beside", keys=("equals_sign",), title="diff side by side, where the pane has 100 columns", short="beside", command="side by side"),
    Action(id="view.times", keys=("t",), title="timings", short="times", command="timings"),
    Action(id="view.machine_code", keys=("M",), title="machine code: SASS or PTX, or the host assembly of C++",
           short="machine code", twin="sass SESSION VARIANT", argument="ptx", command="sass"),
    Action(id="view.compare", keys=("c",), title="compare two marked variants", argument="A B", command="compare",
           twin="show SESSION A B"),
    Action(id="view.failures", keys=("f",), title="failures, grouped by what went wrong", short="failures",
           twin="failures SESSION", command="failures"),
    Action(id="view.review", keys=("V",), title="review proposed ideas", command="review"),
    Action(id="view.lineage", keys=("L",), title="lineage: the way here, with the gain of every step", short="lineage", command="lineage",
           twin="show SESSION NODE"),
    Action(id="view.ledger", keys=("T",), title="ledger: which techniques paid", short="ledger", command="ledger", twin="ledger SESSION"),
    Action(id="view.spend", keys=("dollar_sign",), title="spend: by author, round and idea", short="spend", command="spend",
           twin="show SESSION"),
    Action(id="view.wrap", keys=("W",), title="wrap long lines in the detail pane", short="wrap", command="wrap"),
    Action(id="view.next_tab", keys=("right_square_bracket",), title="next tab of the detail pane", short="tab"),
    Action(id="view.previous_tab", keys=("left_square_bracket",), title="previous tab of the detail pane"),
    Action(id="view.next_part", keys=("right_curly_bracket",), title="next round; in a diff: next hunk", short="hunk"),
    Action(id="view.previous_part", keys=("left_curly_bracket",), title="previous round; in a diff: previous hunk"),
    Action(id="view.detail_down", keys=("J",), title="scroll the detail pane down"),
    Action(id="view.detail_up", keys=("K",), title="scroll the detail pane up"),
    Action(id="view.follow", keys=("F",), title="freeze the view; the search works on", command="freeze"),
    Action(id="view.raw", keys=("vertical_line",), title="raw view: no panes, for the terminal's own selection",
           command="raw"),
    Action(id="view.zoom", keys=("underscore",), title="this pane alone, or all", short="zoom", command="zoom"),
    Action(id="view.pane_next", keys=("tab",), title="next pane", group="move"),
    Action(id="view.pane_previous", keys=("shift+tab",), title="previous pane", group="move"),
    Action(id="view.pane_1", keys=("1",), title="tree", group="move"),
    Action(id="view.pane_2", keys=("2",), title="detail", group="move"),
    Action(id="view.pane_3", keys=("3",), title="plot", group="move"),
    Action(id="view.pane_4", keys=("4", "w"), title="workers", group="move"),
    Action(id="view.pane_5", keys=("5",), title="budget", group="move"),
    Action(id="view.pane_6", keys=("6",), title="events", group="move"),
    Action(id="view.back", keys=("escape",), title="back; clear the filter, then the marks", short="back", group="move"),
    Action(id="copy.yank", keys=("y",), title="copy: then i id, c code, p path, t times, l log", short="copy", group="copy",
           command="yank"),
    Action(id="result.export", keys=("s",), title="export this variant, or the winner, as plain source", short="export", group="copy",
           twin="export SESSION VARIANT --to DIR", argument="DIR", command="export"),
    Action(id="view.theme", keys=(), title="theme", argument="NAME", command="theme"),
    Action(id="view.home", keys=(), title="all sessions", command="home", twin="ls"),
    Action(id="view.screenshot", keys=(), title="save the screen as an SVG", command="screenshot"),
    Action(id="app.palette", keys=("colon", "ctrl+p"), title="all commands", short="commands"),
    Action(id="app.help", keys=("question_mark",), title="all keys", short="keys"),
    Action(id="app.redraw", keys=("ctrl+l",), title="redraw the screen", command="redraw"),
)  # fmt: skip

# What the footer shows, most wanted first: as many as fit.
FOOTER = ("node.open", "branch.prune", "edit.undo", "idea.edit", "kernel.inject", "view.filter", "branch.pin", "node.retry",
          "view.diff", "engine.pause", "result.export", "view.failures", "node.note", "idea.add", "engine.budget", "copy.yank",
          "view.times")  # fmt: skip
FOOTER_UNREAD = ("view.back",)  # no session can be shown
FOOTER_EMPTY = ("engine.start", "kernel.inject", "idea.add", "engine.budget")  # nothing has been found yet
FOOTER_DETAIL = ("view.back", "view.next_tab")  # then those of the tab, then the rest
FOOTER_TABS: Mapping[str, tuple[str, ...]] = {
    "Code": ("kernel.fork", "view.wrap", "view.machine_code", "copy.yank"),
    "Diff": ("view.next_part", "view.diff_base", "view.beside", "view.wrap"),
    "Log": ("view.next_match", "view.wrap", "kernel.fork", "node.retry", "group.retry"),
    "Time": ("kernel.certify", "result.export", "copy.yank"),
    "Trust": ("kernel.certify", "result.export"),
    "Profile": ("kernel.profile", "view.machine_code"),
    "Idea": ("idea.edit", "idea.expand", "view.lineage"),
    "Prompt": ("view.wrap", "copy.yank", "view.spend"),
}
FOOTER_DETAIL_REST = ("kernel.fork", "branch.prune", "branch.pin", "kernel.certify", "kernel.profile", "view.machine_code", "node.note",
                      "copy.yank", "result.export", "view.zoom")  # fmt: skip
FOOTER_PANES: Mapping[str, tuple[str, ...]] = {
    "plot": ("view.back", "goto.best", "view.lineage", "view.ledger", "view.zoom"),
    "workers": ("view.back", "engine.pause", "engine.budget", "view.zoom"),
    "budget": ("view.back", "engine.budget", "view.spend", "engine.pause", "view.zoom"),
    "events": ("view.back", "node.open", "view.zoom"),
}
FOOTER_LAST = ("app.quit", "app.palette", "app.help")

FORBIDDEN = frozenset(
    {"ctrl+a", "ctrl+b", "ctrl+s", "ctrl+q", "ctrl+h", "ctrl+j", "ctrl+k", "ctrl+w", "ctrl+enter", "shift+enter"}
)  # taken by tmux, screen, flow control, terminals in a browser, or never sent
KEY_TEXT = {
    "slash": "/", "colon": ":", "question_mark": "?", "right_square_bracket": "]", "left_square_bracket": "[",
    "right_curly_bracket": "}", "left_curly_bracket": "{", "vertical_line": "|", "escape": "esc", "plus": "+", "underscore": "_",
    "dollar_sign": "$", "equals_sign": "=", "percent_sign": "%",
}  # fmt: skip
GROUP_TITLES = {"steer": "Steer", "engine": "Search", "view": "Look", "move": "Move", "copy": "Take away"}


def key_text(key: str) -> str:
    """A key as it is shown."""
    return KEY_TEXT.get(key, key)


_own_keys: dict[str, tuple[str, ...]] = {}  # a person's, by action; set once, before the first screen is made


def use_keys(keys: Mapping[str, str]) -> None:
    """Take a person's keys: what is shown as the key of an action follows."""
    _own_keys.clear()
    _own_keys.update({id: tuple(names.split(",")) for id, names in keys.items()})


def keys_of(action: Action) -> tuple[str, ...]:
    """The keys that an action has here."""
    return _own_keys.get(action.id, action.keys)


def key_table() -> str:
    """Every action as a table in Markdown, for the documentation."""
    rows = ["| key | command | does | undo | on the command line |", "|---|---|---|---|---|"]
    for group in GROUP_TITLES:
        for action in (action for action in ACTIONS if action.group == group):
            keys = " ".join(f"`{key_text(key)}`" for key in action.keys).replace("|", "\\|")
            command = f"`:{action.command}{' ' + action.argument if action.argument else ''}`" if action.command else ""
            twin = f"`kerneltui {action.twin}`" if action.twin else ""
            rows.append(f"| {keys} | {command} | {action.title} | {'`z`' if action.undo else ''} | {twin} |")
    return "\n".join(rows)


def by_id(id: str) -> Action:
    """The action of that id."""
    return next(action for action in ACTIONS if action.id == id)


def commands() -> list[Action]:
    """What the palette offers."""
    return [action for action in ACTIONS if action.command]


def read_command(text: str) -> tuple[Action, str] | None:
    """The action that a palette line names, longest name first, and what follows."""
    words = text.strip()
    for action in sorted(commands(), key=lambda action: -len(action.command)):
        if words == action.command or words.startswith(action.command + " "):
            return action, words[len(action.command) :].strip()
    return None
