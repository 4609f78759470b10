"""The hooks that prepare a machine and return it to work, one module per hook.

``hook`` defines the interface, ``program`` runs other programs, ``options`` reads the settings of a step. A
hook never raises, may run twice, keeps to its deadline, and only describes itself in a dry run.
"""

from collections.abc import Callable, Mapping

from fairwarning.agent.hooks.exec import Exec
from fairwarning.agent.hooks.haproxy import HAProxy
from fairwarning.agent.hooks.hook import DEFAULT_ENVIRONMENT, UNREPORTED, Hook, HookContext, HookOutcome
from fairwarning.agent.hooks.http import Http
from fairwarning.agent.hooks.kubernetes import Kubernetes
from fairwarning.agent.hooks.log import Log
from fairwarning.agent.hooks.notify import Notify
from fairwarning.agent.hooks.options import SettingsError
from fairwarning.agent.hooks.systemd import Systemd

__all__ = [
    "DEFAULT_ENVIRONMENT",
    "HOOKS",
    "UNREPORTED",
    "Hook",
    "HookContext",
    "HookOutcome",
    "SettingsError",
    "parse",
]

HOOKS: Mapping[str, Callable[[object, Mapping[str, str]], Hook]] = {
    "exec": Exec.parse,
    "systemd": Systemd.parse,
    "kubernetes": Kubernetes.parse,
    "haproxy": HAProxy.parse,
    "http": Http.parse,
    "notify": Notify.parse,
    "log": Log.parse,
}


def parse(step: Mapping[str, object], environment: Mapping[str, str] = DEFAULT_ENVIRONMENT) -> Hook:
    """Return the hook that a step describes; programs inherit ``environment``.

    Raises:
        SettingsError: the step is invalid.
    """
    if len(step) != 1:
        raise SettingsError("step", f"must name exactly one of {', '.join(HOOKS)}")
    ((name, value),) = step.items()
    if name not in HOOKS:
        raise SettingsError(name, f"unknown hook (expected one of {', '.join(HOOKS)})")
    return HOOKS[name](value, environment)
