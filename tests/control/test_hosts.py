"""Hosts as operators see them: what is on each, what is planned, and who has answered."""

import pytest

from fairwarning.control.hosts import HostState
from fairwarning.core.errors import UnknownHostError
from tests.core.maintained import TWO_HOSTS, MaintainedFleet


def test_all_hosts_are_listed_with_their_tenants_in_order() -> None:
    fleet = MaintainedFleet()

    hosts = list(fleet.control.maintenances.hosts())

    assert [(host.name, [tenant.scope for tenant in host.tenants]) for host in hosts] == [
        ("kvm-1", ["db", "web"]),
        ("kvm-2", ["app", "web"]),
    ]
    assert [host.machines for host in hosts] == [2, 2]
    assert hosts == [fleet.control.maintenances.host(host.name) for host in hosts]


@pytest.mark.rule("M-01")
def test_the_state_of_a_host_follows_its_maintenance() -> None:
    fleet = MaintainedFleet()
    states = [fleet.control.maintenances.host("kvm-1").state]

    fleet.maintain("kvm-1")
    states.append(fleet.control.maintenances.host("kvm-1").state)
    fleet.approve_all()
    states.append(fleet.control.maintenances.host("kvm-1").state)
    fleet.complete()
    states.append(fleet.control.maintenances.host("kvm-1").state)

    assert states == [
        HostState.IN_SERVICE,
        HostState.ANNOUNCED,
        HostState.IN_MAINTENANCE,
        HostState.IN_SERVICE,
    ]


def test_every_tenant_has_a_sentence_about_its_answer() -> None:
    fleet = MaintainedFleet({"web": {"web_0": "kvm-1"}, "db": {"db_0": "kvm-1"}, "app": {"app_0": "kvm-1"}})
    fleet.poll("web_0", "db_0")
    fleet.maintain("kvm-1")
    fleet.approve_all("web")

    tenants = fleet.control.maintenances.host("kvm-1").tenants

    assert {tenant.scope: tenant.answer for tenant in tenants} == {
        "app": "silent: no guest polls",
        "db": "not approved",
        "web": "approved",
    }


def test_a_host_of_which_nothing_is_known_is_not_found() -> None:
    fleet = MaintainedFleet()

    with pytest.raises(UnknownHostError):
        fleet.control.maintenances.host("kvm-9")


@pytest.mark.rule("F-10")
def test_the_inventory_gives_hosts_labels_also_without_machines() -> None:
    fleet = MaintainedFleet()

    fleet.apply(TWO_HOSTS, labels={"kvm-1": {"rack": "B"}, "kvm-3": {"rack": "C"}})

    hosts = {host.name: dict(host.labels) for host in fleet.control.maintenances.hosts()}
    assert hosts == {"kvm-1": {"rack": "B"}, "kvm-2": {}, "kvm-3": {"rack": "C"}}
    fleet.restart()
    assert fleet.control.maintenances.host("kvm-3").machines == 0
    fleet.apply(TWO_HOSTS)
    assert [host.name for host in fleet.control.maintenances.hosts()] == ["kvm-1", "kvm-2"]
