"""Builds the documentation site into ``build/site``: ./dev docs, or --serve to look at it."""

import shutil
import subprocess
import sys
from argparse import ArgumentParser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tools.environments import environment
from tools.site.links import problems
from tools.site.navigation import unlisted
from tools.site.staging import HERE, ROOT, SiteError, Staging

SITE = ROOT / "build" / "site"


def build(site: Path) -> None:
    """Build the site.

    Raises:
        SiteError: a page has no place, a link leads nowhere, or zensical warns.
    """
    if pages := unlisted():
        raise SiteError(f"pages without a place in tools/site/zensical.toml: {', '.join(pages)}")
    work = site.with_name(f"{site.name}-pages")
    for folder in (work, site):
        shutil.rmtree(folder, ignore_errors=True)
    (work / "docs").mkdir(parents=True)
    Staging(work / "docs").stage()
    config = (HERE / "zensical.toml").read_text()
    (work / "zensical.toml").write_text(config)
    program = environment(HERE / "zensical.txt") / "zensical"
    done = subprocess.run([program, "build", "--strict", "--clean"], cwd=work, text=True, capture_output=True)
    if done.returncode:
        raise SiteError(f"the site was not built\n{done.stdout}{done.stderr}")
    (work / "site").rename(site)
    if found := list(problems(site)):
        raise SiteError("\n".join(found))


def serve(site: Path, port: int) -> None:
    """Serve the site on loopback until Ctrl-C."""
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


def main() -> None:
    """Run the command line."""
    parser = ArgumentParser(prog="./dev docs", description=__doc__)
    parser.add_argument("--site", type=Path, default=SITE, help="folder of the site (default: build/site)")
    parser.add_argument("--serve", action="store_true", help="serve the site on loopback until Ctrl-C")
    parser.add_argument("--port", type=int, default=8000, help="port of --serve (default: 8000)")
    options = parser.parse_args()
    try:
        build(options.site.absolute())
    except SiteError as problem:
        raise SystemExit(f"docs: {problem}") from None
    pages = sum(1 for _ in options.site.rglob("*.html"))
    print(f"docs: {pages} pages in {options.site}", file=sys.stderr)
    if options.serve:
        try:
            serve(options.site, options.port)
        except KeyboardInterrupt:
            print(file=sys.stderr)


if __name__ == "__main__":
    main()
