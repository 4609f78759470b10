"""Pages of the reference that are generated from the code whenever the site is built."""

from collections.abc import Callable, Mapping

from tools.site.reference.cli import command_line
from tools.site.reference.metrics import metrics
from tools.site.reference.operator_api import operator_api
from tools.site.reference.scenarios import scenarios

#: The pages by their place in the site.
GENERATED: Mapping[str, Callable[[], str]] = {
    "reference/command-line.md": command_line,
    "reference/operator-api.md": operator_api,
    "reference/scenarios.md": scenarios,
    "reference/metrics.md": metrics,
}
