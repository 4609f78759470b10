"""The program ``fairwarning``, which is also ``python -m fairwarning``."""

import signal
import sys


def main() -> None:
    """Run the command line; until it is imported, Ctrl-C kills the process without a word."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fairwarning.cli import cli
    from fairwarning.cli.output import FailureError, writing_explained

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        with writing_explained(FailureError):
            cli(prog_name="fairwarning")
    except FailureError as failure:
        failure.show()
        sys.exit(failure.exit_code)


if __name__ == "__main__":
    main()
