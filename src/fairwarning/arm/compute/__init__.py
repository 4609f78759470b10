"""Virtual machines and their sets: what Microsoft.Compute answers."""
