"""What Azure calls machines and sets, and how it reads JSON."""
