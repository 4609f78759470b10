"""The pages of the console: what each shows, and what its forms do."""
