"""Tests of the package: `python3 -m unittest discover -s python/tests -t python` in the repository.

They use the extension that LITEFOOT_LIBRARY names, or else target/release/liblitefoot.so.
"""
