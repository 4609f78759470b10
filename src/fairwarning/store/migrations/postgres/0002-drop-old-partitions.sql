-- A partition whose lines are all too old is dropped as a whole, instead of line by line. Nodes that do not know this
-- migration prune through the same functions.

-- The time of the newest line of a full partition; null until a pruning has looked.
ALTER TABLE journal_partition ADD COLUMN newest text COLLATE "C";

-- Pruning asks for each line whether its event is pending.
CREATE INDEX event_id ON event (id);

-- Drops the oldest partition that has lines if all of them are older than "before", nothing needs them and no reader is
-- in the way. Returns the number of lines by which the pruned part has grown. Everything waits for the lock that a drop
-- takes, so one partition is dropped at a time, after all questions about its lines.
CREATE FUNCTION drop_old_partition(before text, keep text[], spare bigint) RETURNS bigint
LANGUAGE plpgsql SET lock_timeout = '20ms' AS $$
DECLARE
    part   journal_partition;
    start  bigint;
    needed boolean;
    bytes  bigint;
BEGIN
    SELECT mark INTO start FROM pruning FOR UPDATE;
    SELECT * INTO part FROM journal_partition
    WHERE until > start + 1 AND until <= (SELECT last FROM ledger) - greatest(spare, 1) + 1
    ORDER BY first LIMIT 1 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    IF part.newest IS NULL THEN
        EXECUTE format('SELECT max(at) FROM journal_%s', part.first) INTO part.newest;
        UPDATE journal_partition SET newest = part.newest WHERE first = part.first;
    END IF;
    IF part.newest >= before COLLATE "C" THEN
        RETURN 0;
    END IF;
    EXECUTE format(
        'SELECT EXISTS (
            SELECT FROM journal_%s line WHERE event IS NOT NULL
            AND (event = ANY ($1) OR EXISTS (SELECT FROM event pending WHERE pending.id = line.event))
        )', part.first
    ) INTO needed USING keep;
    IF needed THEN
        RETURN 0;
    END IF;
    EXECUTE format('SELECT coalesce(sum(line_bytes(body)), 0) FROM journal_%s', part.first) INTO bytes;
    EXECUTE format('DROP TABLE journal_%s', part.first);
    DELETE FROM journal_partition WHERE first = part.first;
    UPDATE pruning SET mark = part.until - 1, removed = removed + bytes;
    RETURN part.until - 1 - start;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END $$;

-- A drop that waits holds up all that comes after it, so it gives up soon: the next pruning tries again.
ALTER FUNCTION drop_empty_partitions() SET lock_timeout = '20ms';

ALTER FUNCTION prune_journal(text, bigint, text[], bigint) RENAME TO prune_lines;

-- Removes the oldest lines that nothing needs: a whole partition if it is too old, or else at most "most" lines.
CREATE FUNCTION prune_journal(before text, most bigint, keep text[], spare bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    dropped bigint := CASE WHEN before IS NULL THEN 0 ELSE drop_old_partition(before, keep, spare) END;
BEGIN
    RETURN CASE WHEN dropped > 0 THEN least(dropped, most) ELSE prune_lines(before, most, keep, spare) END;
END $$;
