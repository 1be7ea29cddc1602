"""Write the help text of every command into docs/commands.md, or check that it is what stands there.

Usage: python tools/docs_help.py [--check]
"""

import os
import sys
from pathlib import Path

import click

from overnight.cli.main import cli

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
HEAD = """# Commands

Generated from the commands themselves by `make docs`; `make check` fails if this page is out of date.
Exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 refused by policy, 4 isolation or a component is missing.
"""


def pages(command: click.Command, context: click.Context) -> list[str]:
    """The help of a command and of all below it, in order."""
    found = [f"## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += pages(below, click.Context(below, info_name=name, parent=context, terminal_width=100))
    return found


def main() -> None:
    """Write, or compare."""
    os.environ["COLUMNS"] = "100"
    context = click.Context(cli, info_name="overnight", terminal_width=100)
    text = HEAD + "\n" + "\n".join(pages(cli, context))
    if "--check" not in sys.argv:
        PAGE.write_text(text, "utf-8")
    elif not PAGE.exists() or PAGE.read_text("utf-8") != text:
        sys.exit("docs/commands.md is out of date; run `make docs` and commit it")


if __name__ == "__main__":
    main()
