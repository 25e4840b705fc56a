"""Requirements of `import linecard`, and its errors where they are missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
{before}
try:
    import {module}
except ImportError as error:
    print(type(error).__name__, error.name)
    print(error)
"""
NEEDS = "linecard needs NumPy 1.25 or newer, which cannot be imported here"


@pytest.mark.parametrize("module", ["linecard", "linecard._linecard", "linecard.table"])
def test_without_numpy_the_import_says_what_to_install(module: str) -> None:
    code = WITHOUT.format(before="sys.modules['numpy'] = None", module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kind, text = done.stdout.splitlines()
    assert kind == "ImportError numpy"
    assert text.startswith(NEEDS) and text.endswith("pip install 'numpy>=1.25'"), text
    assert done.stderr == ""


@pytest.mark.parametrize("module", ["numpy._core.multiarray", "numpy.core.multiarray"])
def test_a_broken_numpy_is_an_import_error(module: str) -> None:
    """NumPy is there, but what it has for C is not: no panic either."""
    before = f"""
import types
fake, core, multiarray = (types.ModuleType(name) for name in ("numpy", "numpy.x", {module!r}))
fake.__version__, fake.__path__ = ("2.0.0" if "_core" in {module!r} else "1.25.0"), []
core.__path__ = []
sys.modules.update({{"numpy": fake, {module!r}.rpartition(".")[0]: core, {module!r}: multiarray}})
fake.lib = types.ModuleType("numpy.lib")
fake.lib.NumpyVersion = lambda version: types.SimpleNamespace(major=int(version[0]))
sys.modules["numpy.lib"] = fake.lib
"""
    code = WITHOUT.format(before=before, module="linecard").replace("except ImportError", "except Exception")
    code = code.replace("error.name", "''")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "panicked" not in done.stderr, done.stderr
    assert done.stdout.startswith("ImportError"), done.stdout
