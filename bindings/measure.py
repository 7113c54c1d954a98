"""Measures the packages: `measure.py WHEEL [CALLS]`, with the Python that the wheel is installed for.

Prints a line a figure: size, import time, memory of an idle host, latency of a pure call, and what a soak of CALLS
(10,000 by default) leaves behind. Figures of a debug build say nothing about a release.

    python -m venv v && v/bin/pip install WHEEL && v/bin/python bindings/measure.py WHEEL 1000000
"""

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ECHO = str(ROOT / "example-operations/dist/echo.wasm")

WARM_UP = 500
LATENCY_CALLS = 2_000
IN_FLIGHT = 64


def resident():
    """Resident memory in KiB, and open files."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024, len(os.listdir("/proc/self/fd"))


def import_time():
    program = "import time; t = time.perf_counter(); import opcell; print(time.perf_counter() - t)"
    times = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5)]
    return statistics.median(times) * 1_000


async def throughput(host, calls):
    started = time.perf_counter()
    for _ in range(calls // IN_FLIGHT):
        await asyncio.gather(*(host.acall("echo/echo", {"n": 1}) for _ in range(IN_FLIGHT)))
    return calls // IN_FLIGHT * IN_FLIGHT / (time.perf_counter() - started)


def main(wheel, calls):
    print(f"wheel              {os.path.getsize(wheel) / 1e6:10.1f} MB")
    print(f"import             {import_time():10.1f} ms, median of 5 processes")
    import opcell

    with opcell.Host(plugins=[opcell.Plugin("echo", ECHO)]).open() as host:
        print(f"idle host          {resident()[0] / 1024:10.1f} MiB resident")
        for _ in range(WARM_UP):
            host.call("echo/echo", {"n": 1})
        times = []
        for _ in range(LATENCY_CALLS):
            started = time.perf_counter()
            host.call("echo/echo", {"n": 1})
            times.append((time.perf_counter() - started) * 1e6)
        times.sort()
        print(f"call               {statistics.median(times):10.1f} us median, {times[len(times) * 99 // 100]:.1f} us p99")
        print(f"{IN_FLIGHT} in flight       {asyncio.run(throughput(host, LATENCY_CALLS)):10.0f} calls/s")

        tracemalloc.start()
        gc.collect()
        (memory, files), (heap, _) = resident(), tracemalloc.get_traced_memory()
        for n in range(calls):
            reply = host.invoke("echo/echo", {"n": n})
            assert reply.data == {"n": n} and reply.receipt is not None
        del reply
        gc.collect()
        (memory_after, files_after), (heap_after, _) = resident(), tracemalloc.get_traced_memory()
    print(f"after {calls} calls  heap {(heap_after - heap) / 1024:+.1f} KiB, resident {memory_after - memory:+} KiB, "
          f"files {files_after - files:+}")
    # A heap that grows with the number of calls keeps something of each.
    assert heap_after - heap < 256 * 1024 and files_after <= files, "something of each call is kept"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000)
