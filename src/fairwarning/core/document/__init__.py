"""The document that a guest reads: api-versions, rendering, parsing, recordings and curl snippets."""
