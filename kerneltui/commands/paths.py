"""paths."""

from __future__ import annotations

from pathlib import Path

import click

from kerneltui.commands.output import print_json, table
from kerneltui.store import sessions_folder


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def paths(as_json: bool) -> None:
    """Where everything lies, and which file or variable decided each setting of the screen."""
    from kerneltui.tui import config, drafts, theme

    rows = [
        ("config", config.config_path(), "$KERNELTUI_CONFIG, else $XDG_CONFIG_HOME/kerneltui/config.toml"),
        ("project", config.project_path(), "beside where you are; wins over config"),
        ("sessions", sessions_folder(), "$KERNELTUI_SESSIONS, else ./sessions"),
        ("drafts", drafts.drafts_folder(), "$XDG_STATE_HOME/kerneltui/drafts"),
        *(
            ("themes", folder, "yours" if not number else "shipped")
            for number, folder in enumerate(theme.theme_folders())
        ),
    ]
    settings = config.setting_lines(config.load_config())
    if as_json:
        found = [{"name": name, "path": str(path), "exists": Path(path).exists()} for name, path, _ in rows]
        values = [{"name": name, "value": value, "source": source} for name, value, source in settings]
        print_json({"paths": found, "settings": values})
        return
    cells = [[name, str(path), "" if Path(path).exists() else "not there", why] for name, path, why in rows]
    click.echo(table(["what", "path", "", "from"], cells))
    click.echo("")
    click.echo(table(["setting", "value", "said by"], [list(row) for row in settings]))
