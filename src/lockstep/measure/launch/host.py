"""Where a rank's traffic goes: a network namespace, an interface and an address; loopback by default."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from lockstep.errors import BadInput

NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000  # linux/sched.h
LOOPBACK = "lo" if sys.platform == "linux" else "lo0"


@dataclass(frozen=True, slots=True)
class Host:
    """The network that one rank sees."""

    namespace: str | None = None
    """Name of a namespace as `ip netns` lists it; None for the one of the launcher."""
    interface: str = LOOPBACK
    address: str = "127.0.0.1"

    def enter(self) -> None:
        """Moves this process, before it has a second thread or a socket, into the namespace. Raises BadInput."""
        if self.namespace is None:
            return
        path = NAMESPACES / self.namespace
        try:
            with path.open("rb") as file:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(file.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        except OSError as error:
            raise BadInput(f"cannot enter network namespace {self.namespace!r}: {error.strerror}", str(path)) from None

    def environment(self) -> dict[str, str]:
        """Variables that make gloo and NCCL use the interface."""
        return {"GLOO_SOCKET_IFNAME": self.interface, "NCCL_SOCKET_IFNAME": self.interface}
