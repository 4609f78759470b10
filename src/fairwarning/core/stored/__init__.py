"""What is stored, and since which release.

``releases`` says what may be written while nodes of an earlier release use the same database.
"""
