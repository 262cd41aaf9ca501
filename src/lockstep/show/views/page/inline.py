"""The views inside one file: their modules joined to one script, their data in blocks that nothing can close.

A file opened from disk cannot import modules, so these are joined in the order of their imports. The policy of the file
names the hash of the script: nothing else runs, whatever a name holds.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.base.types.plain import Json

FIRST = "report.js"
IMPORT = re.compile(r'^import .* from "\./([\w.]+)";\n', re.MULTILINE)
ESCAPED = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}


def read(name: str) -> str:
    """A file of this folder."""
    return resources.files("lockstep.show.views.page").joinpath(name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """All modules of a file as one."""
    joined = "".join(IMPORT.sub("", read(name)).replace("export ", "") for name in _ordered(FIRST, []))
    return f'"use strict";\n(() => {{\n{joined}}})();\n'


def _ordered(name: str, known: list[str]) -> list[str]:
    """A module behind all that it imports, each once."""
    for needed in IMPORT.findall(read(name)):
        if needed not in known:
            _ordered(needed, known)
    if name not in known:
        known.append(name)
    return known


def script_source() -> str:
    """What a policy allows to run: the script, by its hash."""
    return f"'sha256-{b64encode(sha256(script().encode()).digest()).decode()}'"


def block(kind: str, form: Mapping[str, object] | Json) -> str:
    """A place for a view, and its data, which no text in it can end."""
    text = json.dumps(form, separators=(",", ":"), allow_nan=False).translate(ESCAPED)
    return f'<div id="{kind}-view" hidden></div><script type="application/json" id="{kind}-data">{text}</script>'
