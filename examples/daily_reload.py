"""Load a day's sales again, as often as the source corrects them: the day is replaced in one commit, once.

Run it in an empty folder: python daily_reload.py
"""

import pyarrow as pa

import rli


def reload(table: rli.Table, run: int, day: str, sales: pa.Table) -> None:
    """Replace a day; a repeat of the call with one number changes nothing. An empty day removes the day's sales."""
    done = table.overwrite_partitions(sales, partitions=[f"day={day}"], transaction=("daily", run))
    print(f"run {run}: {done.inserted=} {done.updated=} {done.deleted=} {done.repeated=}")


def sales_of(day: str, **amounts: float) -> pa.Table:
    """The sales of a day, as the source exports them."""
    return pa.table({"id": list(amounts), "day": [day] * len(amounts), "amount": list(amounts.values())})


def main() -> None:
    """Load two days, then the first one again: a sale is corrected, one is gone, one is late."""
    table = rli.create_table("sales", record_key="id", partition_by="day", hive_style=True)
    reload(table, 1, "2026-11-24", sales_of("2026-11-24", a=5.0, b=7.0))
    reload(table, 2, "2026-11-25", sales_of("2026-11-25", c=3.0))
    corrected = sales_of("2026-11-24", a=5.5, late=2.0)
    reload(table, 3, "2026-11-24", corrected)
    # The scheduler lost the answer, and runs it again.
    reload(table, 3, "2026-11-24", corrected)
    print(table.read().select(["id", "day", "amount"]).sort_by("id").to_pylist())


if __name__ == "__main__":
    main()
