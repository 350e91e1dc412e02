"""What is carried away from the screen: ids, code, logs, times, and the export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerneltui.errors import KernelTuiError
from kerneltui.records import Tree, Variant
from kerneltui.tui import clipboard, words
from kerneltui.tui.render import plain

if TYPE_CHECKING:
    from kerneltui.tui.screens.main import MainScreen


class Taking:
    """Part of the main screen."""

    @property
    def screen_(self: Any) -> MainScreen:
        """Ourselves, for the type checker."""
        found: MainScreen = self
        return found

    def act_result_export(self, argument: str = "") -> None:
        screen = self.screen_
        variant = screen.hands.one_variant() or screen.model.tree.best()
        if variant is None or variant.candidate is None:
            screen.say("go to a variant with code first", "muted")
            return

        def take(folder: str) -> None:
            screen.say(f"exporting {variant.id}", "muted")
            tree = replace(screen.model.tree, ideas=dict(screen.model.tree.ideas))
            screen.run_worker(lambda: self._export(tree, variant, folder.strip()), thread=True, group="export")

        if argument:
            take(argument)
        else:
            hint = "a folder; nothing is overwritten: -002 is taken where the files are there"
            screen.ask(f"Export {variant.id} to", take, value="winners", hint=hint, check=_needs_folder)

    def _export(self, tree: Tree, variant: Variant, folder: str) -> None:
        """In a thread."""
        from kerneltui.tui.exports import export_variant

        screen = self.screen_
        try:
            files = export_variant(screen.feed.folder, tree, variant, Path(folder).expanduser())
        except KernelTuiError as error:
            text, token = str(error), "error"
        else:
            names = ", ".join(path.name for path in files)
            text, token = f"exported {variant.id} to {words.path_text(files[0].parent)}: {names}", "human"
        screen.app.call_from_thread(screen.say, text, token)

    def act_copy_yank(self) -> None:
        from kerneltui.tui.screens.dialogs import Pick

        choices = (("i", "id"), ("c", "code"), ("p", "path"), ("t", "times"), ("l", "log"), ("d", "this pane"))
        self.screen_.app.push_screen(Pick("copy", choices), self._yank)

    def _yank(self, what: str | None) -> None:
        screen = self.screen_
        row = screen.current
        if what is None or row is None:
            return
        variant = screen.hands.one_variant()
        if what == "i":
            self._copy(row.id, "id.txt", row.id)
        elif what == "p":
            self._copy(str(screen.model.folder.resolve()), "path.txt", "the path of the session")
        elif what == "d":
            self._copy(screen.detail.text(), "pane.txt", "the detail pane")
        elif variant is None:
            screen.say("no variant here", "muted")
        elif what == "c":
            candidate = screen.model.candidate(variant)
            suffix = {"cuda": ".cu", "python": ".py"}.get(str(candidate.language), ".cpp") if candidate else ""
            self._copy(candidate.source if candidate else "", f"{variant.id}{suffix}", f"the code of {variant.id}")
        elif what == "l":
            verdict = screen.model.subject(variant).verdict
            self._copy(plain(verdict.log) if verdict else "", f"{variant.id}.log", f"the log of {variant.id}")
        else:
            ratio = f"{variant.speedup.ratio:.4f}" if variant.speedup else ""
            self._copy(f"{variant.id}\t{variant.median_us}\t{ratio}", "times.tsv", f"the times of {variant.id}")

    def _copy(self, text: str, name: str, what: str) -> None:
        """To the clipboard by two ways, and to a file that is named."""
        screen = self.screen_
        if not text:
            screen.say("nothing to copy", "muted")
            return
        path = clipboard.to_file(text, name)
        if len(text.encode("utf-8", "replace")) < clipboard.OSC52_LIMIT_BYTES:
            screen.app.copy_to_clipboard(text)
        clipboard.to_tmux(text)
        short = text if len(text) < 60 and "\n" not in text else what
        screen.say(f"copied {short}" + (f"; also in {path}" if path else ""), "human")


def _needs_folder(text: str) -> str:
    return "" if text.strip() else "a folder to write into"
