"""A session whose tests did not all run has failed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COUNTED = "from tests.counting import Counting\n\ndef pytest_configure(config):\n"
COUNTED += "    if not hasattr(config, 'workerinput'):\n        config.pluginmanager.register(Counting())\n"
NAMESAKES = """
import pytest

class Several(pytest.File):
    def collect(self):
        for _ in range(3):
            yield One.from_parent(self, name="one")

class One(pytest.Item):
    def runtest(self):
        pass

def pytest_collect_file(file_path, parent):
    return Several.from_parent(parent, path=file_path)
"""


@pytest.mark.parametrize(
    ("conftest", "tests", "code", "said"),
    [
        pytest.param(NAMESAKES, "", 3, "3 tests were collected, 1 ran", id="of three with one id, one ran"),
        pytest.param("", "def test_a(): pass\ndef test_b(): pass", 0, "2 passed", id="both of two ran"),
    ],
)
def test_a_session_that_lost_tests_on_the_way_fails(
    tmp_path: Path, conftest: str, tests: str, code: int, said: str
) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    (tmp_path / "conftest.py").write_text(COUNTED + conftest)
    (tmp_path / "test_them.py").write_text(tests)

    words = [sys.executable, "-m", "pytest", "-p", "xdist", "-n", "2", "--dist", "loadfile", "test_them.py"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=60)

    assert said in done.stdout
    assert done.returncode == code
