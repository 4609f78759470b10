-- The newest schema that a node knows. Nodes that do not know this migration leave it at 0.
ALTER TABLE node ADD COLUMN reads int NOT NULL DEFAULT 0;

-- Raises unless a node that knows a schema may use the database. The code makes a node connect again, and its
-- connection tells it that only a newer version can use the database.
CREATE FUNCTION check_reader(known int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF known < (SELECT readable_from FROM meta) THEN
        RAISE EXCEPTION 'only a newer version can use the database' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;

ALTER FUNCTION commit_batch(text) RENAME TO store_batch;

-- Stores a batch of a node that knows a schema, or none of it.
CREATE FUNCTION commit_batch(sent text, known int) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
    PERFORM check_reader(known);
    RETURN store_batch(sent);
END $$;

-- Stores a batch of a node that does not know this migration.
CREATE FUNCTION commit_batch(sent text) RETURNS json LANGUAGE sql AS $$
    SELECT commit_batch(sent, 3)
$$;
