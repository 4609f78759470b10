"""What is stored, who may write it, and since which release.

Start with ``kinds``: it lists everything that is stored besides scopes. ``gate`` says what may be written
while nodes of an earlier release use the same database, and ``releases`` which releases those are. The
package imports what ``core`` may import.
"""
