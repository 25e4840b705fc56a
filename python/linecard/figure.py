"""Charts of reports and tables, as notebooks show them."""

from __future__ import annotations

import base64
import html
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import UsageError
from .table import Table, markup

__all__ = ["Figure"]

_DOTS = 2.0
"""Dots of a PNG for a pixel of the picture."""


@dataclass(frozen=True)
class Figure:
    """A chart. Notebooks show it; ``save()`` writes it, and ``data`` and ``to_table()`` have what it is drawn from."""

    key: str
    """Its name in :attr:`Report.figures`."""

    json: str = field(repr=False)
    """What it is drawn from, as the JSON beside a page has it."""

    svg: str | None = field(repr=False)
    """The picture; None of points and steps that the script of a page draws."""

    html: str | None = field(repr=False)
    """A page with the chart alone, where ``svg`` is None."""

    @property
    def data(self) -> dict[str, Any]:
        """What it is drawn from: title, axes with their units, and all values."""
        data: dict[str, Any] = json.loads(self.json)
        return data

    @property
    def title(self) -> str:
        """Its title."""
        return str(self.data["title"])

    def to_table(self) -> Table:
        """The values as rows: of curves a row for each point, otherwise one for each bar."""
        rows: list[dict[str, object]] = []
        for part in next((parts for parts in self.data.values() if isinstance(parts, list)), []):
            own = {name: value for name, value in part.items() if not isinstance(value, (list, dict))}
            names = ("from", "to", "count") if "buckets" in part else ("x", "y")
            points = part.get("points", part.get("buckets", [{}]))
            cells = (point if isinstance(point, dict) else dict(zip(names, point, strict=True)) for point in points)
            rows += [own | cell for cell in cells]
        return Table.of_rows(rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it: ``path`` ends in ``.svg``, ``.png`` (needs CairoSVG and libcairo), or ``.html``."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending == ".html":
            path.write_text(self.html or self._page(), encoding="utf-8")
        elif ending not in (".svg", ".png"):
            raise UsageError(f"{path}: a figure ends in .svg, .png or .html", 2)
        elif self.svg is None:
            raise UsageError(f"{path}: only the script of a page draws this chart: save it as .html", 2)
        elif ending == ".svg":
            path.write_text(self.svg, encoding="utf-8")
        else:
            try:
                from cairosvg import svg2png
            except (ImportError, OSError) as error:
                what = "PNG needs CairoSVG and libcairo: pip install cairosvg, and the system's libcairo2"
                raise ImportError(what) from error
            svg2png(bytestring=self.svg.encode(), write_to=str(path), scale=_DOTS, background_color="white")

    def _repr_html_(self) -> str:
        """A picture whose style and a notebook's do not meet; or a page in a frame."""
        if self.svg is None:
            return f'<iframe srcdoc="{html.escape(self.html or "")}" style="width:100%;height:36em;border:0"></iframe>'
        data = base64.b64encode(self.svg.encode()).decode()
        picture = f'<img src="data:image/svg+xml;base64,{data}" style="width:100%;max-width:868px"'
        caption = self.data["caption"]
        return f'{picture} alt="{markup(self.title)}">' + (f"<p>{markup(caption)}</p>" if caption else "")

    def _page(self) -> str:
        head = f'<meta charset="utf-8"><title>{markup(self.title)}</title>'
        return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{self._repr_html_()}</body></html>\n'

    def _repr_svg_(self) -> str | None:
        return self.svg
