"""Every error Overnight raises on purpose.

    OvernightError            exit 1   something asked for did not happen
    ├── UsageError            exit 2   the input is wrong: say what to change
    │   ├── ArenaError                 program.md or the files it names
    │   ├── SettingsError              overnight.toml, environment or flags
    │   └── NotFound                   no such run, experiment, entry, …
    ├── StoreError            exit 1   git, the database or a blob failed
    │   ├── GitError
    │   └── DatabaseError
    ├── Refused               exit 3   policy said no
    └── Missing               exit 4   a component this needs is not here
        ├── IsolationMissing           no sandbox can be had on this machine
        └── ExtraMissing               an optional package is not installed

Crashes, timeouts, rejected changes and worse scores of experiments are outcomes with a record, never exceptions.
"""


class OvernightError(Exception):
    """Root of the tree. The message says what failed, with the value; `hint` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(OvernightError):
    """What was asked for is not well formed; nothing was done."""

    exit_code = 2


class ArenaError(UsageError):
    """`program.md`, or a file it names, is not usable."""


class SettingsError(UsageError):
    """`overnight.toml`, an environment variable or a flag is not usable."""


class NotFound(UsageError):
    """A run, experiment, entry or file that was named does not exist."""


class StoreError(OvernightError):
    """Something could not be read from or written to the record."""


class GitError(StoreError):
    """Git refused or died; the message carries its own words."""


class DatabaseError(StoreError):
    """SQLite refused: locked, full, read-only or damaged."""


class Refused(OvernightError):
    """Policy denied the action. `reason` is machine-readable, the message is a plain sentence."""

    exit_code = 3

    def __init__(self, message: str, *, reason: str = "denied", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class Missing(OvernightError):
    """A component is not on this machine; `hint` is the command that would bring it."""

    exit_code = 4


class IsolationMissing(Missing):
    """No isolation can be had; running without needs an explicit `--sandbox none`."""


class ExtraMissing(Missing):
    """An optional package is not installed."""
