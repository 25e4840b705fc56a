"""Results as columns."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import os

    import pandas as pd

__all__ = ["Table"]

_SHOWN = 10
"""Rows that notebooks show of each end."""


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


class Table(Mapping[str, NDArray[Any]]):
    """Columns of equal length by name, as NumPy arrays. Whole numbers with gaps are floats with NaN.

    >>> table = Table({"lanes": [1, 2], "loss": [0.0, None]})
    >>> table["lanes"].dtype, len(table), table.rows
    (dtype('int64'), 2, 2)
    """

    def __init__(self, columns: Mapping[str, Sequence[object] | NDArray[Any]]) -> None:
        self._columns = {
            name: values if isinstance(values, np.ndarray) else column(values) for name, values in columns.items()
        }
        lengths = {len(values) for values in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        self.rows = lengths.pop() if lengths else 0
        """Rows."""

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
        return len(self._columns)

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

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(dict(self._columns))

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes a Parquet file, which appears when it is complete. Needs ``pip install linecard[parquet]``."""
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise ImportError("Parquet needs pyarrow: pip install 'linecard[parquet]'") from error
        arrays = {
            name: pa.array(_texts(values), pa.string()) if values.dtype == object else pa.array(values)
            for name, values in self._columns.items()
        }
        target = Path(path)
        new = target.with_name(target.name + ".new")
        try:
            pq.write_table(pa.table(arrays), new)
            new.replace(target)
        finally:
            new.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"<linecard.Table: {self.rows} rows of {', '.join(self._columns)}>"

    def _repr_html_(self) -> str:
        shown = list(range(min(self.rows, 2 * _SHOWN)))
        if self.rows > 2 * _SHOWN:
            shown = [*range(_SHOWN), *range(self.rows - _SHOWN, self.rows)]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._columns)
        lines = []
        for number in shown:
            if number == self.rows - _SHOWN and self.rows > 2 * _SHOWN:
                lines.append(f"<tr><td colspan='{len(self)}'>…</td></tr>")
            cells = (html.escape(_cell(values[number])) for values in self._columns.values())
            lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        return f"<table><thead><tr>{head}</tr></thead>{''.join(lines)}</table><p>{self.rows} rows</p>"


def _texts(values: NDArray[Any]) -> list[str | None]:
    return [value if value is None else str(value) for value in values]


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)
