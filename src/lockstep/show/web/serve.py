"""`serve`: the page on a port of this machine, in a thread of this process."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.show.web.app import application, warm
from lockstep.show.web.asked import Server
from lockstep.show.web.guard import TOKEN, Guard

if TYPE_CHECKING:
    import uvicorn

HOST = "127.0.0.1"
STARTS_S = 10.0
"""Longest time until a server is up."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs until it is stopped."""

    address: str
    """Of the page, with the token."""
    server: uvicorn.Server
    thread: threading.Thread

    def wait(self) -> None:
        """Returns when the server has ended. Ctrl-C stops it."""
        try:
            while self.thread.is_alive():
                self.thread.join(0.2)
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Ends the server."""
        self.server.should_exit = True
        self.thread.join()


def serve(first: Mapping[str, tuple[str, object]], port: int, open_browser: bool, sweeps: Path) -> Running:
    """Starts the page; port 0 is any free one. Raises BadInput.

    `first` is what it begins with: by keyword a text for the address, and what that stands for; `sweeps` a folder.
    """
    import uvicorn

    listening = _listening(port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    named = Server(given=dict(first.values()), first={name: text for name, (text, _) in first.items()}, sweeps=sweeps)
    app = Guard(application(named), port, token)
    quiet: Any = {"log_level": "critical", "access_log": False, "server_header": False}
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", timeout_graceful_shutdown=1, **quiet))
    thread = threading.Thread(target=server.run, args=([listening],), name="lockstep-ui", daemon=True)
    thread.start()
    end = time.monotonic() + STARTS_S
    while not server.started and thread.is_alive() and time.monotonic() < end:
        time.sleep(0.01)
    running = Running(f"http://{HOST}:{port}/?{TOKEN}={token}", server, thread)
    threading.Thread(target=warm, name="lockstep-ui-warm", daemon=True).start()
    if open_browser and _has_windows():
        webbrowser.open(running.address)
    return running


def _has_windows() -> bool:
    """Whether a browser would open a window; without a display one in the terminal would block it."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _listening(port: int) -> socket.socket:
    """A socket on this machine alone. Raises BadInput where the port is taken."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
    except OSError as error:
        found.close()
        raise BadInput(
            f"cannot listen on port {port}: {error.strerror}; leave --port out for a free one", "--port"
        ) from None
    found.listen(128)
    return found
