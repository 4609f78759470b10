"""What the agent does to the machine: one module per hook, each a step of a rule in the agent's file.

``hook`` says what a hook is told and answers, ``program`` how other programs are run, ``options`` how
settings are read. A hook never raises, may run twice, obeys the deadline and only describes itself in a dry
run.
"""

from collections.abc import Callable, Mapping

from fairwarning.agent.hooks.exec import Exec
from fairwarning.agent.hooks.haproxy import HAProxy
from fairwarning.agent.hooks.hook import BARE, UNREPORTED, Hook, HookContext, HookOutcome
from fairwarning.agent.hooks.http import Http
from fairwarning.agent.hooks.kubernetes import Kubernetes
from fairwarning.agent.hooks.log import Log
from fairwarning.agent.hooks.notify import Notify
from fairwarning.agent.hooks.options import SettingsError
from fairwarning.agent.hooks.systemd import Systemd

__all__ = ["BARE", "HOOKS", "UNREPORTED", "Hook", "HookContext", "HookOutcome", "SettingsError", "parse"]

HOOKS: Mapping[str, Callable[[object, Mapping[str, str]], Hook]] = {
    "exec": Exec.parse,
    "systemd": Systemd.parse,
    "kubernetes": Kubernetes.parse,
    "haproxy": HAProxy.parse,
    "http": Http.parse,
    "notify": Notify.parse,
    "log": Log.parse,
}


def parse(step: Mapping[str, object], environment: Mapping[str, str] = BARE) -> Hook:
    """Return the hook that a step of the agent's file asks for; programs inherit ``environment``.

    Raises:
        SettingsError: the step makes no sense.
    """
    if len(step) != 1:
        raise SettingsError("step", f"must name exactly one of {', '.join(HOOKS)}")
    ((name, given),) = step.items()
    if name not in HOOKS:
        raise SettingsError(name, f"is no hook; known are {', '.join(HOOKS)}")
    return HOOKS[name](given, environment)
