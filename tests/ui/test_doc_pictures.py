"""The pictures that stand first in README and the documentation show what is answered today.

When one does not, `python tools/pages.py --write docs/pictures` draws it anew.
"""

from __future__ import annotations

import doc_pictures
import lockstep
from lockstep.show.views.parts.figure import titled
from lockstep.show.views.plan import plot_plan
from lockstep.show.web.screen import EXAMPLE
from ui.asking import Client


def test_the_picture_of_the_page_shows_todays_numbers(client: Client) -> None:
    words = doc_pictures.said(doc_pictures.FOLDER / "ui.png")["Description"]
    drawn = client.json("/data/ask", dict(EXAMPLE))["data"]
    shown = [
        drawn["headline"],
        *(part for one in drawn["figures"] for part in (one["label"], one["value"], one["note"])),
    ]
    assert [one for one in shown if doc_pictures.shown(one) not in words] == []


def test_the_picture_of_a_plan_shows_todays_numbers() -> None:
    told = doc_pictures.said(doc_pictures.FOLDER / "plan.png")["Title"]
    words = dict(EXAMPLE)
    assert told == titled(plot_plan(lockstep.plan(words.pop("model"), words.pop("cluster"), **words)))


def test_every_picture_is_drawn_by_a_command_or_left_for_a_reason() -> None:
    known = {*doc_pictures.PLOTS, *doc_pictures.SCREENS, *doc_pictures.OTHERS}
    assert {path.name for path in doc_pictures.FOLDER.iterdir()} == known
