"""Finished SVG: a title and a description, letters that stay letters, and the same colours on dark paper.

Colours stay in the file as matplotlib writes them, so that any program shows them; a style sheet inside, which browsers
read, names what each becomes where the reader prefers dark: hues of the palette a brighter form, greys the one that
stands out as much from the dark paper as they do from white.
"""

from __future__ import annotations

import re
from hashlib import sha256
from html import escape

DARK = {
    "#0072b2": "#3d9be0",
    "#e69f00": "#f0b429",
    "#009e73": "#2bc49a",
    "#cc79a7": "#e08fbb",
    "#d55e00": "#f07c2b",
    "#6b4fa0": "#a88bdb",
    "#56b4e9": "#7cc6f0",
    "#b5a400": "#d3c435",
    "#a9b3bd": "#56616c",
    "#7d8994": "#84909b",
    "#5e6a75": "#a1acb7",
    "#a9d8f5": "#8cc3e6",
    "#1b4f72": "#5f9fc9",
    "#2e86c1": "#4aa3e0",
}
"""Hues on white and on dark paper."""
PAPER, INK = (0x14, 0x18, 0x1D), (0xE3, 0xE7, 0xEC)
CLASS = "lockstep-picture"
BLANKS, NO_BREAK = re.compile(r"(?<=>) +(?=[^<>\n]+</text>)| +(?=</text>)"), "\u00a0"
COLOUR = re.compile(r"(fill|stroke): (#[0-9a-f]{6})")


def on_dark(colour: str) -> str | None:
    """What a colour becomes on dark paper; None for one that stays."""
    if colour in DARK:
        return DARK[colour]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    if max(red, green, blue) - min(red, green, blue) > 12:
        return None
    share = (red + green + blue) / (3 * 255)
    return "#" + "".join(f"{round(ink + share * (paper - ink)):02x}" for paper, ink in zip(PAPER, INK, strict=True))


def finished(text: str, title: str, description: str) -> str:
    """The SVG of matplotlib with words that stand for it and colours for dark paper."""
    # Blanks before and after a label keep it off its bar; others would be dropped.
    text = BLANKS.sub(lambda found: NO_BREAK * len(found[0]), text)
    start = text.index("<svg")
    head, rest = text[start : text.index(">", start)], text[text.index(">", start) :]
    key = "p" + sha256(rest.encode()).hexdigest()[:10]
    rules = "".join(_rule(kind, colour) for kind, colour in sorted(set(COLOUR.findall(rest))))
    ink = on_dark("#000000")
    letters = f'.{CLASS} text:not([style*="fill"]){{fill:{ink}}}'
    style = f"<style>@media screen and (prefers-color-scheme: dark){{{letters}{rules}}}</style>"
    words = f'<title id="{key}t">{escape(title)}</title><desc id="{key}d">{escape(description)}</desc>'
    opened = f'{head} class="{CLASS}" role="img" aria-labelledby="{key}t {key}d">{words}{style}'
    return text[:start] + opened + rest[1:]


def _rule(kind: str, colour: str) -> str:
    dark = on_dark(colour)
    return "" if dark is None else f'.{CLASS} [style*="{kind}: {colour}"]{{{kind}:{dark}!important}}'
