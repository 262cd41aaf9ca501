"""Real packets through shaped links: what is counted, dropped and kept in order, and that nothing stays behind."""

from __future__ import annotations

import hashlib
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockstep.base.errors import BadInput
from lockstep.run.rig import Rig, inside
from lockstep.run.rig import rig as rig_module
from lockstep.run.rig.namespace import INTERFACE
from lockstep.simulate.play import FifoLink, Topology, flat_topology, star_topology, uplinks_topology
from measure.rig.permission import permitted

PORT = 7000
HEADERS_B = 28  # IP 20, UDP 8: RFC 791, 768
WAIT_S = 20.0


@contextmanager
def datagram_sockets(rig: Rig) -> Iterator[list[socket.socket]]:
    """One socket on every host."""
    made = []
    for host in rig.hosts:
        with inside(host.namespace):
            made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        made[-1].bind((host.address, PORT))
        made[-1].settimeout(WAIT_S)
    try:
        yield made
    finally:
        for one in made:
            one.close()


def send(rig: Rig, sockets: list[socket.socket], source: int, target: int, number: int, size_B: int) -> None:
    sockets[source].sendto(number.to_bytes(4, "big") + bytes(size_B - 4), (rig.hosts[target].address, PORT))


def received(sockets: list[socket.socket], host: int) -> int:
    return int.from_bytes(sockets[host].recv(65536)[:4], "big")


def one_link(**words: float) -> Topology:
    """Two hosts; the way there has one link with these properties, the way back is free."""
    links = (FifoLink("there", **{"rate_Bps": math.inf, "delay_s": 0.0} | words), FifoLink("back", math.inf, 0.0))
    return Topology("pair", links, (((), (0,)), ((1,), ())))


@permitted
@pytest.mark.parametrize(
    "topology",
    [flat_topology(3, 12.5e6, 1e-3), star_topology(3, 12.5e6, 1e-3), uplinks_topology([2, 1], 12.5e6, 1e-3, 1e8, 0.0)],
    ids=lambda topology: topology.name,
)
def test_every_link_of_a_path_counts_every_byte_and_no_other_link_does(topology: Topology) -> None:
    sent = {(0, 1): 100, (1, 2): 1000, (2, 0): 7}
    expected_B = {link.name: 0 for link in topology.links}
    with Rig(topology) as rig, datagram_sockets(rig) as sockets:
        for (source, target), size_B in sent.items():
            send(rig, sockets, source, target, 5, size_B)
            assert received(sockets, target) == 5
            for link in topology.path(source, target):
                expected_B[link.name] += size_B + HEADERS_B
        counted = rig.count()
        assert {link.name: link.size_B for link in counted.links} == expected_B
        assert (counted.refused, sum(link.dropped + link.lost for link in counted.links)) == (0, 0)
        rig.reset()
        assert not any(link.packets for link in rig.count().links)


@permitted
def test_jitter_keeps_the_order() -> None:
    with Rig(one_link(delay_s=1e-3, jitter_s=20e-3), seed=1) as rig, datagram_sockets(rig) as sockets:
        for number in range(200):
            send(rig, sockets, 0, 1, number, 100)
        assert [received(sockets, 1) for _ in range(200)] == list(range(200))


@permitted
def test_losses_are_counted_and_the_rest_arrives() -> None:
    with Rig(one_link(loss_frac=0.3), seed=2) as rig, datagram_sockets(rig) as sockets:
        arrived, there = [], rig.count().links[0]
        for number in range(300):
            send(rig, sockets, 0, 1, number, 100)
            while there.packets + there.lost <= number:
                there = rig.count().links[0]
        arrived = [received(sockets, 1) for _ in range(there.packets)]
    assert there.packets + there.lost == 300
    assert 0 < there.lost < 300
    assert arrived == sorted(set(arrived))


@permitted
def test_a_full_queue_drops_what_comes_last() -> None:
    packet_B = 1000 + HEADERS_B
    with Rig(one_link(rate_Bps=1e5, queue_B=5.5 * packet_B)) as rig, datagram_sockets(rig) as sockets:
        for number in range(50):
            send(rig, sockets, 0, 1, number, 1000)
        assert [received(sockets, 1) for _ in range(5)] == list(range(5))
        assert rig.count().links[0].dropped > 0


