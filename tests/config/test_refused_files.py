"""The file of ``serve``: everything that is refused before a server starts."""

from pathlib import Path

import pytest

from fairwarning import __version__
from tests.config.files import SQLITE, problems, secret, write

REFUSED = [
    pytest.param("x = [", "fleet.toml: is not TOML: Invalid value (at end of document)", id="no TOML"),
    pytest.param("", "fleet.toml: [store]: is missing", id="no store"),
    pytest.param(
        '[store]\nkind = "sqlite"', "fleet.toml: [store] path: is missing", id="SQLite without a path"
    ),
    pytest.param(
        '[store]\nkind = "sqlit"',
        "fleet.toml: [store] kind: invalid value 'sqlit' (expected sqlite or postgres)",
        id="a store of an unknown kind",
    ),
    pytest.param(
        f'{SQLITE}dsn = "x"',
        'fleet.toml: [store] dsn: is a key of kind = "postgres"',
        id="a key of the other kind of store",
    ),
    pytest.param(
        f"{SQLITE}[quorum]\nsize = 3\n",
        f"fleet.toml: unknown key quorum (version {__version__} does not know it; a newer version may)",
        id="a key of a newer version",
    ),
    pytest.param(
        f"drivr = 1\n{SQLITE}",
        "fleet.toml: unknown key drivr (did you mean driver?)",
        id="an unknown key above all tables",
    ),
    pytest.param(
        f"{SQLITE}[operator]\nlisten_on = 1",
        "fleet.toml: [operator]: unknown key listen_on (did you mean listen?)",
        id="an unknown key of a table",
    ),
    pytest.param(
        f'{SQLITE}[[machine]]\nname = "a"\nadress = "10.0.0.1"',
        "fleet.toml: [[machine]] a: unknown key adress (did you mean address?)",
        id="an unknown key of a machine",
    ),
    pytest.param(
        f"{SQLITE}[[machine]]\nspot = true",
        "fleet.toml: [[machine]] number 1 name: is missing",
        id="a machine without a name",
    ),
    pytest.param(
        f'{SQLITE}[limits]\nconnections = "many"',
        "fleet.toml: [limits] connections: expected `int`, got `str`",
        id="a text in place of a number",
    ),
    pytest.param(
        f'{SQLITE}[log]\nlevel = "loud"',
        "fleet.toml: [log] level: invalid enum value 'loud' (expected debug or error or info or warning)",
        id="an unknown log level",
    ),
    pytest.param(
        f'{SQLITE}[operator]\nlisten = "8080"',
        "fleet.toml: [operator] listen: invalid address '8080' (expected e.g. 127.0.0.1:8080)",
        id="a port without an address",
    ),
    pytest.param(
        f'{SQLITE}[operator]\nlisten = "0.0.0.0:8080"\nplain_http = true',
        "fleet.toml: [operator] token_file: is required, because 0.0.0.0 is not loopback",
        id="no token off loopback",
    ),
    pytest.param(
        f'{SQLITE}[operator]\nlisten = "0.0.0.0:8080"\ntoken_file = "token"',
        "fleet.toml: [operator] listen: 0.0.0.0 is not loopback and has no TLS: "
        "add the table [tls], or plain_http = true if another program terminates TLS",
        id="no TLS off loopback",
    ),
    pytest.param(
        f'{SQLITE}[management]\nlisten = "10.0.0.1:8443"',
        "fleet.toml: [management] token_file: is required, because 10.0.0.1 is not loopback",
        id="no secret for the management API off loopback",
    ),
    pytest.param(
        f'{SQLITE}[operator]\ntoken_file = "readable"',
        "fleet.toml: [operator] token_file: other users can read readable (mode 0644): chmod 600 readable",
        id="a token that other users can read",
    ),
    pytest.param(
        f'{SQLITE}[operator]\ntoken_file = "short"',
        "fleet.toml: [operator] token_file: the token in short has 5 characters; it needs at least 16",
        id="a short token",
    ),
    pytest.param(
        f'{SQLITE}[operator]\ntoken_file = "empty"',
        "fleet.toml: [operator] token_file: empty is empty",
        id="an empty token",
    ),
    pytest.param(
        f'{SQLITE}[operator]\ntoken_file = "absent"',
        "fleet.toml: [operator] token_file: absent cannot be read: No such file or directory",
        id="a token file that does not exist",
    ),
    pytest.param(
        f'{SQLITE}[tls]\ncertificate = "token"\nkey = "readable"',
        "fleet.toml: [tls] key: other users can read readable (mode 0644): chmod 600 readable",
        id="a key that other users can read",
    ),
    pytest.param(
        f'{SQLITE}[tls]\ndirectory = "authority"',
        "fleet.toml: [tls] directory: other users can read authority/ca-key.pem (mode 0644): "
        "chmod 600 authority/ca-key.pem",
        id="the key of a generated authority that other users can read",
    ),
    pytest.param(
        f'{SQLITE}[tls]\ndirectory = "authority"',
        "fleet.toml: [tls] directory: other users can read authority/server-key.pem (mode 0640): "
        "chmod 600 authority/server-key.pem",
        id="a generated key that a group can read",
    ),
    pytest.param(
        f"{SQLITE}[tls]",
        "fleet.toml: [tls]: needs either certificate and key, or directory",
        id="TLS without certificates",
    ),
    pytest.param(
        '[store]\nkind = "postgres"\ndsn = "postgresql://ann:secret@db/fleet"',
        "fleet.toml: [store] dsn: contains a password: put the DSN into a file, and name it in dsn_file",
        id="a password in the file",
    ),
    pytest.param(
        '[store]\nkind = "postgres"\ndsn = "host=db password = secret"',
        "fleet.toml: [store] dsn: contains a password: put the DSN into a file, and name it in dsn_file",
        id="a password among keywords",
    ),
    pytest.param(
        '[store]\nkind = "postgres"\ndsn_file = "readable"',
        "fleet.toml: [store] dsn_file: other users can read readable (mode 0644): chmod 600 readable",
        id="a DSN that other users can read",
    ),
    pytest.param(
        '[store]\nkind = "postgres"\ndsn = "host=db"\nstale_after = "30s"',
        "fleet.toml: [store] stale_after: must be at least 3 s and less than 30 s, the shortest notice of an "
        "event, not 30 s",
        id="answering guests without news for as long as a notice",
    ),
    pytest.param(
        '[store]\nkind = "postgres"\ndsn = "host=db"\nstale_after = "2s"',
        "fleet.toml: [store] stale_after: must be at least 3 s and less than 30 s, the shortest notice of an "
        "event, not 2 s",
        id="less patience than news take",
    ),
    pytest.param(
        f'{SQLITE}stale_after = "10s"',
        'fleet.toml: [store] stale_after: is a key of kind = "postgres"',
        id="a store of one node that should get stale",
    ),
    pytest.param(
        '[store]\nkind = "postgres"',
        "fleet.toml: [store]: needs either dsn or dsn_file",
        id="PostgreSQL without a DSN",
    ),
    pytest.param(
        f"{SQLITE}[metadata]",
        "fleet.toml: [metadata]: has neither listen nor sockets",
        id="a metadata API that nobody can reach",
    ),
    pytest.param(
        f'{SQLITE}[metadata]\nlisten = ["127.0.0.1:80"]',
        "fleet.toml: [metadata] listen: no machine has an address, so no guest is known",
        id="listeners that know no guest",
    ),
    pytest.param(
        f'{SQLITE}[metadata]\nsockets = "s"\nidentity_tokens = true',
        "fleet.toml: [metadata] identity_tokens: needs the table [management]",
        id="identity tokens that no API accepts",
    ),
    pytest.param(
        f'{SQLITE}[retention]\nage = "long"',
        "fleet.toml: [retention] age: invalid duration 'long' (expected e.g. 30s, 15m, 1h30m, 2d or PT5M)",
        id="an invalid duration",
    ),
    pytest.param(
        f'{SQLITE}[overdue]\nhost-rebot = "2h"',
        "fleet.toml: [overdue]: unknown key host-rebot (did you mean host-reboot?)",
        id="a limit for a cause that does not exist",
    ),
    pytest.param(
        f'{SQLITE}[overdue]\nhost-reboot = "0s"',
        "fleet.toml: [overdue] host-reboot: must be longer than zero",
        id="an impact that is overdue when it begins",
    ),
    pytest.param(
        f'driver = "simulated"\n{SQLITE}[overdue]\nhost-reboot = "2h"',
        'fleet.toml: [overdue]: needs driver = "external": simulated impacts end by themselves',
        id="limits for impacts that are never overdue",
    ),
    pytest.param(
        f'{SQLITE}[retention]\nsize = "big"',
        "fleet.toml: [retention] size: invalid size 'big' (expected e.g. 500MB, 1GB)",
        id="an invalid size",
    ),
    pytest.param(
        f'{SQLITE}[[machine]]\nname = "a"\nset = "wep"\n[[set]]\nname = "web"',
        "fleet.toml: [[machine]] a set: there is no [[set]] wep (did you mean web?)",
        id="an unknown set",
    ),
    pytest.param(
        f'{SQLITE}[[machine]]\nname = "a"\naddress = "10.0.0.1"\n'
        '[[machine]]\nname = "b"\naddress = "10.0.0.1"',
        "fleet.toml: [[machine]] b address: 10.0.0.1 belongs to a/a already",
        id="two machines at one address",
    ),
    pytest.param(
        f'{SQLITE}[[machine]]\nname = "a"\n[[machine]]\nname = "a"',
        "fleet.toml: [[machine]] a name: a is listed twice",
        id="two standalone machines of one name",
    ),
    pytest.param(
        f'{SQLITE}[[set]]\nname = "s"\n' + '[[machine]]\nname = "a"\nset = "s"\n' * 2,
        "fleet.toml: [[machine]] a name: s has two machines of this name",
        id="two machines of one name in a set",
    ),
    pytest.param(
        f'{SQLITE}[[set]]\nname = "a"\n[[machine]]\nname = "a"',
        "fleet.toml: [[machine]] a name: a is listed twice",
        id="a standalone machine with the name of a set",
    ),
    pytest.param(
        f'{SQLITE}[[set]]\nname = "s"\n[[set]]\nname = "s"',
        "fleet.toml: [[set]] s: is listed twice",
        id="two sets of one name",
    ),
    pytest.param(
        f'{SQLITE}[[machine]]\nname = "a"\naddress = "here"',
        "fleet.toml: [[machine]] a address: 'here' is not an IP address",
        id="a name in place of an address",
    ),
    pytest.param(
        f'{SQLITE}[[machine]]\nname = "a b"',
        "fleet.toml: [[machine]] a b name: 'a b' must be letters, digits, dot, dash or underscore",
        id="an invalid name",
    ),
    pytest.param(
        f'{SQLITE}[[set]]\nname = "web"\nkind = "scale-set"\n[[machine]]\nname = "a"\nset = "web"',
        "fleet.toml: [[machine]] a name: the machines of a scale-set are named after it, like web_0",
        id="a machine of a scale set with a name of its own",
    ),
    pytest.param(
        f'{SQLITE}[[set]]\nname = "s"\n[[machine]]\nname = "a"\nset = "s"\nzone = "1"',
        "fleet.toml: [[machine]] a zone: an availability-set has no zones",
        id="a zone in an availability set",
    ),
    pytest.param(
        f'{SQLITE}[[machine]]\nname = "a"\nterminate_notice = "1m"',
        "fleet.toml: [[machine]] a terminate_notice: must be between 5 and 15 minutes, not 0:01:00",
        id="a terminate notice that is too short",
    ),
    pytest.param(
        f'{SQLITE}[inventory]\nfile = "absent.csv"',
        "fleet.toml: [inventory] file: absent.csv cannot be read: No such file or directory",
        id="an inventory that does not exist",
    ),
    pytest.param(
        f'{SQLITE}[inventory]\nfile = "columns.csv"',
        "fleet.toml: columns.csv: unknown column adress (did you mean address?)",
        id="an unknown column",
    ),
    pytest.param(
        f'{SQLITE}[inventory]\nfile = "cells.csv"',
        "fleet.toml: cells.csv line 2: has more cells than the first line",
        id="a line with too many cells",
    ),
    pytest.param(
        f'{SQLITE}[inventory]\nfile = "numbers.csv"',
        "fleet.toml: numbers.csv line 2: invalid literal for int() with base 10: 'x'",
        id="a text in a column of numbers",
    ),
    pytest.param(
        f'{SQLITE}[workers]\nstatus = "0.0.0.0:9464"\nplain_http = true',
        "fleet.toml: [workers] status: 0.0.0.0 is not loopback: this needs plain_http = true, and a token in"
        " [operator]",
        id="the status of workers for everybody, without a token",
    ),
]


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_a_file_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    secret(tmp_path)
    secret(tmp_path, "readable", mode=0o644)
    secret(tmp_path, "short", "short")
    secret(tmp_path, "empty", "\n")
    (tmp_path / "authority").mkdir()
    secret(tmp_path, "authority/ca-key.pem", mode=0o644)
    secret(tmp_path, "authority/server-key.pem", mode=0o640)
    write(tmp_path, "name,adress\na,10.0.0.1\n", "columns.csv")
    write(tmp_path, "name\na,b\n", "cells.csv")
    write(tmp_path, "name,update_domain\na,x\n", "numbers.csv")

    assert problem in problems(tmp_path, text)


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        pytest.param(
            "FAIRWARNING_NODE__NAM",
            "x",
            "fleet.toml: the variable FAIRWARNING_NODE__NAM names no key of the file "
            "(did you mean FAIRWARNING_NODE__NAME?)",
            id="an unknown key",
        ),
        pytest.param(
            "FAIRWARNING_LIMITS__STREAMS",
            "many",
            "fleet.toml: the variable FAIRWARNING_LIMITS__STREAMS has an invalid value for [limits] streams",
            id="a text for a number",
        ),
        pytest.param(
            "FAIRWARNING_OPERATOR__PLAIN_HTTP",
            "yes",
            "fleet.toml: the variable FAIRWARNING_OPERATOR__PLAIN_HTTP has an invalid value for "
            "[operator] plain_http",
            id="a text for a truth value",
        ),
    ],
)
def test_a_variable_is_refused(tmp_path: Path, variable: str, value: str, problem: str) -> None:
    assert problems(tmp_path, SQLITE, {variable: value}) == [problem]


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = f'{SQLITE}[operator]\nlisten = "0.0.0.0:1"\n[[machine]]\nname = "a b"\n[[machine]]\nname = "é"'

    assert len(problems(tmp_path, text)) == 4
