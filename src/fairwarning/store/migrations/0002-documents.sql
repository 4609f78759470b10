-- Texts that other rooms keep beside the fleet: what Azure's clients wrote and we only have to give back.
CREATE TABLE document (
    position INTEGER PRIMARY KEY,
    key      TEXT NOT NULL UNIQUE,
    body     TEXT NOT NULL
) STRICT;
