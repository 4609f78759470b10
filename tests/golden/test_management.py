"""Golden files of the management API: resources, operations, requests that change something."""

from fairwarning.arm.context import SUBSCRIPTION
from fairwarning.core.document.render import Json
from tests.arm.cloud import resource, template
from tests.arm.compute import VM, both, model, profile, scale_set
from tests.arm.deploying import DEPLOYMENTS, VMSS, body
from tests.fixtures.release import FIRST
from tests.golden.comparison import Golden, answer
from tests.running import Running

HEADERS = (
    "azure-asyncoperation",
    "location",
    "retry-after",
    "x-ms-retry-after-ms",
    "www-authenticate",
    "etag",
)
HOME, LAB = "fairwarning/providers", "lab/providers"
COMPUTE = "Microsoft.Compute"
SERVICE = f"{HOME}/{COMPUTE}/cloudServices/cloud-service"
#: Paths of GET requests, below the subscription's groups.
READING = {
    "group": "lab",
    "vm": f"{HOME}/{VM}/db",
    "vm expanded": f"{HOME}/{VM}/db?$expand=instanceView",
    "vm stopping": f"{LAB}/{VM}/doomed",
    "vm put": f"{LAB}/{VM}/solo",
    "vm spot": f"{LAB}/{VM}/spot",
    "vm in availability set": f"{HOME}/{VM}/app-1",
    "vm instance view": f"{HOME}/{VM}/cache/instanceView",
    "vms": f"{LAB}/{VM}",
    "scale set": f"{LAB}/{VMSS}/web",
    "scale set zonal": f"{HOME}/{VMSS}/shop",
    "scale set flexible": f"{HOME}/{VMSS}/pool",
    "scale sets": f"{LAB}/{VMSS}",
    "scale set instance view": f"{HOME}/{VMSS}/shop/instanceView",
    "instance": f"{HOME}/{VMSS}/shop/virtualMachines/2",
    "instance protected": f"{LAB}/{VMSS}/web/virtualMachines/0",
    "instances": f"{LAB}/{VMSS}/web/virtualMachines",
    "instance view of instance": f"{HOME}/{VMSS}/web/virtualMachines/1/instanceView",
    "availability set": f"{HOME}/{COMPUTE}/availabilitySets/app",
    "cloud service": SERVICE,
    "role instances": f"{SERVICE}/roleInstances",
    "role instance view": f"{SERVICE}/roleInstances/BackEnd_IN_0/instanceView",
    "updates": f"{HOME}/{VM}/db/providers/Microsoft.Maintenance/updates",
    "network": f"{LAB}/Microsoft.Network/virtualNetworks/net",
    "resources": "lab/resources",
    "deployment": f"{LAB}/{DEPLOYMENTS}/smaller",
    "deployment steps": f"{LAB}/{DEPLOYMENTS}/smaller/operations",
    "no such vm": f"{LAB}/{VM}/nobody",
    "no such group": f"nowhere/providers/{VM}/db",
    "no such deployment": f"{LAB}/{DEPLOYMENTS}/none",
    "no such route": f"{LAB}/{COMPUTE}/toasters/one",
}
CHANGING: tuple[tuple[str, str, str, Json], ...] = (
    ("put vm", "PUT", f"{LAB}/{VM}/fresh", {"location": "westeurope", "properties": profile(5)}),
    ("put vm again", "PUT", f"{LAB}/{VM}/fresh", {"location": "westeurope", "tags": {"a": "b"}}),
    ("put vm with too long a notice", "PUT", f"{LAB}/{VM}/other", {"properties": profile(60)}),
    ("patch vm", "PATCH", f"{LAB}/{VM}/fresh", {"tags": {"c": "d"}}),
    ("restart vm", "POST", f"{HOME}/{VM}/app-1/restart", None),
    ("redeploy vm", "POST", f"{HOME}/{VM}/app-2/redeploy", None),
    ("stop vm", "POST", f"{LAB}/{VM}/fresh/powerOff", None),
    ("evict vm", "POST", f"{LAB}/{VM}/spot/simulateEviction", None),
    ("evict what is not Spot", "POST", f"{LAB}/{VM}/fresh/simulateEviction", None),
    ("delete vm", "DELETE", f"{LAB}/{VM}/fresh", None),
    ("delete vm that is not there", "DELETE", f"{LAB}/{VM}/nobody", None),
    ("put scale set", "PUT", f"{LAB}/{VMSS}/set", both(scale_set(2), model(**profile(5)))),
    ("change scale set", "PATCH", f"{LAB}/{VMSS}/set", {"sku": {"capacity": 3}}),
    ("shrink scale set", "PATCH", f"{LAB}/{VMSS}/web", {"sku": {"capacity": 1}}),
    ("restart instances", "POST", f"{HOME}/{VMSS}/web/restart", {"instanceIds": ["0"]}),
    ("upgrade instances", "POST", f"{HOME}/{VMSS}/shop/manualupgrade", {"instanceIds": ["*"]}),
    ("delete instances", "POST", f"{HOME}/{VMSS}/web/delete", {"instanceIds": ["0"]}),
    ("delete scale set", "DELETE", f"{LAB}/{VMSS}/set", None),
    ("put group", "PUT", "other", {"location": "westeurope"}),
    ("deploy", "PUT", f"other/providers/{DEPLOYMENTS}/one", body(template(resource("net")))),
    (
        "validate",
        "POST",
        f"other/providers/{DEPLOYMENTS}/two/validate",
        body(template(resource("net"))),
    ),
    ("deploy what makes no sense", "PUT", f"other/providers/{DEPLOYMENTS}/two", body({})),
    ("body that is no object", "PUT", f"{LAB}/{VM}/fresh", []),
)
#: Paths outside the groups.
ELSEWHERE = {
    "subscriptions": "/subscriptions?api-version=2022-12-01",
    "tenants": "/tenants?api-version=2022-12-01",
    "endpoints": "/metadata/endpoints?api-version=2022-09-01",
    "groups": f"/subscriptions/{SUBSCRIPTION}/resourcegroups?api-version=2022-12-01",
    "no version": f"/subscriptions/{SUBSCRIPTION}/resourcegroups",
    "no such version": f"/subscriptions/{SUBSCRIPTION}/resourcegroups?api-version=newest",
    "another subscription": f"/subscriptions/{SUBSCRIPTION[:-1]}2/resourcegroups?api-version=2022-12-01",
}


