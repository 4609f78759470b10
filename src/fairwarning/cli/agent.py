"""The command that runs the agent inside a guest; it has a command line of its own."""

import sys

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def agent(words: tuple[str, ...]) -> None:
    """Prepare this machine for its events, approve, and put it back to work.

    \b
    Example:
      fairwarning agent check --config agent.toml
      fairwarning agent run --config agent.toml
    """
    from fairwarning.agent.main import main

    sys.exit(main(words, "fairwarning agent"))
