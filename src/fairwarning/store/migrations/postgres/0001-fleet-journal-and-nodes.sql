-- The tables of a fleet that several nodes share. Columns and checksums are those of SQLite; what differs is the
-- ledger, whose one row numbers the journal and orders all batches, and the tables for receipts and nodes.

-- One row: the number of the journal's last line, and the bytes of all lines that were ever written.
CREATE TABLE ledger (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    last    bigint  NOT NULL DEFAULT 0,
    written bigint  NOT NULL DEFAULT 0,
    -- The number of lines in a new partition of the journal.
    partition_lines bigint NOT NULL DEFAULT 100000
) WITH (fillfactor = 10);
INSERT INTO ledger DEFAULT VALUES;

-- One row: the last line of the pruned part of the journal, and the bytes of all lines that were removed.
CREATE TABLE pruning (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    mark    bigint  NOT NULL DEFAULT 0,
    removed bigint  NOT NULL DEFAULT 0
);
INSERT INTO pruning DEFAULT VALUES;

-- What is true now. "position" keeps the order of creation; an update leaves it alone.
CREATE TABLE scope (
    position    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          text   COLLATE "C" NOT NULL UNIQUE,
    set_name    text   COLLATE "C" NOT NULL,
    kind        text   COLLATE "C" NOT NULL,
    version     bigint NOT NULL,
    incarnation bigint NOT NULL,
    body        text   COLLATE "C" NOT NULL,
    stamp       bigint NOT NULL,
    checksum    bigint NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE machine (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope    text   COLLATE "C" NOT NULL REFERENCES scope (id) ON DELETE CASCADE,
    name     text   COLLATE "C" NOT NULL,
    body     text   COLLATE "C" NOT NULL,
    checksum bigint NOT NULL,
    UNIQUE (scope, name)
) WITH (fillfactor = 90);

CREATE TABLE event (
    position   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope      text   COLLATE "C" NOT NULL REFERENCES scope (id) ON DELETE CASCADE,
    id         text   COLLATE "C" NOT NULL,
    status     text   COLLATE "C" NOT NULL,
    not_before text   COLLATE "C" NOT NULL,
    barrier    text   COLLATE "C" NOT NULL,
    body       text   COLLATE "C" NOT NULL,
    checksum   bigint NOT NULL,
    UNIQUE (scope, id)
) WITH (fillfactor = 70);

-- The last poll of each scope, as text of fixed width that sorts like the instants.
CREATE TABLE poll (
    scope    text   COLLATE "C" PRIMARY KEY REFERENCES scope (id) ON DELETE CASCADE,
    at       text   COLLATE "C" NOT NULL,
    checksum bigint NOT NULL
);

-- The names of sets, with the highest incarnation among the removed scopes of the name.
CREATE TABLE fleet_set (
    set_id      text   COLLATE "C" PRIMARY KEY,
    stamp       bigint NOT NULL,
    incarnation bigint NOT NULL,
    checksum    bigint NOT NULL
);

CREATE TABLE document (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key      text   COLLATE "C" NOT NULL UNIQUE,
    body     text   COLLATE "C" NOT NULL,
    stamp    bigint NOT NULL,
    checksum bigint NOT NULL
);

-- Values about the service itself.
CREATE TABLE note (
    key      text   COLLATE "C" PRIMARY KEY,
    value    text   COLLATE "C" NOT NULL,
    checksum bigint NOT NULL
);

-- Leases. A row stays when its lease ends, so that the fence of a key only grows.
CREATE TABLE claim (
    key      text   COLLATE "C" PRIMARY KEY,
    owner    text   COLLATE "C" NOT NULL,
    fence    bigint NOT NULL,
    until    text   COLLATE "C" NOT NULL,
    checksum bigint NOT NULL
);

-- What became true. The checksum covers the columns from "at" to "stamp": the database itself gives the numbers.
CREATE TABLE journal (
    seq      bigint NOT NULL PRIMARY KEY,
    at       text   COLLATE "C" NOT NULL,
    scope    text   COLLATE "C" NOT NULL,
    version  bigint NOT NULL,
    kind     text   COLLATE "C" NOT NULL,
    event    text   COLLATE "C",
    body     text   COLLATE "C" NOT NULL,
    request  text   COLLATE "C" NOT NULL,
    stamp    bigint NOT NULL,
    ends     bigint NOT NULL,
    checksum bigint NOT NULL
) PARTITION BY RANGE (seq);
CREATE INDEX journal_event ON journal (event, seq) WHERE event IS NOT NULL;
CREATE INDEX journal_scope ON journal (scope, seq);

-- The partitions of the journal: "journal_1" has the lines from 1 to before "until".
CREATE TABLE journal_partition (
    first bigint PRIMARY KEY,
    until bigint NOT NULL
);

-- The batches that were stored, by stamp, with the numbers of their lines.
CREATE TABLE receipt (
    stamp bigint      PRIMARY KEY,
    first bigint      NOT NULL,
    last  bigint      NOT NULL,
    at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX receipt_at ON receipt (at);

-- The nodes and their last heartbeats. Nothing of this has to survive a crash of the database.
CREATE UNLOGGED TABLE node (
    id        text        COLLATE "C" PRIMARY KEY,
    name      text        NOT NULL,
    address   text        NOT NULL,
    position  bigint      NOT NULL,
    offset_us bigint      NOT NULL,
    release   text        NOT NULL,
    beat      timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Adds partitions until there is one for line "upto". ATTACH, unlike CREATE ... PARTITION OF, waits for no reader.
CREATE FUNCTION add_partitions(upto bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    start bigint := coalesce((SELECT max(until) FROM journal_partition), 1);
    size  bigint := (SELECT partition_lines FROM ledger);
BEGIN
    WHILE start <= upto LOOP
        EXECUTE format('CREATE TABLE journal_%s (LIKE journal)', start);
        EXECUTE format(
            'ALTER TABLE journal ATTACH PARTITION journal_%s FOR VALUES FROM (%s) TO (%s)',
            start, start, start + size
        );
        INSERT INTO journal_partition VALUES (start, start + size);
        start := start + size;
    END LOOP;
END $$;

SELECT add_partitions(1);

-- Tries to add the next partition before it is needed; a commit neither waits for that nor fails with it.
CREATE FUNCTION add_next_partition() RETURNS void LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
BEGIN
    PERFORM add_partitions((SELECT max(until) FROM journal_partition));
EXCEPTION WHEN OTHERS THEN
    NULL;
END $$;

-- Returns the stamps of aggregates that are not the expected ones: [[kind, name, stamp], ...]; null if there are
-- none. "expected" has the same form.
CREATE FUNCTION stale_aggregates(expected jsonb) RETURNS json STABLE LANGUAGE sql AS $$
    SELECT json_agg(json_build_array(kind, name, found)) FROM (
        SELECT e->>0 AS kind, e->>1 AS name, (e->>2)::bigint AS wanted,
            coalesce(
                CASE e->>0
                    WHEN 'scope' THEN (SELECT stamp FROM scope WHERE id = e->>1)
                    WHEN 'set' THEN (SELECT stamp FROM fleet_set WHERE set_id = e->>1)
                    ELSE (SELECT stamp FROM document WHERE key = e->>1)
                END, 0
            ) AS found
        FROM jsonb_array_elements(expected) e
    ) stamps WHERE found <> wanted
$$;

-- Writes the rows of scopes, machines, events, polls, sets and texts.
CREATE FUNCTION write_rows(batch jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF batch ? 'wiped' THEN
        DELETE FROM scope WHERE id IN (SELECT jsonb_array_elements_text(batch->'wiped'));
    END IF;
    IF batch ? 'removed_machines' THEN
        DELETE FROM machine USING jsonb_array_elements(batch->'removed_machines') r
        WHERE scope = r->>0 AND name = r->>1;
    END IF;
    IF batch ? 'removed_events' THEN
        DELETE FROM event USING jsonb_array_elements(batch->'removed_events') r
        WHERE scope = r->>0 AND id = r->>1;
    END IF;
    IF batch ? 'scopes' THEN
        INSERT INTO scope (id, set_name, kind, version, incarnation, body, stamp, checksum)
        SELECT r->>0, r->>1, r->>2, (r->>3)::bigint, (r->>4)::bigint, r->>5, (r->>6)::bigint, (r->>7)::bigint
        FROM jsonb_array_elements(batch->'scopes') WITH ORDINALITY rows(r, number) ORDER BY number
        ON CONFLICT (id) DO UPDATE SET
            set_name = excluded.set_name, kind = excluded.kind, version = excluded.version,
            incarnation = excluded.incarnation, body = excluded.body, stamp = excluded.stamp,
            checksum = excluded.checksum;
    END IF;
    IF batch ? 'machines' THEN
        INSERT INTO machine (scope, name, body, checksum)
        SELECT r->>0, r->>1, r->>2, (r->>3)::bigint
        FROM jsonb_array_elements(batch->'machines') WITH ORDINALITY rows(r, number) ORDER BY number
        ON CONFLICT (scope, name) DO UPDATE SET body = excluded.body, checksum = excluded.checksum;
    END IF;
    IF batch ? 'events' THEN
        INSERT INTO event (scope, id, status, not_before, barrier, body, checksum)
        SELECT r->>0, r->>1, r->>2, r->>3, r->>4, r->>5, (r->>6)::bigint
        FROM jsonb_array_elements(batch->'events') WITH ORDINALITY rows(r, number) ORDER BY number
        ON CONFLICT (scope, id) DO UPDATE SET
            status = excluded.status, not_before = excluded.not_before, barrier = excluded.barrier,
            body = excluded.body, checksum = excluded.checksum;
    END IF;
    IF batch ? 'polls' THEN
        INSERT INTO poll (scope, at, checksum)
        SELECT id, r->>1, (r->>2)::bigint
        FROM jsonb_array_elements(batch->'polls') r JOIN scope ON id = r->>0
        ON CONFLICT (scope) DO UPDATE SET at = excluded.at, checksum = excluded.checksum
        WHERE excluded.at > poll.at;
    END IF;
    IF batch ? 'sets' THEN
        INSERT INTO fleet_set (set_id, stamp, incarnation, checksum)
        SELECT r->>0, (r->>1)::bigint, (r->>2)::bigint, (r->>3)::bigint
        FROM jsonb_array_elements(batch->'sets') r
        ON CONFLICT (set_id) DO UPDATE SET
            stamp = excluded.stamp, incarnation = excluded.incarnation, checksum = excluded.checksum;
    END IF;
    IF batch ? 'removed_texts' THEN
        DELETE FROM document WHERE key IN (SELECT jsonb_array_elements_text(batch->'removed_texts'));
    END IF;
    IF batch ? 'texts' THEN
        INSERT INTO document (key, body, stamp, checksum)
        SELECT r->>0, r->>1, (r->>2)::bigint, (r->>3)::bigint
        FROM jsonb_array_elements(batch->'texts') WITH ORDINALITY rows(r, number) ORDER BY number
        ON CONFLICT (key) DO UPDATE SET
            body = excluded.body, stamp = excluded.stamp, checksum = excluded.checksum;
    END IF;
END $$;

-- The bytes that a journal line counts for.
CREATE FUNCTION line_bytes(body text) RETURNS bigint IMMUTABLE LANGUAGE sql AS $$
    SELECT octet_length(body)::bigint + 250
$$;

-- Stores a batch, or none of it. The answer is one of
--   {"first": ..., "last": ...}   the numbers of the lines of the batch, stored now or before
--   {"stale": ..., "last": ...}   the batch was decided on a state that has changed
--   {"ahead": ...}                the batch was decided so many seconds in the future
-- The row of the ledger is locked by a statement of its own: the statements after it see what was committed
-- while it waited.
CREATE FUNCTION commit_batch(sent text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    batch jsonb := sent::jsonb;
    added bigint := jsonb_array_length(batch->'lines');
    book  ledger;
    known receipt;
    stale json;
    ahead double precision;
    room  bigint;
    bytes bigint;
BEGIN
    SELECT * INTO book FROM ledger FOR UPDATE;
    SELECT * INTO known FROM receipt WHERE stamp = (batch->>'stamp')::bigint;
    IF FOUND THEN
        RETURN json_build_object('first', known.first, 'last', known.last);
    END IF;
    ahead := extract(epoch FROM (batch->>'at')::timestamptz - clock_timestamp());
    IF ahead > 1 THEN
        RETURN json_build_object('ahead', ahead);
    END IF;
    stale := stale_aggregates(batch->'expected');
    IF stale IS NOT NULL OR (batch->>'position')::bigint <> book.last THEN
        RETURN json_build_object('stale', coalesce(stale, '[]'), 'last', book.last);
    END IF;
    SELECT max(until) INTO room FROM journal_partition;
    IF book.last + added >= room THEN
        PERFORM add_partitions(book.last + added);
    ELSIF book.last + added >= room - book.partition_lines / 2 THEN
        PERFORM add_next_partition();
    END IF;
    PERFORM write_rows(batch);
    WITH line AS (
        INSERT INTO journal (at, scope, version, kind, event, body, request, stamp, checksum, seq, ends)
        SELECT r->>0, r->>1, (r->>2)::bigint, r->>3, r->>4, r->>5, r->>6, (r->>7)::bigint, (r->>8)::bigint,
            book.last + number, book.last + added
        FROM jsonb_array_elements(batch->'lines') WITH ORDINALITY rows(r, number)
        RETURNING line_bytes(body) AS size
    )
    SELECT coalesce(sum(size), 0) INTO bytes FROM line;
    UPDATE ledger SET last = last + added, written = written + bytes;
    DELETE FROM receipt WHERE stamp = ANY (ARRAY(
        SELECT stamp FROM receipt WHERE at < clock_timestamp() - interval '1 day' ORDER BY at LIMIT 100
    ));
    INSERT INTO receipt (stamp, first, last)
    VALUES ((batch->>'stamp')::bigint, book.last + 1, book.last + added);
    NOTIFY fairwarning;
    RETURN json_build_object('first', book.last + 1, 'last', book.last + added);
END $$;

-- Removes the oldest lines that nothing needs, and returns how many it has looked at. "before" is null or an
-- instant as in the column "at".
CREATE FUNCTION prune_journal(before text, most bigint, keep text[], spare bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    start bigint;
    stop  bigint;
    bytes bigint;
BEGIN
    SELECT mark INTO start FROM pruning FOR UPDATE;
    SELECT coalesce(max(seq), start) INTO stop FROM (
        SELECT seq, bool_and(before IS NULL OR at < before COLLATE "C") OVER (ORDER BY seq) AS older FROM (
            SELECT seq, at FROM journal
            WHERE seq > start AND seq <= (SELECT last FROM ledger) - greatest(spare, 1)
            ORDER BY seq LIMIT most
        ) oldest
    ) examined WHERE older;
    WITH gone AS (
        DELETE FROM journal WHERE seq <= stop AND (
            event IS NULL OR (
                NOT EXISTS (SELECT FROM event pending WHERE pending.id = journal.event)
                AND event <> ALL (keep)
            )
        ) RETURNING line_bytes(body) AS size
    )
    SELECT coalesce(sum(size), 0) INTO bytes FROM gone;
    UPDATE pruning SET mark = stop, removed = removed + bytes;
    RETURN stop - start;
END $$;

-- Drops partitions of the pruned part that have no lines left, unless a reader is in the way.
CREATE FUNCTION drop_empty_partitions() RETURNS bigint LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    part    journal_partition;
    empty   boolean;
    dropped bigint := 0;
BEGIN
    FOR part IN
        SELECT * FROM journal_partition WHERE until <= (SELECT mark FROM pruning) ORDER BY first FOR UPDATE
    LOOP
        EXECUTE format('SELECT NOT EXISTS (SELECT FROM journal_%s)', part.first) INTO empty;
        IF empty THEN
            EXECUTE format('DROP TABLE journal_%s', part.first);
            DELETE FROM journal_partition WHERE first = part.first;
            dropped := dropped + 1;
        END IF;
    END LOOP;
    RETURN dropped;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END $$;
