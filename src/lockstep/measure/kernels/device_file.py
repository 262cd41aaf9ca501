"""A measured efficiency curve in a user's own hardware file: a new file, or the one device of a file that there is.

Peak and bandwidth of a device in a file are its datasheet, of which the curve's numbers are fractions; a new file takes
the best rates measured for them. Only the value of `efficiency` changes; the rest of the text, and its comments, stay.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.documents import MAX_YAML_B
from lockstep.errors import BadInput
from lockstep.files import read_text
from lockstep.hardware import Device
from lockstep.hardware.schema import CurveEntry
from lockstep.hardware.shipped import read_hardware
from lockstep.measure.kernels.bench import DeviceBench
from lockstep.measure.kernels.kernel import Curve


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """Where a curve goes."""

    path: Path
    device: Device | None
    """The device of the file; None where there is no file yet."""

    @classmethod
    def read(cls, path: Path) -> DeviceFile:
        """The file as it is. Raises BadInput for one that describes no device of its own, or several."""
        if not path.exists():
            return cls(path, None)
        devices = read_hardware(path).devices
        if len(devices) != 1:
            named = f": {', '.join(devices)}" if devices else ""
            raise BadInput(f"describes {len(devices)} devices of its own{named}; one is needed", str(path))
        return cls(path, next(iter(devices.values())))

    def text(self, found: DeviceBench) -> str:
        """The file with the curve in it. Raises BadInput when `found` has none."""
        if found.curve is None:
            raise BadInput("an efficiency curve needs all kernels: bench device")
        if self.device is None:
            return _new(found, found.curve, self.path.stem)
        return _replaced(read_text(self.path, MAX_YAML_B), self.device.name, _flow(found.curve, "      "))

    def write(self, found: DeviceBench) -> None:
        """Replaces the file; what is written has been read back before."""
        # A name that nobody else has chosen, and "x" so that no file of the user is ever it.
        beside = self.path.with_name(f".lockstep-{secrets.token_hex(8)}.yaml")
        text = self.text(found)
        try:
            with beside.open("x", encoding="utf-8") as file:
                file.write(text)
            read_hardware(beside)
            beside.replace(self.path)
        finally:
            beside.unlink(missing_ok=True)


def _flow(curve: Curve, indent: str) -> str:
    """The curve as a YAML mapping in braces, one key a line."""
    known = curve.efficiency.to_dict()
    pairs = ((name, known[name]) for name in CurveEntry.model_fields)
    lines = (
        f"{indent}  {name}: {json.dumps(value) if isinstance(value, str) else f'{value:.4g}'}" for name, value in pairs
    )
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _new(found: DeviceBench, curve: Curve, name: str) -> str:
    """A file with the device and a cluster of one of it."""
    source = json.dumps(f"lockstep bench device on {found.name}, {found.date}")
    return f"""# Made by lockstep bench device; every number may be edited.
devices:
  {json.dumps(name)}:
    memory: {memory_B(found.device)} B
    memory_bandwidth: {curve.memory_bandwidth_Bps:.4g} B/s
    peak_flops: {{{found.dtype}: {curve.peak_flops:.4g} FLOP/s}}
    source: {source}
    efficiency: {_flow(curve, "      ")}
cluster:
  name: {json.dumps(name)}
  device: {json.dumps(name)}
  levels:                                  # one device: no link is used
    - {{name: machine, size: 1, link: {{latency: 0 s, bandwidth: {curve.memory_bandwidth_Bps:.4g} B/s}}}}
"""


def memory_B(device: str) -> int:
    """Bytes of memory of the device, cpu or cuda, as the system tells."""
    if device == "cuda":
        import torch

        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _replaced(text: str, device: str, curve: str) -> str:
    """The text with another value of the device's `efficiency`."""
    import yaml

    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for key in ("devices", device, "efficiency"):
        node = next(value for name, value in node.value if name.value == key)
    start, end = node.start_mark.index, node.end_mark.index
    # A mapping in block style ends where the next key begins; the white space before that is not part of it.
    end = start + len(text[start:end].rstrip())
    return text[:start] + curve + text[end:]
