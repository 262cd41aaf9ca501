"""Who may ask the page's server: this machine, by its name, with the token; and what a browser may do with answers."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.show.verbs.ui import Served
from ui.asking import WORDS, Client


def test_another_host_is_refused(client: Client) -> None:
    for host in (
        "evil.example",
        "evil.example:80",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{urlsplit(client.address).port}",
    ):
        assert client.ask("/screens", Host=host).status == 421
    assert client.ask("/screens", Host=f"localhost:{urlsplit(client.address).port}").status == 200


def test_without_the_token_nothing_is_served(served: Served) -> None:
    stranger = Client(served.address)
    for path in ("/", "/ask", "/screens", "/data/ask", "/static/main.js", "/ask?token=", "/ask?token=wrong"):
        assert stranger.ask(path).status == 403, path
    assert stranger.ask("/drop?token=" + urlsplit(served.address).query[6:], "POST", b"{}").status == 403
    name = f"lockstep-{urlsplit(served.address).port}"
    assert Client(served.address, f"{name}=wrong").ask("/screens").status == 403
    assert Client(served.address, f"{name}=").ask("/screens").status == 403


def test_cookies_of_other_servers_do_not_matter(served: Served, client: Client) -> None:
    for other in ("other=1", "[odd]=;x", 'half="', "="):
        assert Client(served.address, f"{other}; {client.cookie}").ask("/screens").status == 200
        assert Client(served.address, f"{client.cookie}; {other}").ask("/screens").status == 200


def test_the_token_is_removed_from_the_address(served: Served, client: Client) -> None:
    token = urlsplit(served.address).query
    found = Client(served.address).ask(f"/ask?model=gpt2&{token}")
    assert (found.status, found.headers["location"]) == (303, "/ask?model=gpt2")
    cookie = str(found.headers["set-cookie"])
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.ask("/screens").status == 200
    assert Client(served.address).ask(f"//evil.example/?{token}").headers["location"] == "/evil.example/"


def test_requests_from_other_sites_are_refused(client: Client) -> None:
    for origin in ("http://evil.example", "null", "https://" + client.host):
        assert client.ask("/drop", "POST", b"{}", Origin=origin).status == 403
    assert client.ask("/drop", "POST", b"{}", Origin=f"http://{client.host}").status == 422


def test_foreign_scripts_cannot_run(client: Client) -> None:
    for path in ("/ask", "/screens", "/static/main.js", "/nowhere"):
        headers = client.ask(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self';"), path
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert headers["referrer-policy"] == "no-referrer"
    for name in ("..%2f..%2fserve.py", "%2e%2e/serve.py", "/etc/passwd"):
        assert client.ask(f"/static/{name}").status == 404


def test_only_this_machine_reaches_the_port(served: Served) -> None:
    port = urlsplit(served.address).port
    others = {one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for other in sorted(one for one in others if not one.startswith("127.")):
        with pytest.raises(OSError), socket.create_connection((other, port), timeout=1):
            pass


def test_a_port_is_checked() -> None:
    with pytest.raises(BadInput, match="65,535"):
        lockstep.ui(open=False, port=70_000)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadInput, match="cannot listen"):
            lockstep.ui(open=False, port=taken.getsockname()[1])


def test_ui_opens_with_its_arguments_and_stops() -> None:
    found = lockstep.ui("gpt2", "dgx-a100-40gb:1", open=False)
    client = Client(found.address).enter()
    first = client.ask("/").headers["location"]
    assert "model=gpt2" in first
    assert "cluster=dgx-a100-40gb%3A1" in first
    found.stop()
    with pytest.raises(OSError):
        client.json("/data/ask", WORDS)
