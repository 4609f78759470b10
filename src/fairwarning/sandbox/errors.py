"""Why a program could not be started.

FairWarningError
├── ModeForbiddenError   the kernel, or its configuration, does not allow the mode
└── NotStartedError      the mode works, but the program is missing or cannot be run
"""

import errno
import os

from fairwarning.core.errors import FairWarningError


class ModeForbiddenError(FairWarningError):
    """The machine does not allow a feature that the mode needs."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"this machine does not allow {what}: {os.strerror(code)}")
        self.what = what
        self.code = code


class NotStartedError(FairWarningError):
    """The program could not be run; ``exit_code`` is the one that shells use."""

    def __init__(self, program: str, code: int) -> None:
        super().__init__(f"{program} cannot be run: {os.strerror(code)}")
        self.program = program
        self.exit_code = 127 if code in {errno.ENOENT, errno.ENOTDIR} else 126
