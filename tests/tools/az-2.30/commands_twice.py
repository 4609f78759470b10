"""Lets a command be defined twice, as Python up to 3.10 does: az 2.30 relies on it."""

import argparse

_add_parser = argparse._SubParsersAction.add_parser


def add_parser(
    self: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, **options: object
) -> argparse.ArgumentParser:
    self._name_parser_map.pop(name, None)
    return _add_parser(self, name, **options)  # type: ignore[arg-type]


argparse._SubParsersAction.add_parser = add_parser  # type: ignore[assignment,method-assign]
