#!/usr/bin/env python3
"""A device whose flush takes so many milliseconds, mounted until Ctrl-C.

Boards and SD cards need 2 to 30 ms for a flush, a server's disk a tenth of one. What several processes gain by sharing a
flush is measured here, on any machine: a file behind FUSE that sleeps in fsync, a loop device on that file, ext4 on the device.

    sudo apt install python3-fusepy fuse3
    sudo python3 bench/slow_device.py 5 /mnt/slow &
    litefoot bench members --dir /mnt/slow

Needs root. Nothing is left behind: the file has no name, and Ctrl-C, or SIGTERM, unmounts.
"""

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

try:
    import fuse
except ImportError:
    import fusepy as fuse

BYTES = 512 << 20
NAME = "/device"


class SlowFile(fuse.Operations):
    """One file; a flush of it takes the time."""

    def __init__(self, file, seconds):
        self.file, self.seconds = file, seconds

    def getattr(self, path, _handle=None):
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
        if path == NAME:
            return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": BYTES}
        raise fuse.FuseOSError(errno.ENOENT)

    def readdir(self, _path, _handle):
        return [".", "..", NAME[1:]]

    def open(self, _path, _flags):
        return self.file

    def read(self, _path, size, offset, _handle):
        return os.pread(self.file, size, offset)

    def write(self, _path, data, offset, _handle):
        return os.pwrite(self.file, data, offset)

    def fsync(self, _path, _data_only, _handle):
        time.sleep(self.seconds)

    def flush(self, _path, _handle):
        pass


def main():
    try:
        milliseconds, where = float(sys.argv[1]), sys.argv[2]
    except (IndexError, ValueError):
        sys.exit("slow_device.py: how long does a flush take, and where is the device mounted?\n" + __doc__)
    os.makedirs(where, exist_ok=True)
    # A file without a name.
    backing = tempfile.TemporaryFile()
    backing.truncate(BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", f"/proc/{os.getpid()}/fd/{backing.fileno()}"], check=True)
    operations = SlowFile(backing.fileno(), milliseconds / 1000)
    folder = tempfile.mkdtemp(prefix="slow-device-")
    options = {"foreground": True, "max_write": 131072, "big_writes": True}
    threading.Thread(target=fuse.FUSE, args=(operations, folder), kwargs=options, daemon=True).start()
    end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end.set())
    try:
        while not os.path.exists(folder + NAME) and not end.wait(0.05):
            pass
        subprocess.run(["mount", "-o", "loop", folder + NAME, where], check=True)
        print(f"{where}: a flush takes {milliseconds:g} ms; Ctrl-C unmounts it", flush=True)
        end.wait()
        subprocess.run(["umount", where], check=True)
    finally:
        subprocess.run(["umount", "-l", folder], check=False)
        os.rmdir(folder)


if __name__ == "__main__":
    main()
