"""The journal's note about a refused command."""

from fairwarning.core.commands import Approve, Cancel, Command, DeleteScopes, Schedule, StartRollout
from fairwarning.core.errors import FairWarningError
from fairwarning.core.history import CommandRefused
from fairwarning.core.model import NO_SCOPE, MachineRef


def refusal_note(command: Command, error: FairWarningError) -> CommandRefused | None:
    """Return the note; None for commands that do not belong in a history of events."""
    reason = str(error)
    match command:
        case Schedule(cause=cause, machines=machines, by=by):
            scope = machines[0].scope if machines else NO_SCOPE
            return CommandRefused(scope=scope, asked=cause, reason=reason, by=by, machines=machines)
        case Approve(scope=scope, ids=ids, machine=machine, by=by):
            machines = () if machine is None else (MachineRef(scope, machine),)
            return CommandRefused(
                scope=scope,
                asked="approve",
                reason=reason,
                by=by,
                event=ids[0] if ids else None,
                machines=machines,
            )
        case Cancel(scope=scope, id=event_id, by=by):
            return CommandRefused(scope=scope, asked="cancel", reason=reason, by=by, event=event_id)
        case DeleteScopes(scopes=scopes, by=by):
            return CommandRefused(
                scope=scopes[0] if scopes else NO_SCOPE, asked="delete", reason=reason, by=by
            )
        case StartRollout(scope=scope, cause=cause, by=by):
            return CommandRefused(scope=scope, asked=f"rollout {cause}", reason=reason, by=by)
        case _:
            return None
