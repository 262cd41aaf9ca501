"""Hosts as network namespaces, each with one TUN device whose packets this process reads and writes.

Everything is anonymous: a namespace lives as long as a process is in it or holds it open, a TUN device as long as its
file is open. When the process that made them ends, in whatever way, the kernel takes them back; nothing is left to
clean up. Linux only; needs CAP_NET_ADMIN and CAP_SYS_ADMIN (root).

Sources: Linux `if_tun.h`, `sockios.h`, network_namespaces(7), netdevice(7), Documentation/networking/ip-sysctl.rst.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstep.base.records import dataclass

CLONE_NEWNET = 0x40000000  # linux/sched.h
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C  # linux/sockios.h
SIOCSIFMTU, SIOCSIFTXQLEN = 0x8922, 0x8943  # linux/sockios.h
IFF_UP = 0x1  # linux/if.h
TUN = Path("/dev/net/tun")
INTERFACE = "lockstep0"
MASK = "255.255.0.0"
QUEUE_PACKETS = 100_000  # assumed: more than any sender has under way, so that the kernel itself never drops
# Windows so large that a socket takes a whole message at once and TCP never waits: only the links shape the traffic.
SOCKET_B = 1 << 26
SYSCTLS = {
    "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_wmem": f"4096 {SOCKET_B} {SOCKET_B}",
    "net/ipv4/tcp_rmem": f"4096 {SOCKET_B} {SOCKET_B}",
    "net/ipv6/conf/all/disable_ipv6": "1",
}


def why_not() -> str | None:
    """Why this machine does not let us shape links, for a person; None when it does."""
    if not hasattr(os, "sched_setaffinity"):
        return "network namespaces are a feature of Linux"
    if not os.path.exists(TUN):
        return f"{TUN} does not exist: the kernel has no TUN devices, or the container was not given the device"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{TUN} may not be opened by user {os.getuid()}; run as root"
    refused = [True]
    # A namespace of its own for a thread that ends at once: nothing else notices.
    trial = threading.Thread(target=lambda: refused.append(bool(ctypes.CDLL(None).unshare(CLONE_NEWNET))))
    trial.start()
    trial.join()
    if refused[-1]:
        return "the kernel refuses a new network namespace; run as root, in a container with CAP_SYS_ADMIN"
    return None


@dataclass(frozen=True, slots=True)
class Namespace:
    """One host, as the process that made it sees it."""

    address: str
    net: int
    """File descriptor of the namespace."""
    tun: int
    """File descriptor of its TUN device: a read or a write is one IP packet."""
    congestion_control: str
    """Of TCP inside."""


def address(host: int) -> str:
    """IPv4 address of a host."""
    return f"10.77.{host >> 8}.{(host & 255) + 1}"


def host_of(packet: bytes) -> int:
    """Number of the host that an IPv4 packet is for; -1 for anything else."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[16:18] != b"\x0a\x4d":
        return -1
    return (packet[18] << 8 | packet[19]) - 1


def make(host: int, mtu_B: int, congestion_control: str) -> Namespace:
    """A new namespace with loopback and one TUN device up; this thread is left inside it. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    net = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", INTERFACE.encode(), IFF_TUN | IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _request(control, SIOCSIFADDR, INTERFACE, _inet(address(host)))
        _request(control, SIOCSIFNETMASK, INTERFACE, _inet(MASK))
        _request(control, SIOCSIFMTU, INTERFACE, struct.pack("i", mtu_B))
        _request(control, SIOCSIFTXQLEN, INTERFACE, struct.pack("i", QUEUE_PACKETS))
        for interface in ("lo", INTERFACE):
            _request(control, SIOCSIFFLAGS, interface, struct.pack("h", IFF_UP))
    for name, value in SYSCTLS.items():
        _write(name, value)
    _write("net/ipv4/tcp_congestion_control", congestion_control)
    chosen = (Path("/proc/sys") / "net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip()
    return Namespace(address(host), net, tun, chosen)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread in the namespace behind a path, for a while; sockets made meanwhile stay there."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(namespace, os.O_RDONLY)
    try:
        if libc.setns(other, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)
        yield
    finally:
        libc.setns(own, CLONE_NEWNET)
        os.close(own)
        os.close(other)


def _inet(dotted: str) -> bytes:
    """struct sockaddr_in."""
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(dotted))


def _request(control: socket.socket, number: int, interface: str, value: bytes) -> None:
    """An ioctl on struct ifreq."""
    fcntl.ioctl(control, number, struct.pack("16s24s", interface.encode(), value))


def _write(name: str, value: str) -> None:
    """Sets a sysctl of the current namespace; one that this kernel does not have stays as it is."""
    path = Path("/proc/sys") / name
    if not os.path.exists(path):
        return
    try:
        path.write_text(value, encoding="ascii")
    except OSError as error:
        raise OSError(error.errno, f"the kernel refuses {name} = {value}") from None
