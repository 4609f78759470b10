"""A resource group to deploy templates to, and helpers that build templates."""

from fairwarning.arm.templates.budget import Budget
from fairwarning.arm.templates.context import DeploymentTarget
from fairwarning.arm.templates.plan import PlannedResource, outputs, plan
from fairwarning.core.document.render import Json

SUBSCRIPTION = "22222222-2222-4222-8222-222222222222"
TENANT = "11111111-1111-4111-8111-111111111111"
ROOT = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/lab"
NETWORK = f"{ROOT}/providers/Microsoft.Network"
COMPUTE = f"{ROOT}/providers/Microsoft.Compute"


class Cloud:
    """The documents deployed so far, by id."""

    def __init__(self) -> None:
        self.documents: dict[str, Json] = {}
        self.cpu = 0.0
        self.budget = self.new_budget()
        self.target = DeploymentTarget(
            subscription=SUBSCRIPTION,
            group="lab",
            group_document={"id": ROOT, "name": "lab", "location": "westeurope"},
            tenant=TENANT,
            lookup=lambda resource_id: self.documents.get(resource_id.lower()),
        )

    def new_budget(self) -> Budget:
        return Budget(lambda: self.cpu)

    def plan(self, template: Json, parameters: Json = None) -> tuple[PlannedResource, ...]:
        return plan(template, parameters, self.target, self.budget)

    def outputs(self, template: Json, parameters: Json = None) -> dict[str, Json]:
        return outputs(template, parameters, self.target, self.budget)

    def deploy(self, template: Json, parameters: Json = None) -> dict[str, dict[str, Json]]:
        bodies = {}
        for planned in self.plan(template, parameters):
            bodies[planned.name] = planned.body()
            self.documents[planned.id.lower()] = {"id": planned.id, **bodies[planned.name]}
        return bodies


def resource(name: str, *needs: Json, kind: str = "Microsoft.Network/virtualNetworks", **more: Json) -> Json:
    return {"type": kind, "name": name, "apiVersion": "2022-01-01", "dependsOn": list(needs), **more}


def template(*resources: Json, **more: Json) -> Json:
    return {"contentVersion": "1.0.0.0", "resources": list(resources), **more}
