"""The bench of exec."""

import pytest

from bench import exec_


def test_what_exec_adds_is_the_difference_of_each_round() -> None:
    section = exec_.section(
        {"direct": [100.0, 200.0], "exec": [150.0, 220.0], "exec --isolate": [400.0, 400.0]}
    )

    added = {figure.name: figure.values for figure in section.figures}
    assert added["exec adds"] == (50.0, 20.0)
    assert added["exec --isolate adds"] == (300.0, 200.0)
    assert [(claim.name, claim.values[0]) for claim in section.claims] == [
        ("exec", pytest.approx(2 / 3)),
        ("exec --isolate", 0.25),
    ]


def test_a_forbidden_mode_is_left_out_and_named() -> None:
    section = exec_.section({"direct": [100.0], "exec": [150.0]})

    assert [claim.name for claim in section.claims] == ["exec"]
    assert "This machine forbids exec --isolate." in section.notes


@pytest.mark.slow
def test_every_mode_is_measured() -> None:
    section = exec_.suite(rounds=1, requests=3)

    assert "request, direct, p50" in {figure.name for figure in section.figures}
    assert all(value > 0 for figure in section.figures if "p50" in figure.name for value in figure.values)
    assert len(section.claims) + len(section.notes) == len(exec_.MODES) + 2
