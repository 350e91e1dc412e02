"""Makes the pictures of docs/tour.md from the real program on a session.

python docs/img/make_pictures.py sessions/NAME [PICTURE...]
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from textual.worker import WorkerCancelled

from kerneltui.tui.actions import key_table
from kerneltui.tui.app import KernelTui

HERE = Path(__file__).resolve().parent
KEYS_FROM, KEYS_TO = "<!-- keys: made by docs/img/make_pictures.py -->", "<!-- end of keys -->"

# name, columns, lines, theme, keys
PICTURES = (
    ("main", 160, 48, "kt-dark", ()),
    ("narrow", 80, 24, "kt-dark", ()),
    ("middle", 110, 32, "kt-forest", ("t",)),
    ("diff", 100, 30, "kt-dark", ("d", "enter")),
    ("times", 100, 30, "kt-ember", ("t", "enter")),
    ("trust", 100, 30, "kt-dark", ("t", "right_square_bracket", "enter")),
    ("profile", 100, 30, "kt-dark", ("t", *["right_square_bracket"] * 2, "enter")),
    ("idea", 100, 30, "kt-light", ("t", *["right_square_bracket"] * 3, "enter")),
    ("machine", 110, 34, "kt-dark", ("B", "M", *["right_curly_bracket"] * 3)),
    ("beside", 160, 40, "kt-dark", ("d", "equals_sign", "enter")),
    ("lineage", 110, 30, "kt-dark", ("L",)),
    ("ledger", 130, 30, "kt-dark", ("T",)),
    ("spend", 130, 30, "kt-light", ("dollar_sign",)),
    ("compare", 120, 36, "kt-dark", ("B", "space", *"jjjj", "space", "c")),  # two that differ in their text
    ("log", 100, 30, "kt-dark", ("n", "enter")),
    ("filter", 100, 24, "kt-light", ("slash", *"is:sweep speed>1.5")),
    ("failures", 100, 30, "kt-dark", ("f",)),
    ("inject", 120, 36, "kt-dark", ("i",)),
    ("palette", 100, 30, "kt-dark", ("colon", *"bud")),
    ("keys", 140, 40, "kt-light", ("question_mark",)),
    ("marks", 80, 24, "kt-ansi", ("question_mark", "G")),
    ("review", 110, 30, "kt-dark", ("V",)),  # of a session with `review = true`
    ("waiting", 110, 30, "kt-dark", ("4",)),  # of a session whose provider asks to wait
    # of a session that tests/provider_server.py answers, with kernels of a playbook
    ("prompt", 100, 40, "kt-dark", ("B", "t", *["right_square_bracket"] * 4, "enter", *["ctrl+d"] * 5)),
    (
        "setup",
        110,
        34,
        "kt-dark",
        ("colon", *"home", "enter", "c", "tab", "tab", "tab", *", openai:gpt-5", "down", "backspace", "0"),
    ),
    ("home", 110, 30, "kt-dark", ("colon", *"home", "enter")),
)


async def take(folder: Path, name: str, width: int, height: int, theme: str, keys: tuple[str, ...]) -> None:
    """One picture."""
    app = KernelTui(folder, theme=theme)
    app.title = "kerneltui"
    async with app.run_test(size=(width, height)) as pilot:
        while getattr(app.screen, "_model", None) is None:
            await pilot.pause(0.05)
        await pilot.pause(0.5)
        for key in keys:
            await pilot.press(key)
            with suppress(WorkerCancelled):  # of a screen that was left
                await app.workers.wait_for_complete()  # what a thread makes
            await pilot.pause()
        await pilot.pause(1.5)
        text = app.export_screenshot(title=f"kerneltui {folder.name}")
        (HERE / f"{name}.svg").write_text(text, encoding="utf-8")


def write_keys() -> None:
    """The table of keys in the tour."""
    path = HERE.parent / "tour.md"
    before, rest = path.read_text("utf-8").split(KEYS_FROM)
    path.write_text(f"{before}{KEYS_FROM}\n{key_table()}\n{KEYS_TO}{rest.split(KEYS_TO)[1]}", encoding="utf-8")


def main() -> None:
    write_keys()
    folder = Path(sys.argv[1])
    wanted = sys.argv[2:]
    for name, *rest in PICTURES:
        if not wanted or name in wanted:
            asyncio.run(take(folder, name, *rest))


if __name__ == "__main__":
    main()
