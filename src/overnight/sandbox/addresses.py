"""Names and addresses on an allow-list: how they are written, and which addresses are public."""

import ipaddress
import re
from collections.abc import Iterable

from overnight.core.errors import UsageError

_DEFAULT_PORTS = (443, 80)
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Endpoint = tuple[str, int]


def parse_hosts(hosts: Iterable[str]) -> frozenset[Endpoint]:
    """Endpoints that an allow-list means; without a port, those of HTTPS and HTTP.

    Raises:
        UsageError: an entry is not `host` or `host:port`.
    """
    allowed = set()
    for entry in hosts:
        endpoint = split_endpoint(entry, None)
        if endpoint is None:
            raise UsageError(f"{entry!r} is not a host or host:port", hint="write it like example.org or 10.0.0.7:8080")
        host, port = endpoint
        allowed |= {(host, each) for each in ([port] if port is not None else _DEFAULT_PORTS)}
    return frozenset(allowed)


def split_endpoint(text: str, default_port: int | None) -> tuple[str, int | None] | None:
    """Host (lower case, without trailing dot; addresses in their shortest form) and port; None if it is neither."""
    bare = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::([0-9]{1,5}))?|([^:\[\]]+)(?::([0-9]{1,5}))?|([0-9A-Fa-f:.]+)", text)
    if bare is None:
        return None
    host = (bare[1] or bare[3] or bare[5]).lower().removesuffix(".")
    digits = bare[2] or bare[4]
    port = int(digits) if digits else default_port
    if port is not None and not 0 < port < 65536:
        return None
    try:
        return str(ipaddress.ip_address(host)), port
    except ValueError:
        return (host, port) if bare[3] and _HOST.fullmatch(host) and not _numeric(host) else None


def _numeric(host: str) -> bool:
    """An old spelling of an address (`127.1`, `0x7f000001`), which resolvers still take."""
    return re.fullmatch(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*", host) is not None


def is_public(address: str) -> bool:
    """`address` is on the public internet, whatever form it hides in."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo and ip.teredo[1])
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not ip.is_multicast


def is_address(host: str) -> bool:
    """`host` is an address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
