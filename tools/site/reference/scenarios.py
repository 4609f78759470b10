"""The page of the format of scenarios, from its JSON schema."""

from fairwarning.check.scenario import schema
from tools.site.reference.tables import definition, member, members

HEAD = """\
# Scenarios

A scenario is a TOML file for `fairwarning check`; [the guide](../guides/check-your-handler.md) explains steps
and expectations. This page lists every member, beginning with the file itself, a [Scenario](#scenario).
[The JSON schema](../scenario.schema.json) has the same content for editors.
"""


def scenarios() -> str:
    """Return the page."""
    definitions = members(member(schema(), "$defs"))
    return "\n".join([HEAD, *(definition(name, value) for name, value in definitions.items())]).replace(
        "\n### ", "\n## "
    )
