"""Failures in each client's own words: the SDKs pick their exceptions by status and read these bodies."""

from typing import Any, Final, Literal

ErrorKind = Literal[
    "invalid_request",
    "authentication",
    "permission",
    "not_found",
    "no_path",
    "too_large",
    "rate_limit",
    "budget",
    "timeout",
    "overloaded",
    "upstream",
    "internal",
]

_OPENAI: Final[dict[str, tuple[str, str | None]]] = {
    "invalid_request": ("invalid_request_error", None),
    "authentication": ("invalid_request_error", "invalid_api_key"),
    "permission": ("permission_error", None),
    "not_found": ("invalid_request_error", "model_not_found"),
    "no_path": ("invalid_request_error", None),
    "too_large": ("invalid_request_error", "request_too_large"),
    "rate_limit": ("rate_limit_error", "rate_limit_exceeded"),
    "budget": ("insufficient_quota", "insufficient_quota"),
    "timeout": ("timeout_error", "timeout"),
    "overloaded": ("server_error", "overloaded"),
    "upstream": ("server_error", "upstream_error"),
    "internal": ("server_error", None),
}
_ANTHROPIC: Final[dict[str, str]] = {
    "invalid_request": "invalid_request_error",
    "authentication": "authentication_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "no_path": "not_found_error",
    "too_large": "request_too_large",
    "rate_limit": "rate_limit_error",
    "budget": "billing_error",
    "timeout": "timeout_error",
    "overloaded": "overloaded_error",
    "upstream": "api_error",
    "internal": "api_error",
}


def kind_of(status: int) -> ErrorKind:
    """What a provider's status means."""
    known: dict[int, ErrorKind] = {
        401: "authentication",
        402: "budget",
        403: "permission",
        404: "not_found",
        408: "timeout",
        413: "too_large",
        429: "rate_limit",
        503: "overloaded",
        504: "timeout",
        529: "overloaded",
    }
    return known.get(status) or ("invalid_request" if 400 <= status < 500 else "upstream")


def openai(kind: str, message: str) -> dict[str, Any]:
    """The body for OpenAI's clients."""
    type_, code = _OPENAI[kind]
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def anthropic(kind: str, message: str) -> dict[str, Any]:
    """The body for Anthropic's clients."""
    return {"type": "error", "error": {"type": _ANTHROPIC[kind], "message": message}}


def message_of(body: Any) -> str:
    """What a provider's error body says, whichever its format; empty if it says nothing."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or ""
    return error if isinstance(error, str) else ""