def operation(name: str, more: str = "") -> str:
    return (
        f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/westeurope/operations/{name}"
        f"?api-version=2024-07-01{more}"
    )


def test_everything_that_management_clients_read(shared: Running, golden: Golden) -> None:
    texts = {what: answer(shared.manage("GET", path), *HEADERS) for what, path in READING.items()}
    texts |= {what: answer(shared.arm.get(path), *HEADERS) for what, path in ELSEWHERE.items()}
    old = {"vm in 2019": f"{LAB}/{VM}/solo", "scale set in 2018": f"{LAB}/{VMSS}/web"}
    for (what, path), version in zip(old.items(), ("2019-03-01", "2018-10-01"), strict=True):
        texts[what] = answer(shared.manage("GET", path, version=version))

    golden("management/reading", texts)


def test_how_far_operations_are(server: Running, golden: Golden) -> None:
    name = FIRST.contents.operations["deletion of doomed"]
    paths = {"under way": operation(name), "monitored": operation(name, "&monitor=true")}
    texts = {what: answer(server.arm.get(path), *HEADERS) for what, path in paths.items()}
    server.fleet("POST", "/clock/advance", {"by": "20m"})
    texts |= {f"{what} and done": answer(server.arm.get(path), *HEADERS) for what, path in paths.items()}
    texts["long done"] = answer(server.arm.get(operation(FIRST.contents.ended_operation)), *HEADERS)
    texts["nobody knows"] = answer(server.arm.get(operation("none")), *HEADERS)
    texts["gone vm"] = answer(server.manage("GET", f"{LAB}/{VM}/doomed"), *HEADERS)
    texts["deployment"] = answer(server.manage("GET", f"{LAB}/{DEPLOYMENTS}/smaller"), *HEADERS)

    golden("management/operations", texts)


def test_everything_that_management_clients_do(server: Running, golden: Golden) -> None:
    texts = {
        what: answer(server.manage(method, path, sent), *HEADERS) for what, method, path, sent in CHANGING
    }

    golden("management/doing", texts)


def test_a_request_without_a_token_learns_where_to_get_one(shared: Running, golden: Golden) -> None:
    path = f"/subscriptions/{SUBSCRIPTION}/resourcegroups?api-version=2022-12-01"
    texts = answer(shared.arm.get(path, headers={"Authorization": ""}), *HEADERS)

    golden("management/access", {"no token": texts})
