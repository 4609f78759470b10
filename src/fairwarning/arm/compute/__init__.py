"""Microsoft.Compute: virtual machines, scale sets, availability sets and cloud services."""
