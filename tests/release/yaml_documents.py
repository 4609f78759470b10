"""Reads YAML with the library that validates the chart; the tests themselves have none."""

import json
import subprocess
from pathlib import Path

from fairwarning.core.document.render import Json
from tools.environments import environment

#: The schemas of Kubernetes and PyYAML.
REQUIREMENTS = Path(__file__).parent / "kubernetes-validate.txt"
_PROGRAM = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)"

Member = dict[str, Json]


def read_yaml(text: str) -> list[Member]:
    """Return the documents of a YAML stream, without empty ones."""
    command = [str(environment(REQUIREMENTS) / "python"), "-c", _PROGRAM]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    documents: list[Member | None] = json.loads(done.stdout)
    return [document for document in documents if document]


def member(value: Json, *path: str) -> Json:
    """Return what is at a path of names."""
    for name in path:
        assert isinstance(value, dict), f"{name} is not in {value!r}"
        value = value[name]
    return value


def items(value: Json, *path: str) -> list[Member]:
    """Return the objects of the list at a path of names."""
    values = member(value, *path)
    assert isinstance(values, list)
    return [each for each in values if isinstance(each, dict)]
