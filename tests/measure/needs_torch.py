"""Imported first by what needs torch: the tests of a module that imports it are skipped without."""

from importlib.util import find_spec

if find_spec("torch") is None:
    import pytest

    pytest.skip("needs torch", allow_module_level=True)
