-- Changes nothing: from here on a data directory may have what release 0.2 cannot read.
SELECT 1;
