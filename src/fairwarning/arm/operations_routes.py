"""Where clients ask how far an operation is."""

from fairwarning.arm.operations import status
from fairwarning.arm.routing import ArmRoute

_PROVIDERS = ("Microsoft.Compute", "Microsoft.Resources")

ROUTES: tuple[ArmRoute, ...] = tuple(
    ArmRoute(
        "GET",
        f"/subscriptions/{{subscription}}/providers/{provider}/locations/{{location}}/operations/{{operation}}",
        status,
    )
    for provider in _PROVIDERS
)
