"""What helps when something is wrong with a data directory, by the name of the error."""

from collections.abc import Mapping

_COPY = "put a copy of the whole directory in its place, or choose another --data directory"

DATA_HINTS: Mapping[str, tuple[str, ...]] = {
    "DatabaseDamagedError": ("fairwarning doctor --data DIR checks all of it", _COPY),
    "WrongDatabaseError": (_COPY, "to go on with what is there, remove fairwarning.json from the directory"),
    "ChangedMigrationError": (_COPY,),
    "StoreFailedError": ("fairwarning doctor --data DIR says whether its disk can be written",),
    "DataDirectoryUnusableError": ("choose a directory that you may write to, on a disk with space left",),
}
