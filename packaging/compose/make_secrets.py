"""Writes the secrets of ``compose.yaml`` into a folder, unless they are there: password, DSN and token."""

import os
import sys
from pathlib import Path

os.umask(0o077)
folder = Path(sys.argv[1])
password = os.urandom(24).hex()
for name, text in {
    "database.password": password,
    "operator.token": os.urandom(24).hex(),
    "database.dsn": f"postgresql://fairwarning:{password}@database/fairwarning",  # last: all are there
}.items():
    if not (folder / "database.dsn").exists():
        (folder / name).write_text(f"{text}\n")
