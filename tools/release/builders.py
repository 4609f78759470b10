"""The builders, in the order in which they run."""

from collections.abc import Mapping

from tools.release import Build, agent, chart, completions, debian, distributions, image, manuals, notes, sbom

BUILDERS: Mapping[str, Build] = {
    "sdist": distributions.build_sdist,
    "wheel": distributions.build_wheel,
    "agent": agent.build,
    "chart": chart.build,
    "manuals": manuals.build,
    "completions": completions.build,
    "agent-deb": debian.build_agent,
    "server-deb": debian.build_server,
    "image": image.build,
    "sbom": sbom.build,
    "notes": notes.build,
}
