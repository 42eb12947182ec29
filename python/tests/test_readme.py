"""The blocks of the README, one after the other in one folder, each in a process of its own."""

import re

from .support import PYTHON, InFolder


class Readme(InFolder):
    def test_python_blocks(self):
        blocks = re.findall(r"^```python\n(.*?)^```$", (PYTHON / "README.md").read_text(), re.M | re.S)
        self.assertEqual(len(blocks), 4)
        for block in blocks:
            self.python(block)
