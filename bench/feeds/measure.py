"""Parsing and diffing with feedparser: prints the median in microseconds, the entries, and how many of them are new."""

import sys
import time

import feedparser

WARM_UP = 2
ROUNDS = 15

with open(sys.argv[1], "rb") as file:
    body = file.read()


def key(entry):
    return entry.get("id") or entry.get("link")


known = {key(entry) for entry in feedparser.parse(body).entries[1:]}
times = []
entries = fresh = 0
for round_ in range(WARM_UP + ROUNDS):
    started = time.perf_counter()
    feed = feedparser.parse(body)
    entries = len(feed.entries)
    fresh = sum(1 for entry in feed.entries if key(entry) not in known)
    if round_ >= WARM_UP:
        times.append((time.perf_counter() - started) * 1e6)
times.sort()
print(times[len(times) // 2], entries, fresh)
