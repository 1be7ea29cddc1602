"""The policy in force: every trusted AGENTS.md of a workspace, compiled together."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from overnight.core.errors import SettingsError
from overnight.kernel.approval.inbox import Inbox
from overnight.kernel.approval.trust import Trust
from overnight.kernel.decide import Policy
from overnight.kernel.ledger.breaker import FRAGMENT_WINDOW_S, fragments
from overnight.kernel.masking.hiding import Hide, HidingPolicy
from overnight.kernel.rules.checks import check_names
from overnight.kernel.rules.combination import Combination
from overnight.kernel.rules.matrix import Layer, Matrix, Rule
from overnight.kernel.rules.rulebook import Rulebook, narrowest, parse
from overnight.kernel.rules.settings import RuleSettings
from overnight.kernel.tool.spec import ToolSpec

HIDDEN: Hide = "everything"
"""What is hidden from an agent of which no `[[masking]]` table speaks; as the gateway of models has it."""


def rulebook(path: str, text: str) -> Rulebook:
    """The rules of one AGENTS.md file, narrowing what its place says: an agent, a folder, or for the root, nothing.

    Raises:
        SettingsError: with the line of the mistake.
    """
    place = PurePosixPath(path).parent
    if len(place.parts) == 2 and place.parts[0] == "agents":
        return parse(text, path, agent=place.name)
    return parse(text, path, folder="" if str(place) == "." else str(place))


def settle(trust: Trust, inbox: Inbox) -> list[str]:
    """Ask about changed files in the inbox, and put in force what was approved there; the files in force because of it.

    Raises:
        SettingsError: an approved AGENTS.md has a mistake; the trusted copy goes on ruling.
        StoreError: it cannot be recorded.
    """
    taken = []
    for item, question in trust.ask(inbox):
        if PurePosixPath(item.path).name == "AGENTS.md" and item.sha256:
            if inbox.state(question.id) != "approved":
                continue
            rulebook(item.path, text_of(item.path, trust.current(item.path)))
        if trust.take(inbox, item, question):
            taken.append(item.path)
    return taken


def text_of(path: str, content: bytes | None) -> str:
    """The text of a rules' file, without the byte order mark that some editors put before it.

    Raises:
        SettingsError: it is not UTF-8.
    """
    try:
        return (content or b"").decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise SettingsError(f"{path}: not UTF-8 at byte {problem.start}", hint="save it as UTF-8") from None


def policy_in_force(trust: Trust, extra: Sequence[Rule] = ()) -> Policy:
    """What the trusted copies say together. Where they say nothing of masking, models see neither secrets nor personal
    data.

    Args:
        trust: of the workspace.
        extra: further rules of the outermost layer, made by code from what is trusted as well: `program.md`.

    Raises:
        SettingsError: a trusted file has a mistake; nothing may run until it is mended and trusted.
        StoreError: a trusted copy was tampered with.
    """
    layers: list[Layer] = []
    combinations: list[Combination] = []
    words: dict[str, tuple[str, ...]] = {}
    tools: list[ToolSpec] = []
    settings = RuleSettings()
    for path in trust.paths():
        if PurePosixPath(path).name != "AGENTS.md":
            continue
        text = text_of(path, trust.in_force(path))
        book = rulebook(path, text)
        if book.layer.rules or book.layer.roles:
            layers.append(book.layer)
        combinations += book.combinations
        words.update(book.plan_words)
        tools += book.tools
        if not book.layer.folder and not book.layer.agent:
            settings = book.settings
    check_names(combinations)
    ordered = narrowest(layers)
    inner = tuple(layer for layer in ordered if layer.folder or layer.agent)
    root = next((layer for layer in ordered if layer not in inner), Layer(()))
    # Without a root file nothing grants: a nested one must not become the outermost by being alone.
    outermost = Layer((*root.rules, *extra), root.roles, source=root.source)
    window_s = FRAGMENT_WINDOW_S if settings.fragments_s is None else settings.fragments_s
    return Policy(
        Matrix((outermost, *inner)),
        (*combinations, *fragments(combinations, window_s)),
        words,
        tuple(tools),
        settings.destructive_quorum,
        HidingPolicy(settings.masking, HIDDEN),
        settings.bursts,
        settings.limits,
        settings.undo,
        settings.ask_irreversible,
    )
