"""What generic clients ask about resources of all types: lists of them, and their tags."""
