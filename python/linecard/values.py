"""Values as jobs and scenarios have them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias

from . import progress as bars
from ._linecard import Report, job
from .errors import UsageError
from .progress import Progress

Amount: TypeAlias = int | float | str
"""A number, or a number with a unit."""

File: TypeAlias = str | os.PathLike[str]

Values: TypeAlias = Mapping[str, object]
"""Keys of a scenario, as ``core.mhz``, and their values."""


def call(
    name: str,
    values: Values,
    *,
    scenario: File | None = None,
    set: Values | None = None,
    progress: Progress = False,
) -> Report:
    """Runs the job of this name; None is not a value."""
    path, text = scenario_of(scenario)
    sets = list(_checked(set).items())
    shown = None if progress is False else bars.shown(progress)
    return job(name, list(values.items()), scenario=path, text=text, set=sets, progress=shown)


def scenario_of(scenario: File | None) -> tuple[str | None, str | None]:
    """The file of a scenario; or a name, and its text, where that is given in place of a file."""
    if isinstance(scenario, str) and "\n" in scenario:
        return "scenario", scenario
    return file_of(scenario), None


def text_of(value: object, name: str) -> str:
    """A value as scenarios and options have it: whole numbers without a point, floats with all digits."""
    if hasattr(value, "tolist"):
        # NumPy's numbers and arrays as Python's.
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, (int, str)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(part, name) for part in value)
    raise TypeError(f"{name}: {value!r} ({type(value).__name__}) is not a value: give a number or a text")


def path_of(path: File) -> str:
    """A file's name, which is not an option and not the standard input."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"{text!r}: give the file's name as text")
    return f"./{text}" if text.startswith("-") else text


def file_of(path: File | None) -> str | None:
    """The same for a file that need not be given."""
    return None if path is None else path_of(path)


def sets_of(values: Values | None) -> list[str]:
    """``KEY=VALUE`` for each."""
    return [f"{key}={text_of(value, f'set: {key}')}" for key, value in _checked(values).items()]


def key_of(key: object, name: str) -> str:
    """The name of a key, as ``core.mhz``."""
    if not isinstance(key, str):
        raise TypeError(f"{name}: {key!r} ({type(key).__name__}) is not a key: give a text, as 'core.mhz'")
    if "=" in key:
        raise UsageError(f"{name}: {key!r} is not a key: give its value behind a colon, as {{'core.mhz': 400}}", 2)
    return key


def _checked(values: Values | None) -> Values:
    if values is not None and not isinstance(values, Mapping):
        raise TypeError(f"set: {values!r} ({type(values).__name__}): give keys with their values")
    return {key_of(key, "set"): value for key, value in (values or {}).items()}
