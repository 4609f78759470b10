"""The command that runs the agent; the agent parses its own arguments."""

import sys

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def agent(arguments: tuple[str, ...]) -> None:
    """Run the agent: drain this machine, approve, recover.

    \b
    Example:
      fairwarning agent check --config agent.toml
      fairwarning agent run --config agent.toml
    """
    from fairwarning.agent.main import main

    sys.exit(main(arguments, "fairwarning agent"))
