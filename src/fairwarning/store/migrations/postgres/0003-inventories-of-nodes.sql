-- The version of the inventory that a node has applied. Nodes that do not know this migration leave it empty.
ALTER TABLE node ADD COLUMN inventory text NOT NULL DEFAULT '';
