"""common.rpc.proxy: what gRPC makes of the environment."""

import pytest

from common.address import Address
from common.rpc.proxy import proxy_to

GPU = Address("gpu.example.org", 7070)
PROXY = Address("proxy", 3128)


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"http_proxy": "http://proxy:3128"}, PROXY),
        ({"http_proxy": "http://name:secret@proxy:3128/"}, PROXY),
        ({"http_proxy": "http://other:1", "https_proxy": "http://proxy:3128"}, PROXY),
        ({"https_proxy": "http://other:1", "grpc_proxy": "http://proxy:3128"}, PROXY),
        ({"grpc_proxy": "", "https_proxy": "http://proxy:3128"}, None),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "example.org", "no_grpc_proxy": ""}, PROXY),
        ({"http_proxy": "http://proxy"}, Address("proxy", 443)),
        ({"http_proxy": "socks5://proxy:3128"}, None),
        ({"http_proxy": "http://proxy:none"}, None),
        ({"HTTP_PROXY": "http://proxy:3128"}, None),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "localhost,example.org"}, None),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "example.com, "}, PROXY),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "example.org", "no_grpc_proxy": "example.com"}, PROXY),
    ],
)
def test_the_environment_names_a_proxy(monkeypatch, environment, proxy):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_to(GPU) == proxy


def test_what_is_on_this_machine_is_dialled_itself(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert proxy_to(Address("127.0.0.1", 7070)) is None
    assert proxy_to(Address("10.0.0.7", 7070)) == PROXY
    monkeypatch.setenv("no_proxy", "10.0.0.0/8")
    assert proxy_to(Address("10.0.0.7", 7070)) is None


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
