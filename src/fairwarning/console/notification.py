"""How az gives the termination notification to a set that is there already, which nothing here can do."""

from fairwarning.console.formatting import all_spot
from fairwarning.core.model import HOME_GROUP, Scope, ScopeProperties


def lacks(scope: Scope) -> bool:
    """Whether a set could warn of the deletion of its instances and does not."""
    # T-05: Spot instances are never warned of it.
    return scope.facts.kind.scales and scope.facts.model.terminate_notice is None and not all_spot(scope)


def enabling(facts: ScopeProperties) -> str:
    """Return the az command that gives a set the notification."""
    return command(facts.group or HOME_GROUP, facts.set_name)


def command(group: str, name: str) -> str:
    """Return the az command that gives the set of this name the notification."""
    return (
        f"az vmss update --resource-group {group} --name {name}"
        " --enable-terminate-notification true --terminate-notification-time 10"
    )
