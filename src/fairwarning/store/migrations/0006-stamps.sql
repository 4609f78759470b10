-- The stamp is the number of the batch that wrote a row last. Rows from before have stamp 1: 0 means no row.
-- A row whose checksum is wrong gets -1, which no row has, so that it is found when it is read.
ALTER TABLE scope    ADD COLUMN stamp   INTEGER NOT NULL DEFAULT 1;
ALTER TABLE document ADD COLUMN stamp   INTEGER NOT NULL DEFAULT 1;
ALTER TABLE journal  ADD COLUMN request TEXT    NOT NULL DEFAULT '';
ALTER TABLE journal  ADD COLUMN stamp   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE journal  ADD COLUMN ends    INTEGER NOT NULL DEFAULT 0;

UPDATE scope SET checksum = iif(
    checksum = row_checksum(id, set_name, kind, version, incarnation, body),
    row_checksum(id, set_name, kind, version, incarnation, body, stamp), -1
);
UPDATE document SET checksum = iif(
    checksum = row_checksum(key, body), row_checksum(key, body, stamp), -1
);
UPDATE journal SET ends = seq, checksum = iif(
    checksum = row_checksum(seq, at, scope, version, kind, event, body),
    row_checksum(seq, at, scope, version, kind, event, body, request, stamp, seq), -1
);

-- The names of sets, with the highest incarnation among the removed scopes of the name.
CREATE TABLE fleet_set (
    set_id      TEXT    NOT NULL PRIMARY KEY,
    stamp       INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT;

INSERT INTO fleet_set (set_id, stamp, incarnation, checksum)
SELECT set_id, 1, incarnation, iif(
    checksum = row_checksum(set_id, incarnation), row_checksum(set_id, 1, incarnation), -1
) FROM last_incarnation;
DROP TABLE last_incarnation;

INSERT OR IGNORE INTO fleet_set (set_id, stamp, incarnation, checksum)
WITH present AS (
    SELECT coalesce(nullif(json_extract(body, '$.group'), '') || '/', '') || set_name AS set_id
    FROM scope WHERE json_valid(body)
)
SELECT DISTINCT set_id, 1, 0, row_checksum(set_id, 1, 0) FROM present;

-- The last poll of each scope, as text of fixed width that sorts like the instants.
CREATE TABLE poll (
    scope    TEXT    NOT NULL PRIMARY KEY REFERENCES scope (id) ON DELETE CASCADE,
    at       TEXT    NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

INSERT INTO poll (scope, at, checksum)
WITH
    stored AS (
        SELECT id, json_extract(body, '$.polled_at') AS at FROM scope WHERE json_valid(body)
    ),
    known AS (
        SELECT id, substr(at, 1, 19) || iif(length(at) > 20, substr(at, 20, 7), '.000000') || '+00:00' AS at
        FROM stored WHERE at GLOB '*Z'
    )
SELECT id, at, row_checksum(id, at) FROM known;

-- Leases. A row stays when its lease ends, so that the fence of a key only grows.
CREATE TABLE claim (
    key      TEXT    NOT NULL PRIMARY KEY,
    owner    TEXT    NOT NULL,
    fence    INTEGER NOT NULL,
    until    TEXT    NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
