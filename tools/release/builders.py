"""The builders, in the order in which they run."""

from collections.abc import Callable, Mapping, Sequence

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

#: The programs that builders run, apart from git and from what they install into ``.cache``.
PROGRAMS: Mapping[str, Sequence[str]] = {
    "agent": ("python3",),
    "server-deb": ("strip",),
    "image": image.PROGRAMS,
}

#: What else builders need: each function returns what this machine or this user lacks, if anything.
OBSTACLES: Mapping[str, Callable[[], str | None]] = {
    "server-deb": debian.obstacle,
    "image": image.obstacle,
}
