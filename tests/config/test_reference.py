"""The reference page of the file of ``serve``."""

import re
import tomllib
from pathlib import Path

from fairwarning.config.serve_settings import load
from tests.config.files import secret, write
from tests.config.reference import BEGIN, END, PAGE, tables


def test_the_page_lists_every_table_and_key() -> None:
    generated = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]

    assert generated == f"\n{tables()}\n"


def test_the_example_of_the_page_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    token = secret(tmp_path)

    settings = load(write(tmp_path, example), {"FAIRWARNING_OPERATOR__TOKEN_FILE": str(token)}).settings

    assert len(tomllib.loads(example)["machine"]) == 2
    assert settings.listen == (("169.254.169.254", 80),)
