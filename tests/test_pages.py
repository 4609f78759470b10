"""The commands of a page are found, and a test that does not run what it claims fails."""

from pathlib import Path

import pytest

from tests.pages import Page, missed

TEXT = """\
Type this:

```console
$ fairwarning up --vm db \\
    --vm mail
up
$ fairwarning vms
```

- in a list:

    ```sh
    echo one
    echo two
    ```

<!-- not run: needs
a cluster -->
```console
$ kubectl get nodes
```

Save `job.sh`:

```sh
true
```

```console
$ sh job.sh
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Page:
    (tmp_path / "page.md").write_text(TEXT)
    return Page(str(tmp_path / "page.md"))


def test_commands_are_lines_after_a_prompt_and_scripts(page: Page) -> None:
    assert [(command.line, command.text) for command in page.commands()] == [
        (4, "fairwarning up --vm db \\\n    --vm mail"),
        (7, "fairwarning vms"),
        (13, "echo one\necho two\n"),
        (30, "sh job.sh"),
    ]


def test_a_pattern_chooses_commands(page: Page) -> None:
    assert [command.text for command in page.commands("^sh ", "vms$")] == ["fairwarning vms", "sh job.sh"]


def test_a_block_says_why_it_is_not_run(page: Page) -> None:
    assert [block.not_run for block in page.blocks if block.not_run] == ["needs a cluster"]


def test_a_block_after_its_name_is_a_file(page: Page) -> None:
    assert page.files() == {"job.sh": "true\n"}


def test_a_claimed_command_is_missed_until_it_has_been_run(page: Page) -> None:
    first, *rest = page.commands()

    for command in rest:
        with command.running():
            pass

    assert missed([(page.path,)]) == [first.text]
    assert missed([(page.path, "vms$"), (page.path, "^sh ")]) == []


def test_a_command_that_fails_does_not_count_as_run(page: Page) -> None:
    (command,) = page.commands("vms")

    with pytest.raises(ZeroDivisionError), command.running():
        raise ZeroDivisionError

    assert missed([(page.path, "vms")]) == [command.text]


@pytest.mark.xfail(reason="this test does not run what it claims", raises=AssertionError)
@pytest.mark.runs("docs/guides/long-poll.md")
def test_a_test_that_does_not_run_what_it_claims_fails() -> None:
    pass
