-- What is true now. "position" keeps the order in which things came to be; an update leaves it alone.
CREATE TABLE scope (
    position    INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    set_name    TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    body        TEXT    NOT NULL
) STRICT;

CREATE TABLE machine (
    position INTEGER PRIMARY KEY,
    scope    TEXT    NOT NULL REFERENCES scope (id) ON DELETE CASCADE,
    name     TEXT    NOT NULL,
    body     TEXT    NOT NULL,
    UNIQUE (scope, name)
) STRICT;

CREATE TABLE event (
    position   INTEGER PRIMARY KEY,
    scope      TEXT    NOT NULL REFERENCES scope (id) ON DELETE CASCADE,
    id         TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    not_before TEXT    NOT NULL,
    barrier    TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    UNIQUE (scope, id)
) STRICT;

CREATE INDEX event_due ON event (not_before) WHERE status = 'Scheduled';

-- What became true, for ever: lines are added and never touched again.
CREATE TABLE journal (
    seq     INTEGER PRIMARY KEY,
    at      TEXT    NOT NULL,
    scope   TEXT    NOT NULL,
    version INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    event   TEXT,
    body    TEXT    NOT NULL
) STRICT;

CREATE INDEX journal_event ON journal (event, seq) WHERE event IS NOT NULL;

CREATE TABLE note (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