@permitted
def test_tcp_delivers_what_was_sent_and_the_link_carries_at_least_that() -> None:
    content = bytes(range(256)) * 4000
    with Rig(star_topology(2, 125e6, 1e-3)) as rig:
        with inside(rig.hosts[1].namespace):
            server = socket.create_server((rig.hosts[1].address, PORT))
        with inside(rig.hosts[0].namespace):
            client = socket.socket()
        with server, client:
            client.settimeout(WAIT_S)
            client.connect((rig.hosts[1].address, PORT))
            accepted, _ = server.accept()
            with accepted:
                sender = threading.Thread(target=lambda: (client.sendall(content), client.shutdown(socket.SHUT_WR)))
                sender.start()
                digest = hashlib.sha256()
                while piece := accepted.recv(1 << 16):
                    digest.update(piece)
                sender.join()
        up = rig.count().links[0]
    assert digest.digest() == hashlib.sha256(content).digest()
    assert len(content) < up.size_B < 1.05 * len(content)


@permitted
def test_a_host_sees_only_its_own_interfaces_and_settings() -> None:
    control = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    own, before = control.read_text(encoding="ascii"), socket.if_nameindex()
    with Rig(flat_topology(2, 1e6, 0.0), congestion_control="reno") as rig:
        assert rig.congestion_control == "reno"
        for host in rig.hosts:
            with inside(host.namespace):
                assert {name for _, name in socket.if_nameindex()} == {"lo", INTERFACE}
                assert control.read_text(encoding="ascii").strip() == "reno"
        assert socket.if_nameindex() == before
    assert control.read_text(encoding="ascii") == own
    assert socket.if_nameindex() == before


def gone(pid: int) -> bool:
    """Whether the process ends before a generous deadline."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], (), (), WAIT_S)[0])
    finally:
        os.close(handle)


@permitted
def test_leaving_the_rig_removes_everything() -> None:
    with Rig(flat_topology(3, 1e6, 0.0)) as rig:
        pid, namespaces = rig.pid, [host.namespace for host in rig.hosts]
        assert all(Path(one).exists() for one in namespaces)
    assert gone(pid)
    assert not any(Path(one).exists() for one in namespaces)
    assert rig.hosts == ()
    with pytest.raises(BadInput, match="not running"):
        rig.count()


@permitted
def test_an_emulator_that_was_killed_is_reported_and_leaves_nothing() -> None:
    with Rig(flat_topology(2, 1e6, 0.0)) as rig:
        namespaces = [host.namespace for host in rig.hosts]
        os.kill(rig.pid, signal.SIGKILL)
        assert gone(rig.pid)
        with pytest.raises(BadInput, match="emulator has ended"):
            rig.count()
        assert not any(Path(one).exists() for one in namespaces)


@permitted
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_parent_ends_the_rig(number: signal.Signals) -> None:
    # Whoever starts the tests in the background leaves SIGINT ignored, which children inherit. One that comes just
    # before signal.pause would be waited for in vain.
    code = """
import signal
import time
from lockstep.run.rig import Rig
from lockstep.simulate.play import flat_topology
signal.signal(signal.SIGINT, signal.default_int_handler)
with Rig(flat_topology(2, 1e6, 0.0)) as rig:
    print(rig.pid, flush=True)
    while True:
        time.sleep(0.01)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        emulator = int(parent.stdout.readline())
        parent.send_signal(number)
        assert parent.wait(WAIT_S) != 0
        assert gone(emulator)


@permitted
def test_settings_refused_by_the_kernel_are_reported() -> None:
    refused = Rig(flat_topology(2, 1e6, 0.0), congestion_control="nonesuch")
    with pytest.raises(BadInput, match="tcp_congestion_control"), refused:
        pass


def test_missing_permission_is_reported_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_module, "why_not", lambda: "no TUN here")
    with pytest.raises(BadInput, match="cannot be shaped here: no TUN here"), Rig(flat_topology(2, 1e6, 0.0)):
        pass


@pytest.mark.parametrize("mtu_B", [100, 70_000])
def test_an_impossible_packet_size_is_refused(mtu_B: int) -> None:
    with pytest.raises(BadInput, match="576 to 65000"):
        Rig(flat_topology(2, 1e6, 0.0), mtu_B=mtu_B)
