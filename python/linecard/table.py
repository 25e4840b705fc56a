"""Results as columns."""

from __future__ import annotations

import csv
import hashlib
import html
import io
import math
import re
import shutil
import warnings
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import UsageError

if TYPE_CHECKING:
    import os

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from .figure import Figure

__all__ = ["Table"]

_SHOWN = 10
"""Rows that notebooks show of each end, and ``str`` of the first."""

_CELL = 40
"""Characters of a cell in a text."""

_NAMED = 5
"""Rows that a sentence names."""

_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that SVG and HTML may not have, even as references."""


def column(values: Sequence[object]) -> NDArray[Any]:
    """The array for values: whole numbers, numbers (None is NaN), truth values, or anything else as objects."""
    kinds = set(map(type, values))
    if kinds == {bool}:
        return np.array(values, dtype=np.bool_)
    if kinds == {int}:
        low, high = min(values), max(values)  # type: ignore[type-var]
        for kind in (np.int64, np.uint64):
            if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:  # type: ignore[operator]
                return np.array(values, dtype=kind)
        return _objects(values)
    if kinds and kinds <= {int, float, type(None)} and kinds != {type(None)}:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return _objects(values)


def _objects(values: Sequence[object]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        array[at] = value
    return array


class Table:
    """Columns of equal length by name, as NumPy arrays. Whole numbers with gaps are floats with NaN.

    ``len(table)`` is the number of rows; ``table[name]``, ``name in table``, iteration, ``keys()``, ``values()``,
    ``items()`` and ``dict(table)`` are of the columns, as of a pandas data frame. ``print(table)`` shows the first
    ten rows.

    >>> table = Table({"lanes": [1, 2], "loss": [0.0, None]})
    >>> table["lanes"].dtype, len(table), list(table)
    (dtype('int64'), 2, ['lanes', 'loss'])
    >>> print(table)
    lanes  loss
        1     0
        2   nan
    """

    def __init__(self, columns: Mapping[str, Sequence[object] | NDArray[Any]]) -> None:
        self._columns = {
            name: values if isinstance(values, np.ndarray) else column(values) for name, values in columns.items()
        }
        lengths = {len(values) for values in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        self.rows = lengths.pop() if lengths else 0
        """The number of rows, as ``len(table)``."""

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, object]]) -> Table:
        """From rows, of which each may lack values; columns are in the order in which they first occur."""
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names})

    def __getitem__(self, name: str) -> NDArray[Any]:
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"{name}: no such column; there are {', '.join(self._columns)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return self.rows

    def __bool__(self) -> bool:
        """Whether there are any rows."""
        return self.rows > 0

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def get(self, name: str, default: Any = None) -> Any:
        """A column, or ``default`` where the column does not exist."""
        return self._columns.get(name, default)

    def keys(self) -> KeysView[str]:
        """The names of the columns."""
        return self._columns.keys()

    def values(self) -> ValuesView[NDArray[Any]]:
        """The columns."""
        return self._columns.values()

    def items(self) -> ItemsView[str, NDArray[Any]]:
        """The columns with their names."""
        return self._columns.items()

    def row(self, number: int) -> dict[str, Any]:
        """A row by its number, from 0, as Python's own values."""
        return {
            name: values[number] if values.dtype == object else values[number].item()
            for name, values in self._columns.items()
        }

    def where(self, rows: NDArray[np.bool_]) -> Table:
        """The rows for which ``rows`` is true."""
        return Table({name: values[rows] for name, values in self._columns.items()})

    def sort(self, by: str, *, descending: bool = False) -> Table:
        """The rows by the values of a column; equal ones stay in their order."""
        values = self[by]
        if values.dtype == object:
            keys = [(value is None, str(value)) for value in values]
            order = np.array(sorted(range(self.rows), key=keys.__getitem__, reverse=descending), dtype=np.intp)
        elif descending:
            order = (self.rows - 1 - np.argsort(values[::-1], kind="stable"))[::-1]
        else:
            order = np.argsort(values, kind="stable")
        return Table({name: values[order] for name, values in self._columns.items()})

    def __eq__(self, other: object) -> bool:
        """Whether all names, types and values are the same, bit for bit."""
        return self.digest() == other.digest() if isinstance(other, Table) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def digest(self) -> str:
        """A hash of all names, types and values, bit for bit (SHA-256)."""
        digest = hashlib.sha256()
        for name, values in self._columns.items():
            digest.update(f"{name}:{values.dtype}:{len(values)};".encode())
            if values.dtype == object:
                digest.update(repr(values.tolist()).encode())
            else:
                digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def figure(
        self, x: str, y: str, *, by: str | None = None, title: str = "", log_x: bool = False, log_y: bool = False
    ) -> Figure:
        """Draws column ``y`` over column ``x``, a curve for each value of column ``by``. Several values at one place
        become their mean with the least and the most. Rows without a finite number in either are left out: a warning
        and the caption say which, and why. Raises :class:`UsageError` if that leaves none.

        >>> Table({"lanes": [1, 2], "rate": [9.8, 19.5]}).figure("lanes", "rate").to_table()["y"].tolist()
        [9.8, 19.5]
        """
        # Figures have tables.
        from ._linecard import curves

        points: dict[str, list[tuple[float, float]]] = {}
        left_out: dict[str, list[int]] = {}
        names = [y] * self.rows if by is None else [f"{by} {text}" for text in _told_apart(self[by].tolist())]
        errors = self.get("error", [None] * self.rows)
        rows = zip(names, self[x].tolist(), self[y].tolist(), errors, strict=True)
        for row, (name, place, value, error) in enumerate(rows):
            wrong = [f"{key} is {cell!r}" for key, cell in ((x, place), (y, value)) if not _is_number(cell)]
            if wrong:
                left_out.setdefault(wrong[0] if error is None else str(error), []).append(row)
            else:
                points.setdefault(name, []).append((float(place), float(value)))
        caption = _left_out(left_out, self.rows)
        if not points:
            raise UsageError(f"figure: there is nothing to draw: {caption or 'the table has no rows'}", 2)
        if caption:
            warnings.warn(caption, stacklevel=2)
        drawn = [(printable(name), of_curve) for name, of_curve in points.items()]
        heading, places, values = map(printable, (title or f"{y} over {x}", x, y))
        return curves(heading, (places, log_x), (values, log_y), drawn, printable(caption) or None)

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(dict(self._columns))

    def to_polars(self) -> pl.DataFrame:
        """As a polars data frame. Needs polars 1.0 or newer; other values than numbers are texts, as in Parquet."""
        import polars as pl

        return pl.DataFrame(
            {
                name: pl.Series(name, _texts(values), dtype=pl.String) if values.dtype == object else values
                for name, values in self._columns.items()
            }
        )

    def to_arrow(self) -> pa.Table:
        """As an Arrow table, as in Parquet: other values than numbers are texts. Needs pyarrow."""
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError("Arrow and Parquet need pyarrow: pip install 'linecard[parquet]'") from error
        return pa.table(
            {
                name: pa.array(_texts(values), pa.string()) if values.dtype == object else pa.array(values)
                for name, values in self._columns.items()
            }
        )

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Writes comma-separated values (RFC 4180) with a line of names, or returns them without a path. None and NaN
        are empty. The file appears when it is complete.

        >>> Table({"lanes": [1, 2], "loss": [0.0, None]}).to_csv()
        'lanes,loss\\r\\n1,0.0\\r\\n2,\\r\\n'
        """
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(self._columns)
        cells = ([_plain(value) for value in values.tolist()] for values in self._columns.values())
        writer.writerows(zip(*cells, strict=True))
        if path is None:
            return text.getvalue()
        _appears(path, lambda new: new.write_bytes(text.getvalue().encode()))
        return None

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes a Parquet file, which appears when it is complete. Needs ``pip install linecard[parquet]``."""
        table = self.to_arrow()
        import pyarrow.parquet as pq

        _appears(path, lambda new: pq.write_table(table, new))

    def __repr__(self) -> str:
        return f"<linecard.Table: {self.rows} rows of {', '.join(self._columns)}>"

    def __str__(self) -> str:
        """The first rows as aligned text, as many columns as a line of the terminal has room for."""
        shown = {name: _aligned(name, values[:_SHOWN]) for name, values in self._columns.items()}
        room = shutil.get_terminal_size((120, 24)).columns
        fits: list[str] = []
        for name, cells in shown.items():
            room -= len(cells[0]) + 2 * bool(fits)
            if room < 0 and fits:
                break
            fits.append(name)
        lines = ["  ".join(cells).rstrip() for cells in zip(*(shown[name] for name in fits), strict=True)]
        return "\n".join([*lines, *self._rest(fits)])

    def _rest(self, fits: Sequence[str]) -> Iterator[str]:
        """Lines about the rows and columns that a text does not show."""
        if self.rows > _SHOWN:
            yield f"… {self.rows} rows in all"
        elif not self.rows:
            yield "0 rows"
        hidden = [name for name in self._columns if name not in fits]
        if hidden:
            yield f"columns not shown: {', '.join(hidden)}"
        errors = sum(value is not None for value in self._columns["error"]) if "error" in hidden else 0
        if errors:
            yield f"rows with an error: {errors}"

    def _repr_html_(self) -> str:
        shown = list(range(min(self.rows, 2 * _SHOWN)))
        if self.rows > 2 * _SHOWN:
            shown = [*range(_SHOWN), *range(self.rows - _SHOWN, self.rows)]
        head = "".join(f"<th>{markup(name)}</th>" for name in self._columns)
        lines = []
        for number in shown:
            if number == self.rows - _SHOWN and self.rows > 2 * _SHOWN:
                lines.append(f"<tr><td colspan='{len(self._columns)}'>…</td></tr>")
            cells = (markup(_cell(values[number])) for values in self._columns.values())
            lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        return f"<table><thead><tr>{head}</tr></thead>{''.join(lines)}</table><p>{self.rows} rows</p>"


