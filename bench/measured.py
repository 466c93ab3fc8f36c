#!/usr/bin/env python3
"""Stands in a provider's place for one measured run: starts the provider (BENCH_PROVIDER), and appends its CPU time and the
peak of its resident memory to BENCH_REPORT when it ends.

Why not from outside: a provider's CPU time is lost when core reaps it, and ru_maxrss of a child counts its parent's memory
at the fork. VmHWM of the child, read until it ends, is its own.
"""
import os
import sys
import time

child = os.fork()
if child == 0:
    os.execv(os.environ["BENCH_PROVIDER"], [os.environ["BENCH_PROVIDER"], *sys.argv[1:]])
os.close(1)  # the handshake line is the provider's to write, and its end the provider's to see
import signal  # noqa: E402  (after the fork: nothing of this is in the child)

for name in (signal.SIGINT, signal.SIGTERM):
    signal.signal(name, lambda number, _: os.kill(child, number))
peak = 0
while True:
    try:
        with open(f"/proc/{child}/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    peak = int(line.split()[1])  # the last reading: it only grows, and starts anew at exec
    except OSError:
        pass
    done, code, used = os.wait4(child, os.WNOHANG)
    if done:
        break
    time.sleep(0.002)
report = os.open(os.environ["BENCH_REPORT"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(report, f"{used.ru_utime + used.ru_stime:.6f} {peak}\n".encode())
sys.exit(os.waitstatus_to_exitcode(code) & 0xFF)
