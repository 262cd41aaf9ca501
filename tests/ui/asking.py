"""Asks the page's server as a browser does, one request at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlencode, urlsplit

WORDS = {"model": "llama3-8b", "cluster": "dgx-h100:2", "batch": "64", "tokens": "1T"}
"""A question that is answered fast."""
SCREENS = ("ask", "layout", "timeline", "machine", "whatif", "compare", "diagnose", "campaign", "trust")
"""Those about a training run."""


@dataclass
class Client:
    """A browser without a window: host, token and cookie."""

    address: str
    cookie: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> HTTPResponse:
        """The response, read."""
        connection = HTTPConnection(self.host, timeout=900)
        sent = {"Host": self.host, **({"Cookie": self.cookie} if self.cookie else {})}
        connection.request(
            method, path, body, {**sent, **{name.replace("_", "-"): one for name, one in headers.items()}}
        )
        response = connection.getresponse()
        response.body = response.read()  # type: ignore[attr-defined]
        connection.close()
        return response

    def enter(self) -> Client:
        """With the cookie that the token gives."""
        parts = urlsplit(self.address)
        response = self.ask(f"{parts.path}?{parts.query}")
        return Client(self.address, str(response.headers["set-cookie"]).partition(";")[0])

    def json(self, path: str, words: dict[str, str] | None = None) -> Any:
        """What is answered, as plain data."""
        response = self.ask(f"{path}?{urlencode(words or {})}")
        return json.loads(response.body)  # type: ignore[attr-defined]
