"""Tools that a provider runs itself and charges by the use: web search, code execution and the like.

What a request can cost is set aside before it is made, so the number of uses has to have a bound: where the client sets
none and the format has a place for it, the gateway does.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from overnight.models.prices import Price
from overnight.models.usage import Usage
from overnight.models.wire.neutral import WireName

_DATE: Final = re.compile(r"_(preview|\d{8}|\d{4}_\d{2}_\d{2})(?=_|$)")
_PLAIN: Final = ("function", "custom")
_CLIENTS: Final = frozenset(
    {
        "",
        "function",
        "custom",
        "local_shell",
        "computer",
        "computer_use",
        "bash",
        "text_editor",
        "memory",
        "apply_patch",
    }
)
"""Run by the client; the provider charges their words alone."""
_SAME: Final = {"code_interpreter": "code_execution", "shell": "code_execution", "web": "web_search"}
_SOURCES: Final = 20
"""What `search_parameters` reads where it sets no limit."""


def bounded(wire: WireName, body: Mapping[str, Any], most: int) -> tuple[dict[str, Any], dict[str, int]]:
    """A request with a bound on the uses of the provider's own tools.

    Args:
        wire: format of the request.
        body: as it is to be sent; not changed.
        most: uses of each tool, where the request says nothing.

    Returns:
        The request to send, and by tool the most uses it allows. A format without a place for a bound is taken to keep
        to `most`.
    """
    uses: dict[str, int] = {}
    sent = dict(body)
    given = body.get("tools")
    tools = given if isinstance(given, list) else []
    if not all(isinstance(tool, dict) and tool.get("type", "function") in _PLAIN for tool in tools):
        sent["tools"] = [_bounded_tool(wire, tool, most, uses) for tool in tools]
    if wire == "responses" and uses:
        asked = body.get("max_tool_calls")
        sent["max_tool_calls"] = asked if _counts(asked) else most
        uses = dict.fromkeys(uses, sent["max_tool_calls"])
    if wire == "chat":
        _searches(sent, uses, most)
    return sent, uses


def _bounded_tool(wire: WireName, tool: Any, most: int, uses: dict[str, int]) -> Any:
    """The tool as it is to be sent; its uses are added to `uses` if it is the provider's own."""
    name = _name(tool)
    if name in _CLIENTS:
        return tool
    number = most
    if wire == "messages" and name in ("web_search", "web_fetch"):
        number = tool["max_uses"] if _counts(tool.get("max_uses")) else most
        tool = {**tool, "max_uses": number}
    uses[name] = uses.get(name, 0) + number
    return tool


def set_aside(price: Price, uses: Mapping[str, int], provider_name: str) -> tuple[Price, str]:
    """The price with what the uses can cost set aside; and why there must be none, or "".

    Beside its fee, each use is a round more in which the model reads what was found until then.
    """
    usd = 0.0
    for tool, number in uses.items():
        fee = price.fee_usd(tool)
        if fee is None:
            told = f"nobody knows what a use of {tool} costs at provider {provider_name!r}, so it is not called"
            return price, f"{told}; set fees = {{ {tool} = … }}, US dollars a use, for that provider"
        usd += fee * number
    return (replace(price, aside_usd=usd, rounds=sum(uses.values())) if uses else price), ""


def charged(wire: WireName, usage: Usage, uses: Mapping[str, int]) -> Usage:
    """What was used with its tools: as reported; the most there can be, where the format or the answer doesn't say."""
    if not uses or not (usage.estimated or wire == "chat"):
        return usage
    return replace(usage, uses=tuple(uses.items()))


def _searches(sent: dict[str, Any], uses: dict[str, int], most: int) -> None:
    """Searches that are asked for beside the tools: OpenAI's, xAI's and OpenRouter's ways."""
    if sent.get("web_search_options") is not None:
        uses["web_search"] = uses.get("web_search", 0) + 1
    live = sent.get("search_parameters")
    if isinstance(live, dict) and live.get("mode") != "off":
        asked = live.get("max_search_results")
        sent["search_parameters"] = {**live, "max_search_results": asked if _counts(asked) else _SOURCES}
        uses["web_search"] = uses.get("web_search", 0) + sent["search_parameters"]["max_search_results"]
    plugins = sent.get("plugins")
    for plugin in plugins if isinstance(plugins, list) else ():
        name = str(plugin.get("id") if isinstance(plugin, dict) else plugin)
        name = _SAME.get(name, f"plugin_{name}")
        uses[name] = uses.get(name, 0) + most


def _name(tool: Any) -> str:
    if not isinstance(tool, dict):
        return "unknown"
    kind = _DATE.sub("", str(tool.get("type") or ""))
    place = tool.get("environment")
    if kind == "shell" and isinstance(place, dict) and place.get("type") == "local":
        return "local_shell"
    return _SAME.get(kind, kind)


def _counts(raw: Any) -> bool:
    return isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0
