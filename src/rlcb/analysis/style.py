"""How groups look, on paper and on screen: colours that colour-blind readers tell apart (Okabe and Ito), and dashes and
markers for readers without colour."""

from __future__ import annotations

from typing import NamedTuple

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#999933")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
_PATTERNS = ("", "/", "x", ".", "\\", "-", "+", "|")
_TO_MATPLOTLIB = {
    "solid": "-",
    "dash": "--",
    "dot": ":",
    "dashdot": "-.",
    "longdash": (0, (8, 3)),
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "x": "x",
    "cross": "P",
}


class Look(NamedTuple):
    colour: str
    dash: str  # in plotly's words
    marker: str
    pattern: str  # of bars

    @property
    def line(self) -> object:
        """In matplotlib's words."""
        return _TO_MATPLOTLIB[self.dash]

    @property
    def point(self) -> object:
        return _TO_MATPLOTLIB[self.marker]


def look(index: int) -> Look:
    lists = (_COLOURS, _DASHES, _MARKERS, _PATTERNS)
    return Look(*(choices[index % len(choices)] for choices in lists))
