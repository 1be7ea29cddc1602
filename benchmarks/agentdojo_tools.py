"""AgentDojo's tools as their owner would declare them to the gate: one declaration per tool, none per task.

`declare(suite)` gives the specifications; `structured` turns a tool's answer into JSON whose fields can be labelled
(several tools answer with one text that lists names).
"""

import re
from typing import Any

from overnight.kernel.canonical import Json
from overnight.kernel.flow.label import Confidentiality, Integrity, Kind
from overnight.kernel.tool.spec import Argument, Audience, Effect, ResultField, ToolSpec

SERVERS = {
    "workspace": {"email": "mail", "contacts": "mail", "calendar": "calendar", "file": "drive", "day": "calendar"},
    "banking": {"file": "files", "": "bank"},
    "slack": {"webpage": "web", "": "chat"},
    "travel": {"email": "mail", "calendar": "calendar", "user": "account", "": "travel"},
}


def tool_id(suite: str, function: str) -> str:
    """`server.function`; the servers are those that a person would have connected."""
    return next(f"{server}.{function}" for part, server in SERVERS[suite].items() if part in function)


def structured(function: str, value: Any) -> Json:
    """A tool's answer as JSON; texts that list names become lists."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")  # type: ignore[no-any-return]  # a pydantic model
    if isinstance(value, list | tuple):
        return [structured("", item) for item in value]
    if isinstance(value, dict):
        return {str(key): structured("", item) for key, item in value.items()}
    if isinstance(value, str) and function.startswith("get_all_"):
        return [name for name in re.split(r"\n|: ", value)[1:] if name]
    return value  # type: ignore[no-any-return]  # text, number, boolean or None


def _a(
    name: str,
    kind: Kind = "text",
    type_: Any = "string",
    *,
    of: str = "",
    needs: Integrity | None = None,
    optional: bool = False,
    carries: Confidentiality | None = None,
    at: str = "",
    into: bool = False,
    discloses: bool = False,
) -> Argument:
    return Argument(name, type_, kind, not optional, needs, carries, of, at, into, discloses)


def _t(
    suite: str,
    function: str,
    effect: Effect,
    *arguments: Argument,
    fields: tuple[ResultField, ...] = (),
    level: Confidentiality = "public",
    content: frozenset[str] = frozenset(),
    egress_with: tuple[str, ...] = (),
    audiences: tuple[Audience, ...] = (),
    author: str = "",
    echoes: bool = False,
    needs_one: tuple[str, ...] = (),
) -> ToolSpec:
    return ToolSpec(
        tool_id(suite, function),
        effect,
        arguments,
        reversible=effect in ("read", "write"),
        fields=fields,
        confidentiality=level,
        content=content,
        egress_with=egress_with,
        audiences=audiences,
        author=author,
        echoes=echoes,
        needs_one=needs_one,
    )


def _f(path: str, kind: Kind, of: str = "") -> ResultField:
    return ResultField(path, "system", kind, of=of)


def _paths(prefixes: tuple[str, ...], *fields: tuple[str, Kind, str]) -> tuple[ResultField, ...]:
    return tuple(_f(prefix + name, kind, of) for prefix in prefixes for name, kind, of in fields)


# What a mail system itself asserts. A sender's address is true, but whoever writes to us is not thereby someone to
# share things with: `of="sender"` keeps the two apart.
_MAIL = _paths(("*.", ""), ("id_", "id", "email"), ("sender", "recipient", "sender"), ("timestamp", "date", ""))
_EVENT = _paths(
    ("*.", ""),
    ("id_", "id", "event"),
    ("participants", "recipient", ""),
    ("start_time", "date", ""),
    ("end_time", "date", ""),
)
_FILE = _paths(("*.", ""), ("id_", "id", "file"), ("filename", "id", "filename"), ("size", "number", ""))
# Whose account this is: what she may read does not make anything shared.
_ME = ("emma.johnson@bluesparrowtech.com",)


def _read_by(of: str, *readers: str) -> tuple[Audience, ...]:
    """Who else can read each object of a result, be that a list or one object."""
    return tuple(Audience(of, readers, "id_", items, _ME) for items in ("*", ""))


_MAIL_READERS = _read_by("email", "sender", "recipients.*", "cc.*", "bcc.*")
_GUESTS = _read_by("event", "participants.*")
_SHARERS = _read_by("file", "owner", "shared_with.@keys")


def _calendar(suite: str) -> list[ToolSpec]:
    return [
        _t(suite, "search_calendar_events", "read", _a("query"), _a("date", "date", optional=True), fields=_EVENT,
           level="private", audiences=_GUESTS),
        _t(suite, "get_day_calendar_events", "read", _a("day", "date"), fields=_EVENT, level="private",
           audiences=_GUESTS),
        _t(suite, "create_calendar_event", "write", _a("title", "phrase", needs="system", carries="private"),
           _a("start_time", "date"), _a("end_time", "date"), _a("description", "message", optional=True),
           _a("participants", "recipient", "array", optional=True), _a("location", optional=True, carries="private"),
           fields=_EVENT, level="private", egress_with=("participants",), audiences=_GUESTS, echoes=True),
        _t(suite, "cancel_calendar_event", "destructive", _a("event_id", "id", of="event", needs="user")),
    ]  # fmt: skip


def _send_email(suite: str) -> ToolSpec:
    return _t(suite, "send_email", "egress", _a("recipients", "recipient", "array", needs="user"),
              _a("subject", "message", carries="private"), _a("body", "message", carries="private"),
              _a("attachments", "id", "array", of="file", at="*.file_id", discloses=True, optional=True,
                 carries="private"),
              _a("cc", "recipient", "array", needs="user", optional=True),
              _a("bcc", "recipient", "array", needs="user", optional=True), fields=_MAIL, level="private",
              echoes=True)  # fmt: skip


def _workspace() -> list[ToolSpec]:
    s = "workspace"
    mail = {"fields": _MAIL, "level": "private", "audiences": _MAIL_READERS, "author": "*.sender"}
    contact = {"fields": (_f("*.email", "recipient"),), "level": "private"}
    file = {"fields": _FILE, "level": "private", "audiences": _SHARERS}
    return [
        _send_email(s),
        _t(s, "delete_email", "destructive", _a("email_id", "id", of="email", needs="user")),
        _t(s, "get_unread_emails", "write", **mail),  # type: ignore[arg-type]  # it marks them as read
        *(_t(s, name, "read", **mail) for name in  # type: ignore[arg-type]  # keyword dictionaries, checked at run time
          ("get_sent_emails", "get_received_emails", "get_draft_emails")),
        _t(s, "search_emails", "read", _a("query"), _a("sender", "recipient", needs="any", optional=True), **mail),  # type: ignore[arg-type]
        _t(s, "search_contacts_by_name", "read", _a("query"), **contact),  # type: ignore[arg-type]
        _t(s, "search_contacts_by_email", "read", _a("query"), **contact),  # type: ignore[arg-type]
        _t(s, "get_current_day", "read", fields=(_f("", "date"),)),
        *_calendar(s),
        _t(s, "reschedule_calendar_event", "write", _a("event_id", "id", of="event", into=True),
           _a("new_start_time", "date"), _a("new_end_time", "date", optional=True), fields=_EVENT, level="private",
           audiences=_GUESTS),
        _t(s, "add_calendar_event_participants", "egress", _a("event_id", "id", of="event", discloses=True),
           _a("participants", "recipient", "array"), fields=_EVENT, level="private", audiences=_GUESTS),
        _t(s, "append_to_file", "write", _a("file_id", "id", of="file", into=True),
           _a("content", "message", carries="private"), **file),  # type: ignore[arg-type]
        _t(s, "search_files_by_filename", "read", _a("filename"), **file),  # type: ignore[arg-type]
        _t(s, "create_file", "write", _a("filename"), _a("content"), echoes=True, **file),  # type: ignore[arg-type]
        _t(s, "delete_file", "destructive", _a("file_id", "id", of="file", needs="user")),
        _t(s, "get_file_by_id", "read", _a("file_id", "id", of="file"), **file),  # type: ignore[arg-type]
        _t(s, "list_files", "read", **file),  # type: ignore[arg-type]
        _t(s, "search_files", "read", _a("query"), **file),  # type: ignore[arg-type]
        _t(s, "share_file", "egress", _a("file_id", "id", of="file", discloses=True),
           _a("email", "recipient", needs="user"), _a("permission", "flag"), **file),  # type: ignore[arg-type]
    ]  # fmt: skip


def _banking() -> list[ToolSpec]:
    s = "banking"
    payments = _paths(("*.",), ("id", "id", "payment"), ("sender", "account", ""), ("recipient", "account", ""),
                      ("amount", "amount", ""), ("date", "date", ""))  # fmt: skip
    person = {"level": "secret"}
    return [
        _t(s, "get_iban", "read", fields=(_f("", "account"),)),
        _t(s, "get_balance", "read", fields=(_f("", "amount"),)),
        _t(s, "get_most_recent_transactions", "read", _a("n", "number", "integer", optional=True), fields=payments,
           level="private"),
        _t(s, "get_scheduled_transactions", "read", fields=payments, level="private"),
        _t(s, "read_file", "read", _a("file_path", "text")),
        _t(s, "get_user_info", "read", level="secret"),
        _t(s, "send_money", "commit", _a("recipient", "account"), _a("amount", "amount", "number"),
           _a("subject", "message"), _a("date", "date"), needs_one=("recipient", "amount")),
        _t(s, "schedule_transaction", "commit", _a("recipient", "account", needs="user"),
           _a("amount", "amount", "number"), _a("subject", "message"), _a("date", "date"),
           _a("recurring", "flag", "boolean")),
        _t(s, "update_scheduled_transaction", "commit", _a("id", "id", "integer", of="payment", into=True),
           _a("recipient", "account", needs="user", optional=True), _a("amount", "amount", "number", optional=True),
           _a("subject", "message", optional=True), _a("date", "date", optional=True),
           _a("recurring", "flag", "boolean", optional=True)),
        _t(s, "update_password", "commit", _a("password", "password", needs="user")),
        _t(s, "update_user_info", "write", *(_a(name, "phrase", needs="system", optional=True) for name in
           ("first_name", "last_name", "street", "city")), **person),  # type: ignore[arg-type]
    ]  # fmt: skip


def _slack() -> list[ToolSpec]:
    s = "slack"
    messages = {"fields": _paths(("*.",), ("sender", "recipient", "")), "level": "private"}
    channel = _a("channel", "id", of="channel", needs="any")
    posted = (Audience("channel", None, "@channel", ""),)
    members = (Audience("channel", ("*",), "@channel", ""),)
    return [
        _t(s, "get_channels", "read", fields=(_f("*", "id", "channel"),)),
        _t(s, "get_users_in_channel", "read", channel, fields=(_f("*", "recipient"),), audiences=members),
        _t(s, "read_channel_messages", "read", channel, audiences=posted, author="*.sender",
           **messages),  # type: ignore[arg-type]
        _t(s, "read_inbox", "read", _a("user", "recipient", needs="any"), author="*.sender",
           **messages),  # type: ignore[arg-type]
        _t(s, "add_user_to_channel", "write", _a("user", "recipient"), _a("channel", "id", of="channel"),
           needs_one=("user", "channel")),
        _t(s, "send_direct_message", "egress", _a("recipient", "recipient"), _a("body", "message")),
        _t(s, "send_channel_message", "egress", _a("channel", "id", of="channel", into=True), _a("body", "message")),
        _t(s, "invite_user_to_slack", "egress", _a("user", "recipient"), _a("user_email", "recipient")),
        _t(s, "remove_user_from_slack", "destructive", _a("user", "recipient", needs="user")),
        # Fetching a page tells its owner the address, and that can hold anything: it is egress, whatever it is for.
        _t(s, "get_webpage", "egress", _a("url", "url"), content=frozenset({"web"})),
        _t(s, "post_webpage", "egress", _a("url", "url"), _a("content", "message")),
    ]  # fmt: skip


def _travel() -> list[ToolSpec]:
    s = "travel"
    specs = [
        _t(s, "get_user_information", "read", level="secret"),
        _send_email(s),
        *_calendar(s),
        _t(s, "reserve_hotel", "commit", _a("hotel", "id", of="hotel", needs="user"), _a("start_day", "date",
           needs="user"), _a("end_day", "date", needs="user")),
        _t(s, "reserve_car_rental", "commit", _a("company", "id", of="car", needs="user"),
           _a("start_time", "date", needs="user"), _a("end_time", "date", needs="user")),
        _t(s, "reserve_restaurant", "commit", _a("restaurant", "id", of="restaurant", needs="user"),
           _a("start_time", "date", needs="user")),
        _t(s, "get_flight_information", "read", _a("departure_city"), _a("arrival_city")),
    ]  # fmt: skip
    listed = {"hotels": "hotel", "restaurants": "restaurant", "car_rental_companies": "car"}
    specs += [
        _t(s, f"get_all_{name}_in_city", "read", _a("city"), fields=(_f("*", "id", of),)) for name, of in listed.items()
    ]
    one = {"get_hotels_address": "hotel_name"}
    many = {
        "hotel_names": ("get_hotels_prices", "get_rating_reviews_for_hotels"),
        "restaurant_names": (
            "get_cuisine_type_for_restaurants", "get_restaurants_address", "get_rating_reviews_for_restaurants",
            "get_dietary_restrictions_for_all_restaurants", "get_contact_information_for_restaurants",
            "get_price_for_restaurants", "check_restaurant_opening_hours",
        ),
        "company_name": (
            "get_car_types_available", "get_rating_reviews_for_car_rental", "get_car_fuel_options",
            "get_car_rental_address", "get_car_price_per_day",
        ),
    }  # fmt: skip
    specs += [_t(s, name, "read", _a(argument), fields=(_f("*", "text"),)) for name, argument in one.items()]
    for argument, names in many.items():
        for name in names:
            # Reviews are written by strangers; everything else comes from the agency's own catalogue.
            fields = () if "reviews" in name else (_f("*", "text"),)
            specs.append(_t(s, name, "read", _a(argument, "text", "array"), fields=fields))
    return specs


def declare(suite: str) -> list[ToolSpec]:
    """The specifications of all tools of a suite."""
    return {"workspace": _workspace, "banking": _banking, "slack": _slack, "travel": _travel}[suite]()
