-- Every row carries a checksum of its columns, made by the row_checksum() of whoever writes it.
ALTER TABLE scope    ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE machine  ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE event    ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE document ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE note     ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;
ALTER TABLE journal  ADD COLUMN checksum INTEGER NOT NULL DEFAULT -1;

UPDATE scope    SET checksum = row_checksum(id, set_name, kind, version, incarnation, body);
UPDATE machine  SET checksum = row_checksum(scope, name, body);
UPDATE event    SET checksum = row_checksum(scope, id, status, not_before, barrier, body);
UPDATE document SET checksum = row_checksum(key, body);
UPDATE note     SET checksum = row_checksum(key, value);
UPDATE journal  SET checksum = row_checksum(seq, at, scope, version, kind, event, body);

-- Which database this is, how often it was written and where its journal ends: a file beside it says the same.
CREATE TABLE header (
    database  TEXT    NOT NULL PRIMARY KEY,
    commits   INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    checksum  INTEGER NOT NULL
) STRICT;

INSERT INTO header
SELECT lower(hex(randomblob(16))), 0, coalesce(max(seq), 0), -1 FROM journal;
UPDATE header SET checksum = row_checksum(database, commits, last_line);
