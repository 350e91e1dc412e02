"""The commands. Each one's module is imported only when it is called, so that `--help` is instant.

Exit statuses: 0 fine, 1 the candidate or the search failed, 2 bad usage or our own fault, 3 suspect.
stdout is data, stderr is talk.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

from kerneltui.errors import KernelTuiError

# name -> (module under kerneltui.commands, function, one line for --help)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("running", "demo", "A real search on this machine, with nothing to set up."),
    "new": ("sessions", "new", "Make a session for a problem."),
    "run": ("running", "run", "Run a session's engine in the foreground."),
    "attach": ("running", "attach", "Open the screen on a session; start its engine if asked."),
    "open": ("running", "attach", "The same as attach."),
    "web": ("web", "web", "The screen in a browser, behind a token."),
    "watch": ("running", "watch", "One line per event, for logs and screen readers."),
    "ls": ("sessions", "ls", "List the sessions."),
    "show": ("showing", "show", "Show a session, an idea or a variant."),
    "status": ("showing", "status", "What a session's engine does now."),
    "log": ("showing", "log", "A variant's compile or run log, as plain text."),
    "failures": ("showing", "failures", "What went wrong, grouped by what is alike."),
    "sass": ("disassembly", "sass", "The machine code of a variant: SASS, PTX or host assembly."),
    "profile": ("profiling", "profile", "Count what a variant does: ncu on a GPU, perf on a CPU."),
    "eval": ("judging", "evaluate", "Judge one kernel file: compile, verify, time."),
    "problems": ("judging", "problems", "List the problems that can be searched."),
    "contract": ("judging", "contract", "Print the C signature of a problem."),
    "inject": ("steering", "inject", "Put a hand-written kernel into a session."),
    "add-idea": ("steering", "add_idea", "Put an idea of your own into a session."),
    "edit": ("steering", "edit", "Change the words of an idea."),
    "expand": ("steering", "expand", "Have more variants written from an idea."),
    "prompt": ("pasting", "prompt", "What an author would be asked, to carry to a model by hand."),
    "answer": ("pasting", "answer", "Bring back the answer of a model that has no API."),
    "ledger": ("ledger", "ledger", "Which techniques paid, and whether forecasts held."),
    "replay": ("replaying", "replay_session", "Run a session's answers and verdicts through the search again."),
    "approve": ("steering", "approve", "Let a proposed idea be written."),
    "reject": ("steering", "reject", "Turn a proposed idea down."),
    "move": ("steering", "move", "Move a proposed idea: code is written in that order."),
    "prune": ("steering", "prune", "Cut off an idea or a variant with all below it."),
    "restore": ("steering", "restore", "Undo a prune, a rejection or a merge."),
    "pin": ("steering", "pin", "Keep a variant among the survivors."),
    "unpin": ("steering", "unpin", "Let a pinned variant compete again."),
    "retry": ("steering", "retry", "Judge a variant again, or write it again."),
    "certify": ("steering", "certify", "Measure a variant again with every check."),
    "note": ("steering", "note", "Leave a note that later prompts will carry."),
    "pause": ("steering", "pause", "Start nothing new."),
    "resume": ("steering", "resume", "Go on after a pause."),
    "budget": ("steering", "budget", "Change what the search may spend."),
    "stop": ("steering", "stop", "End the search; what was found stays."),
    "export": ("exporting", "export", "Write a variant into a source tree."),
    "doctor": ("machine", "doctor", "What this machine has, and what is missing for what."),
    "paths": ("paths", "paths", "Where everything lies, and what decided each setting of the screen."),
    "reset": ("machine", "reset", "Restore a terminal that a crash left broken."),
}


class Commands(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[name]
        command: click.Command = getattr(importlib.import_module(f"kerneltui.commands.{module}"), function)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, arguments)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(arguments[0], COMMANDS, n=1)
            hint = f" Did you mean `{near[0]}`?" if near else " `kerneltui --help` lists the commands."
            raise click.UsageError(f"no command `{arguments[0]}`.{hint}", context) from error


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(package_name="kerneltui", message="kerneltui %(version)s")
@click.pass_context
def group(context: click.Context) -> None:
    """Steer a search for fast GPU kernels.

    Without a command: the screen, on the list of sessions.
    """
    if context.invoked_subcommand is None:
        from kerneltui.commands.running import open_screen

        sys.exit(open_screen(None))


def main() -> None:
    """Entry point: sentences instead of tracebacks for what is not a bug of ours."""
    try:
        group.main(standalone_mode=True)
    except KernelTuiError as error:
        sys.stderr.write(f"kerneltui: {error}\n")
        sys.exit(2)
    except BrokenPipeError:
        # The reader has gone (`| head -1`); what it wanted, it has.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
