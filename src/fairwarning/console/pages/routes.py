"""The table of all pages and all form actions."""

from fairwarning.console.page import FormAction, Page
from fairwarning.console.pages import clock, create, events, fleet, history, host, hosts, machine, maintenance

_MACHINE = Page("/machines/{name:path}", machine.show)
_DELETION = Page("/machines/{name:path}/delete", machine.confirm_delete)
_HOST = Page("/hosts/{name:path}", host.show)
_CLOCK = Page("/clock", clock.show, emulator=True)
_EVENT = Page("/events/{name:path}", events.show_event)
_CREATE = Page("/create/{name:path}", create.show, emulator=True)
_MAINTENANCE = Page("/maintenance", maintenance.show)

#: A longer path comes before its prefix, because names may contain slashes.
PAGES: tuple[Page, ...] = (
    Page("/", fleet.show),
    Page("/scopes/{name:path}/timeline", events.show_timeline),
    Page("/scopes/{name:path}/timeline.svg", events.download),
    Page("/scopes/{name:path}", fleet.show_scope),
    _DELETION,
    _MACHINE,
    Page("/hosts", hosts.show),
    _HOST,
    Page("/events", events.show),
    _EVENT,
    Page("/create", create.show_choices, emulator=True),
    _CREATE,
    _MAINTENANCE,
    Page("/history", history.show),
    Page("/history.csv", history.export),
    Page("/history.json", history.export),
    _CLOCK,
)

ACTIONS: tuple[FormAction, ...] = (
    FormAction("/machines/{name:path}/delete", machine.delete, _DELETION),
    FormAction("/machines/{name:path}/cause", machine.cause, _MACHINE),
    FormAction("/machines/{name:path}/power", machine.set_power, _MACHINE),
    FormAction("/machines/{name:path}/fault", machine.set_fault, _MACHINE, emulator=True),
    FormAction("/machines/{name:path}/heal", machine.clear_fault, _MACHINE, emulator=True),
    FormAction("/hosts/{name:path}/announce", host.announce, _HOST),
    FormAction("/hosts/{name:path}/cancel", host.cancel, _HOST),
    FormAction("/hosts/{name:path}/postpone", host.postpone, _HOST),
    FormAction("/hosts/{name:path}/complete", host.complete, _HOST),
    FormAction("/hosts/{name:path}/hold", host.hold, _HOST),
    FormAction("/hosts/{name:path}/unhold", host.unhold, _HOST),
    FormAction("/events/{name:path}/approve", events.approve, _EVENT),
    FormAction("/events/{name:path}/cancel", events.cancel, _EVENT),
    FormAction("/create/{name:path}", create.create, _CREATE, emulator=True),
    FormAction("/maintenance", maintenance.start, _MAINTENANCE),
    FormAction("/maintenance/{name:path}/stop", maintenance.stop, _MAINTENANCE),
    FormAction("/hold", maintenance.hold, _MAINTENANCE),
    FormAction("/unhold", maintenance.unhold, _MAINTENANCE),
    FormAction("/clock/advance", clock.advance, _CLOCK, emulator=True),
    FormAction("/clock/next", clock.next_deadline, _CLOCK, emulator=True),
    FormAction("/clock/speed", clock.set_speed, _CLOCK, emulator=True),
)
