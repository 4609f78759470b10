"""Known names are suggested for a name that is not known."""

import pytest

from fairwarning.formats.suggestions import did_you_mean

MACHINES = ("web_0", "web_1", "db")


@pytest.mark.parametrize(
    ("name", "question"),
    [
        pytest.param("web_9", " (did you mean web_0, web_1?)", id="close names"),
        pytest.param("WEB_0", " (did you mean web_0?)", id="a name in another case is that name alone"),
        pytest.param("WEB_9", " (did you mean web_0, web_1?)", id="close names in another case"),
        pytest.param("queue", "", id="nothing that is close"),
    ],
)
def test_close_names_are_suggested(name: str, question: str) -> None:
    assert did_you_mean(name, MACHINES) == question


def test_a_further_word_leads_to_the_name_that_it_means() -> None:
    words = {"database": "db"}

    assert did_you_mean("database", MACHINES, words=words) == " (did you mean db?)"
    assert did_you_mean("databse", MACHINES, words=words) == " (did you mean db?)"
