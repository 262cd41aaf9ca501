"""`Picture`: a figure that a notebook draws. Apart from `figure.py`, because it loads matplotlib."""

from __future__ import annotations

from matplotlib.figure import Figure

from lockstep.show.views.parts.html import fragment, svg


class Picture(Figure):
    """A figure that shows itself. Jupyter draws a plain one only after pyplot was loaded, which we never do."""

    def _repr_html_(self) -> str:
        return fragment(svg(self))
