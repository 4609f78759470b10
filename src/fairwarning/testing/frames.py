"""Ends the traceback of a mistake at the line that made it, in the test of a user.

An error that this package raises on purpose says what is wrong. Its frames are those of the engine, in
another thread, and say nothing to the author of a test. An unexpected exception keeps its frames: it is our
mistake.
"""

from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import ParamSpec, TypeVar

from fairwarning.core.errors import FairWarningError

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


def hide_frames(public: type[C]) -> type[C]:
    """Let the errors of all public methods of a class begin at their caller."""
    for name, method in list(vars(public).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(public, name, without_frames(method))
    return public


def without_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Let the errors of a function begin at its caller; pytest hides the one frame that is left."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except (FairWarningError, AssertionError) as problem:
            raise problem.with_traceback(None) from None

    return call