def printable(text: str) -> str:
    """Text with a sign in place of each character that pictures and pages may not have."""
    return _NO_TEXT.sub("\ufffd", text)


def markup(text: str) -> str:
    """Text as HTML has it."""
    return html.escape(printable(text))


def _is_number(value: object) -> bool:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]


def _told_apart(values: list[object]) -> list[str]:
    """A text for each value, as short as possible where different ones have different texts."""
    different = {repr(value): value for value in values}
    kinds: tuple[Callable[[object], str], ...] = (_cell, str, repr)
    text = next(kind for kind in kinds if len(set(map(kind, different.values()))) == len(different))
    return list(map(text, values))


def _left_out(reasons: Mapping[str, Sequence[int]], rows: int) -> str:
    """Which rows a figure leaves out, and why."""
    if not reasons:
        return ""
    count = sum(map(len, reasons.values()))
    parts = []
    for why, numbers in reasons.items():
        named = ", ".join(map(str, numbers[:_NAMED])) + (", …" if len(numbers) > _NAMED else "")
        parts.append(f"{'row' if len(numbers) == 1 else 'rows'} {named}: {why}")
    more = [f"{len(parts) - _NAMED} more reasons"] if len(parts) > _NAMED else []
    return f"{count} of {rows} rows are left out ({'; '.join(parts[:_NAMED] + more)})"


def _plain(value: object) -> object:
    """A value of a cell: nothing for None and NaN, the shortest exact text of a number."""
    return "" if value is None or value != value else value


def _appears(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Writes a file under another name, and gives it its own when it is complete."""
    target = Path(path)
    new = target.with_name(target.name + ".new")
    try:
        write(new)
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def _texts(values: NDArray[Any]) -> list[str | None]:
    return [value if value is None else str(value) for value in values]


def _aligned(name: str, values: NDArray[Any]) -> list[str]:
    """A column of a text: its name and its cells, numbers to the right."""
    cells = [name, *(_short(_cell(value)) for value in values)]
    width = max(map(len, cells))
    return [cell.ljust(width) if values.dtype == object else cell.rjust(width) for cell in cells]


def _short(text: str) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)
