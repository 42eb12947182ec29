"""How a program of `litefoot bench apps` talks with the driver, which reads the device's counters in between.

    program PATTERN FILE COMMITS WARMUP JOURNAL SYNCHRONOUS

It makes WARMUP commits, prints `ready` and waits for a line; makes COMMITS more, prints `done SECONDS`, what litefoot
says of its commits as `figure NAME VALUE`, and `end`; waits for a line, closes its database, and ends.
"""

import sys
import time
from collections import Counter

# A pattern that opens many connections asks each of so many about its commits, so that asking costs nothing.
SAMPLE = 8

QUESTION = """
    SELECT name, value FROM litefoot_stats
    WHERE name LIKE 'commits!_%' ESCAPE '!' OR name LIKE '%!_syncs' ESCAPE '!' OR name LIKE '%!_block_bytes' ESCAPE '!'
"""


class Workload:
    """A pattern: `commit` makes exactly one transaction. Both sides make the same, so numbers are all it depends on."""

    def __init__(self, file, journal, synchronous):
        self.file = file
        self.pragmas = (f"PRAGMA journal_mode = {journal}", f"PRAGMA synchronous = {synchronous}")
        # From connections that were closed.
        self.sampled = Counter()

    def commit(self, number):
        raise NotImplementedError

    def ask(self, question):
        """The rows that the application's own connection answers; an error where there is no such table."""
        return []

    def figures(self):
        try:
            return Counter(dict(self.ask(QUESTION))) + self.sampled
        except Exception:  # Each library has its own: no litefoot_stats without litefoot, no answer once closed.
            return self.sampled.copy()

    def sample(self, number):
        """Before a connection is closed."""
        if number % SAMPLE == 0:
            self.sampled = self.figures()

    def close(self):
        pass


def wait():
    # Without a driver there is nothing left to do.
    if not sys.stdin.readline():
        sys.exit(1)


def main(patterns):
    pattern, file, commits, warmup, journal, synchronous = sys.argv[1:]
    commits, warmup = int(commits), int(warmup)
    workload = patterns[pattern](file, journal, synchronous)
    for number in range(warmup):
        workload.commit(number)
    before = workload.figures()
    print("ready", flush=True)
    wait()
    begun = time.perf_counter()
    for number in range(warmup, warmup + commits):
        workload.commit(number)
    took = time.perf_counter() - begun
    print("done", took, flush=True)
    after = workload.figures()
    after.subtract(before)
    for name, value in after.items():
        print("figure", name, value)
    print("end", flush=True)
    wait()
    workload.close()
