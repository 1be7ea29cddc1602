"""The `overnight` command. Subcommands are imported when they are used, so that help answers at once."""

import sys
from importlib import import_module

import click

from overnight import __version__
from overnight.core.errors import OvernightError

# Command → module:attribute and the line of help, in the order in which people meet them.
COMMANDS = {
    "init": ("workspace:init", "Make a workspace."),
    "arena": ("arena:arena", "Make an arena, check it, ask whether a loop fits."),
    "run": ("run:run", "Improve an arena by experiments."),
    "resume": ("run:resume", "Go on with an interrupted run."),
    "status": ("runs:status", "How the runs of a workspace stand."),
    "log": ("runs:log", "Every experiment of a run."),
    "show": ("runs:show", "One experiment: diff, hypothesis, measurements."),
    "report": ("report:report", "What a run found, as a page and a chart."),
    "export": ("report:export", "A run in another tool's format."),
    "import": ("report:import_", "Another tool's log as a past run."),
    "doctor": ("workspace:doctor", "What this machine can do, and what it lacks."),
    "config": ("workspace:config", "Every setting, and where it comes from."),
    "repair": ("workspace:repair", "Rebuild the database from git, or git from it."),
    "gc": ("workspace:gc", "What old runs and model calls cost, and remove what is past its retention."),
    "gate": ("gate:gate", "Who may do what, and why."),
    "inbox": ("inbox:inbox", "What waits for a person."),
    "approve": ("inbox:approve", "Say yes to an item of the inbox."),
    "deny": ("inbox:deny", "Say no to an item of the inbox."),
    "ask": ("ask:ask", "Answer a prompt at the lowest tier that can."),
    "model": ("model:model", "Which models there are, and where a prompt would go."),
    "gateway": ("gateway:gateway", "Serve models to any client, within budgets, on record."),
    "trace": ("trace:trace", "What was done, by whom, with which words, and what it cost."),
    "usage": ("usage:usage", "Calls, tokens and money by tenant, agent, model or run."),
    "approver": ("credential:approver", "Who approves here."),
    "audit": ("audit:audit", "The journal: read, verify, roll back."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports each when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"overnight.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a suggestion for a name that is nearly right."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from overnight.core.schema import suggest

            raise click.UsageError(f"no command {args[0]!r}; {suggest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="overnight")
def cli() -> None:
    """Leave agents working; wake up to results you can trust."""


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 refused, 4 missing."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as problem:
        problem.show()
        sys.exit(2)
    except OvernightError as problem:
        click.echo(f"overnight: {problem.message}", err=True)
        if problem.hint:
            click.echo(f"  {problem.hint}", err=True)
        sys.exit(problem.exit_code)
    except BrokenPipeError:
        # Whoever read our output has gone; say nothing more, and keep Python from trying at exit.
        sys.stderr.close()
        sys.exit(141)
