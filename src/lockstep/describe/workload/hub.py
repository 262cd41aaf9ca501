"""Hub ids, ORG/NAME: their config.json in the local cache of Hugging Face's tools, without any network.

    HF_HUB_CACHE, or HF_HOME/hub, or ~/.cache/huggingface/hub
      models--ORG--NAME/refs/main                       the commit of the last download
      models--ORG--NAME/snapshots/COMMIT/config.json    of the diffusers library, transformer/config.json

Source: huggingface_hub's documentation, "Understand caching", and `constants.py` (HF_HOME, HF_HUB_CACHE).
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from lockstep.base.documents.shipped import shipped_table

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
CONFIGS = ("config.json", "transformer/config.json")
"""Where a folder's model is described; the second in a pipeline of the diffusers library."""
REVISION = re.compile(r"[0-9a-f]{1,64}")


def cache_folder() -> Path:
    """Where the tools of Hugging Face keep what they downloaded."""
    given = os.environ.get("HF_HUB_CACHE")
    if given:
        return Path(given).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{caches}/huggingface"
    return Path(home).expanduser() / "hub"


def is_hub_id(text: str) -> bool:
    """Whether `text` is written like ORG/NAME, and is no path that exists."""
    return bool(HUB_ID.fullmatch(text)) and not os.path.exists(text)


def cached_config(hub_id: str) -> Path | None:
    """The config.json of a hub id in the cache, of its main revision if that is known; case does not matter."""
    wanted = "models--" + hub_id.replace("/", "--").lower()
    try:
        folder = next((one for one in sorted(cache_folder().iterdir()) if one.name.lower() == wanted), None)
        if folder is None:
            return None
        main = folder / "refs" / "main"
        revision = main.read_text(encoding="utf-8").strip() if os.path.isfile(main) else ""
        there = [found for one in folder.glob("snapshots/*") if (found := config_in(one)) is not None]
        snapshots = sorted(there, key=lambda path: path.stat().st_mtime)
    except (OSError, UnicodeDecodeError):
        return None
    chosen = [path for path in snapshots if REVISION.fullmatch(revision) and revision in path.parts]
    return next(iter(chosen or snapshots[-1:]), None)


def config_in(folder: Path) -> Path | None:
    """The config.json of a folder's model."""
    return next((folder / one for one in CONFIGS if os.path.isfile(folder / one)), None)


@cache
def hub_names() -> dict[str, str]:
    """Hub id in lower case -> the catalog's name of its shape."""
    return {
        hub_id.lower(): name
        for name, ids in shipped_table("lockstep.describe.workload", "hub_names.toml").items()
        for hub_id in ids
    }
