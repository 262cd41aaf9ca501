"""`Guard`: who may ask, and what a browser may do with the answer.

Only this machine can reach the port. A page of another site can make a browser on this machine ask, so every request
must name this server as its host (a name that was rebound to 127.0.0.1 does not), and bring the token that
`lockstep ui` printed: once in the address, then as a cookie that other sites never send. The answer may load nothing
from elsewhere, run no script or style of its text, and not be framed.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "private, no-cache",
}
TOKEN = "token"


class Guard:
    """Stands before an application."""

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self.app = app
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.token = token
        # Cookies do not tell ports apart.
        self.cookie = f"lockstep-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses, takes the token out of the address, or lets through."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refused(Headers(scope=scope)) or self._entered(scope) or self._unknown(Headers(scope=scope))
        await (self.app if answer is None else answer)(scope, receive, guarded)

    def _refused(self, headers: Headers) -> Response | None:
        """An answer for another host, or for a page of one."""
        if headers.get("host") not in self.hosts:
            return PlainTextResponse("This server answers to 127.0.0.1 alone.", 421)
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self.hosts:
            return PlainTextResponse("Pages of other sites may not ask.", 403)
        return None

    def _entered(self, scope: Scope) -> Response | None:
        """The way in: the address without its token, which goes into a cookie."""
        words = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in words if name == TOKEN), None)
        if given is None or scope["method"] not in ("GET", "HEAD"):
            return None
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return _forbidden()
        rest = urlencode([(name, value) for name, value in words if name != TOKEN])
        # Two slashes would begin the name of another host.
        path = "/" + scope["path"].lstrip("/\\")
        answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
        return answer

    def _unknown(self, headers: Headers) -> Response | None:
        """An answer for who does not bring the token."""
        # Other servers of this machine set cookies too, and may set odd ones.
        cookies = (one.strip().partition("=") for one in headers.get("cookie", "").split(";"))
        known = next((value for name, _, value in cookies if name == self.cookie), "")
        return None if secrets.compare_digest(known.encode(), self.token.encode()) else _forbidden()


def _forbidden() -> Response:
    return PlainTextResponse("Open the address that lockstep ui printed: it holds the token.", 403)
