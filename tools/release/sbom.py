"""The software bill of materials: the wheel, everything that its installation brings, and vendored files.

The wheel is installed as the Debian package and the image have it: with the driver of PostgreSQL.
"""

import json
import tempfile
import tomllib
from pathlib import Path

from tools.environments import environment
from tools.release import ROOT, Release
from tools.release.installations import install
from tools.release.programs import run

_PROGRAMS = Path(__file__).with_name("sbom.txt")
_VENDORED = ROOT / "src" / "fairwarning" / "console" / "static" / "VENDORED.toml"


def build(release: Release) -> list[Path]:
    """Install the wheel with the pinned versions of its dependencies, and list what is there."""
    program = environment(_PROGRAMS) / "cyclonedx-py"
    with tempfile.TemporaryDirectory() as scratch:
        python = install(release, Path(scratch, "installed"), f"{release.wheel}[postgres]")
        listing = Path(scratch, "bill.json")
        options = ["--output-reproducible", "--sv=1.6", f"--output-file={listing}"]
        run(release, [program, "environment", *options, python])
        bill = json.loads(listing.read_text())
    (product,) = (part for part in bill["components"] if part["name"] == "fairwarning")
    bill["components"].remove(product)
    bill["components"] += _vendored()
    # The tool would name the folder that the wheel was installed from.
    product["externalReferences"][0]["url"] = release.wheel.name
    bill["metadata"]["component"] = {**product, "type": "application"}
    target = release.dist / f"fairwarning-{release.version}.cdx.json"
    target.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n")
    return [target]


def _vendored() -> list[dict[str, object]]:
    return [
        {
            "bom-ref": f"{entry['package']}@{entry['version']}",
            "licenses": [{"license": {"id": entry["licence"]}}],
            "name": entry["package"],
            "purl": f"pkg:npm/{entry['package']}@{entry['version']}",
            "type": "library",
            "version": entry["version"],
        }
        for entry in tomllib.loads(_VENDORED.read_text()).values()
    ]
