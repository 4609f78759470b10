-- A set that is made again counts its documents on from the last one of its name, so that nobody takes one for
-- the other. What was removed before this was kept is known from the journal.
CREATE TABLE last_incarnation (
    set_id      TEXT    NOT NULL PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT;

INSERT INTO last_incarnation (set_id, incarnation, checksum)
WITH
    made AS (
        SELECT DISTINCT scope,
            coalesce(nullif(json_extract(body, '$.facts.group'), '') || '/', '')
                || json_extract(body, '$.facts.set_name') AS set_id
        FROM journal WHERE kind = 'ScopeMade' AND json_valid(body)
    ),
    shown AS (
        SELECT scope, max(json_extract(body, '$.incarnation')) AS incarnation
        FROM journal WHERE kind IN ('ScopeMade', 'Published') AND json_valid(body) GROUP BY scope
    )
SELECT set_id, max(incarnation), row_checksum(set_id, max(incarnation))
FROM made JOIN shown USING (scope) GROUP BY set_id;
