"""Processes whose wall clock is wrong: a preloaded library adds an offset that tests may change at any time.

The library shifts ``CLOCK_REALTIME`` for one process and everything in it. Monotonic clocks, and with them
timeouts, stay as they are. The offset is in a file that the processes have mapped.
"""

import struct
import subprocess
from datetime import timedelta
from pathlib import Path

_SOURCE = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile const long long *offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("SKEWED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) offset = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long total = now->tv_sec * SECOND + now->tv_nsec + *offset;
        now->tv_sec = total / SECOND;
        now->tv_nsec = total % SECOND;
    }
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (out) *out = precise.tv_sec;
    return precise.tv_sec;
}
"""


class SkewedClock:
    """The wall clock of the processes that are started with its environment."""

    def __init__(self, library: Path, path: Path) -> None:
        self._library = library
        self._path = path
        self.offset = timedelta(0)
        path.write_bytes(struct.pack("=q", 0))

    @property
    def environment(self) -> dict[str, str]:
        """The variables that give a process this clock."""
        return {"LD_PRELOAD": str(self._library), "SKEWED_CLOCK": str(self._path)}

    def set(self, offset: timedelta) -> None:
        """Put the clock ahead of the true time, or behind."""
        self.offset = offset
        with self._path.open("r+b") as file:  # the file is mapped: it must stay the same file
            file.write(struct.pack("=q", int(offset.total_seconds() * 1e9)))


def build_library(folder: Path) -> Path:
    """Compile the library; needs gcc and the headers of the C library."""
    source, library = folder / "skewed_clock.c", folder / "skewed_clock.so"
    source.write_text(_SOURCE)
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60
    )
    return library
