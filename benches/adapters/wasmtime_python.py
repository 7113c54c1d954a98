#!/usr/bin/env python3
"""Adapter of `opcell selftest --against`: the engine's own Python package, configured as its documentation advises for untrusted code.

    pip install wasmtime
    opcell selftest --against "python3 benches/adapters/wasmtime_python.py"

Epoch interruption stops loops (its clock is a thread), a store limiter bounds memories and tables, output goes to a file of the host that is
watched while the guest runs. Neither a wait inside of a host function nor the compiler is interrupted by epochs, so a second thread ends the
process when the deadline is long over, or when it has grown too large: that is how an embedder of this package must do it.
"""
import os
import sys
import tempfile
import threading
import time

import wasmtime

STOPPED = 10


def stop(reason: str) -> None:
    print(reason, file=sys.stderr, flush=True)
    os._exit(STOPPED)


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def main() -> None:
    most = resident() + int(os.environ["SELFTEST_MEMORY_BYTES"]) + (64 << 20)
    seconds = int(os.environ["SELFTEST_TIME_MS"]) / 1000
    config = wasmtime.Config()
    config.epoch_interruption = True
    engine = wasmtime.Engine(config)
    output = os.path.join(tempfile.mkdtemp(), "output")

    def watch() -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if resident() > most:
                stop("the process was ended: it had grown too large")
            if os.path.exists(output) and os.path.getsize(output) > int(os.environ["SELFTEST_OUTPUT_BYTES"]):
                break
            time.sleep(0.01)
        engine.increment_epoch()
        time.sleep(seconds)
        stop("the process was ended: the guest was still in a host function, or in the compiler")

    threading.Thread(target=watch, daemon=True).start()
    module = wasmtime.Module.from_file(engine, os.environ["SELFTEST_MODULE"])
    store = wasmtime.Store(engine)
    store.set_limits(
        memory_size=int(os.environ["SELFTEST_MEMORY_BYTES"]),
        table_elements=int(os.environ["SELFTEST_TABLE_ELEMENTS"]),
        instances=10,
        tables=10,
        memories=10,
    )
    wasi = wasmtime.WasiConfig()
    wasi.stdout_file = output
    if os.environ["SELFTEST_DIRECTORY"]:
        wasi.preopen_dir(os.environ["SELFTEST_DIRECTORY"], "/")
    store.set_wasi(wasi)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    store.set_epoch_deadline(1)
    try:
        instance = linker.instantiate(store, module)
        instance.exports(store)[os.environ["SELFTEST_FUNCTION"]](store)
    except Exception as error:  # Traps and link errors alike end the guest.
        stop(str(error).strip().splitlines()[-1])
    os._exit(0)


main()
