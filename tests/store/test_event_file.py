"""Event files of TensorBoard, read back by a reader of their format that shares no code with the writer."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.base.store import EventFile, RunStore
from lockstep.base.store.event_file import crc32c


def by_division(data: bytes) -> int:
    """CRC-32C as the remainder of a polynomial division over GF(2), bit by bit (RFC 3720, appendix B.4)."""
    bits = int.from_bytes(bytes(int(f"{byte:08b}"[::-1], 2) for byte in data), "big") << 32
    length = 8 * len(data) + 32
    bits ^= 0xFFFFFFFF << (length - 32)
    for place in range(length - 1, 31, -1):
        if bits >> place & 1:
            bits ^= 0x11EDC6F41 << (place - 32)
    return int(f"{bits ^ 0xFFFFFFFF:032b}"[::-1], 2)


def test_the_checksum_matches_the_crc32c_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, appendix B.4
    assert crc32c(bytes(range(32))) == 0x46DD794E
    for data in (b"a", b"lockstep", bytes(range(256))):
        assert crc32c(data) == by_division(data)


def records(path: Path) -> Iterator[bytes]:
    """Contents of the records, both checksums checked."""
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        content = data[12 : 12 + length]
        for covered, at in ((data[:8], 8), (content, 12 + length)):
            (masked,) = struct.unpack("<I", data[at : at + 4])
            rotated = (masked - 0xA282EAD8) % 2**32
            assert (rotated >> 17 | rotated << 15) % 2**32 == by_division(covered)
        yield content
        data = data[16 + length :]


def fields(message: bytes) -> dict[int, Any]:
    """Fields of a protocol buffer by number."""
    found: dict[int, Any] = {}

    def varint() -> int:
        nonlocal message
        number = shift = 0
        while True:
            byte, message = message[0], message[1:]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while message:
        key = varint()
        match key & 7:
            case 0:
                found[key >> 3] = varint()
            case 1:
                (found[key >> 3],), message = struct.unpack("<d", message[:8]), message[8:]
            case 2:
                length = varint()
                found[key >> 3], message = message[:length], message[length:]
            case 5:
                (found[key >> 3],), message = struct.unpack("<f", message[:4]), message[4:]
    return found


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of every curve in the one event file of a folder."""
    (path,) = folder.glob("events.out.tfevents.*")
    first, *others = (fields(record) for record in records(path))
    assert first[3] == b"brain.Event:2"
    found: dict[str, list[tuple[int, float]]] = {}
    for event in others:
        value = fields(fields(event[5])[1])
        step = event.get(2, 0)
        # An int64 below 0 is written as the same bits of an unsigned one.
        found.setdefault(value[1].decode(), []).append((step if step < 2**63 else step - 2**64, value[2]))
    return found


@settings(max_examples=25, derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=20), st.floats(width=32, allow_nan=False), st.integers(0, 2**40)),
        max_size=5,
    )
)
def test_written_events_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[str, float, int]]
) -> None:
    folder = tmp_path_factory.mktemp("events")
    expected: dict[str, list[tuple[int, float]]] = {}
    with EventFile(folder) as file:
        for tag, value, step in values:
            file.scalar(tag, value, step)
            expected.setdefault(tag, []).append((step, value))
    assert curves(folder) == expected


def test_training_writes_event_files_per_method(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    found = lockstep.train(
        "synchronous,mixed-precision", steps=4, batch=8, settings={"compute": "float16", "scale": 1e30},
        tensorboard=tmp_path / "curves", root=tmp_path / "runs",
    ).runs  # fmt: skip
    for made in found:
        read = curves(tmp_path / "curves" / made.method)
        losses = [value for _, value in read["loss"]]
        assert losses == pytest.approx(made.loss, rel=0.2), "rank 0's share, not the mean of all"
        assert [step for step, _ in read["loss"]] == [1, 2, 3, 4]
        assert set(read) == {"loss", "time_s", "sent_B"} | ({"loss_scale"} if "mixed" in made.method else set())
    scales = [value for _, value in curves(tmp_path / "curves" / "mixed-precision")["loss_scale"]]
    assert scales == pytest.approx([1e30 / 2**step for step in range(4)], rel=1e-6), (
        "every step overflows and halves it"
    )
    shown = run("runs", "export", "last", "--tensorboard", str(tmp_path / "again"), "--runs", str(tmp_path / "runs"))
    assert shown.code == 0
    (folder,) = (tmp_path / "again").iterdir()
    assert curves(folder) == curves(tmp_path / "curves" / "mixed-precision")


def test_events_without_a_step_are_counted_and_only_numbers_are_curves(tmp_path: Path) -> None:
    with EventFile(tmp_path) as file:
        file.event({"size_B": 400, "algorithm": "ring", "ok": True, "nothing": None}, 7)
        file.event({"loss": math.inf, "step": 3}, 8)
    assert curves(tmp_path) == {"size_B": [(7, 400.0)], "loss": [(3, math.inf)]}


def test_refusals_name_the_flag(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    short = ("train", "synchronous", "--steps", "1", "--batch", "8")
    assert run(*short, "--tensorboard", str(tmp_path / "file")).refusal().startswith("--tensorboard: ")
    assert run(*short, "--tensorboard", str(tmp_path / "file" / "x")).refusal().startswith("--tensorboard: cannot make")
    store = ("--runs", str(tmp_path / "runs"))
    assert run("runs", "export", "last", *store).refusal().startswith("--tensorboard: is required by export")
    assert run("runs", "list", "--tensorboard", "x", *store).refusal().startswith("--tensorboard: ")


def test_non_finite_numbers_are_stored_as_null(tmp_path: Path) -> None:
    """The loss of a run that diverged must not be the reason why it failed."""
    with RunStore(tmp_path).start("train", {}) as writer:
        writer.record(loss=math.nan, nested={"values": [1.0, -math.inf]})
        writer.finish({"final_loss": math.nan})
    found = RunStore(tmp_path).read("last")
    assert found.status == "finished"
    assert found.measurements == [{"loss": None, "nested": {"values": [1.0, None]}}]
    assert found.result == {"final_loss": None}


def test_steps_may_be_any_64_bit_integer(tmp_path: Path) -> None:
    ends = [-(2**63), -127, -1, 0, 1, 127, 2**63 - 1]
    with EventFile(tmp_path) as file:
        for step in (*ends, 3.0):
            file.event({"loss": 1.0, "step": step}, 0)
        for step in (-(2**63) - 1, 2**63, 0.5, True, "1", math.inf):
            with pytest.raises(BadInput, match="not a 64-bit integer"):
                file.event({"loss": 1.0, "step": step}, 0)
    assert curves(tmp_path) == {"loss": [(step, 1.0) for step in (*ends, 3)]}
