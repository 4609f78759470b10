"""The document that a guest reads: its api-versions, rendered, parsed, recorded, and asked for with curl."""
