"""``python -m fairwarning`` is ``fairwarning``."""

from fairwarning.cli import cli

if __name__ == "__main__":
    cli(prog_name="fairwarning")
