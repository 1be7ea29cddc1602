import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import UsageError
from overnight.sandbox.addresses import is_public, parse_hosts, split_endpoint


def test_allow_lists() -> None:
    assert parse_hosts(["Example.ORG.", "example.com:8080"]) == {
        ("example.org", 443),
        ("example.org", 80),
        ("example.com", 8080),
    }
    assert parse_hosts(["127.0.0.1:99", "[::1]:98", "0:0:0:0:0:0:0:2"]) >= {
        ("127.0.0.1", 99),
        ("::1", 98),
        ("::2", 443),
    }


@pytest.mark.parametrize(
    "entry", ["", ":80", "a:0", "a:99999", "a b", "http://a", "a/b", "*.a", "a:b:c", "127.1:80", "0x7f000001:80", "a\n"]
)
def test_what_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(UsageError):
        parse_hosts([entry])


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


@given(st.text(max_size=30))
def test_any_text_is_an_endpoint_or_none(text: str) -> None:
    endpoint = split_endpoint(text, 80)
    if endpoint is not None:
        host, port = endpoint
        assert host == host.lower()
        assert host.isascii()
        assert port is not None
        assert 0 < port < 65536
        again = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        assert split_endpoint(again, None) == endpoint
