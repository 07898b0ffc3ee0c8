"""Rates of a machine, as they were measured once: tests of the model do not depend on the machine they run on."""

from __future__ import annotations

from typing import Final

from rli.advice.calibration import VERSION, Calibration, StoreRates

REDIS_URL: Final = "redis://localhost:6379/0?name=advice"

RATES: Final = Calibration(
    version=VERSION,
    machine="a laptop of two cores",
    open_file=1.0e-3,
    key_row=1.1e-7,
    key_byte=2.7e-9,
    join_key=4.7e-7,
    filter_row=9.0e-9,
    test_key=8.0e-8,
    hash_key=8.0e-7,
    hfile_block=1.5e-4,
    hfile_cell=7.0e-7,
    put_cell=1.2e-6,
    commit=0.05,
    write_file=7.0e-3,
    write_row=1.9e-6,
    write_byte=2.5e-9,
    cores=2,
    stores={
        "lmdb": StoreRates(6.0e-4, 1.3e-6, 0.02, 3.5e-6),
        "memory": StoreRates(3.0e-4, 1.8e-6, 0.005, 2.0e-6),
        REDIS_URL: StoreRates(1.0e-3, 2.5e-6, 0.03, 6.0e-6),
    },
)
