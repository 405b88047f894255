"""The table of what projects have used, a row for each that used something in an hour."""

from typing import Final

from sqlalchemy import BigInteger, Column, Double, Index, Table

from crawlfleet.adapters.store.sql.columns import TEXT, metadata, number_column, real_column

usage: Final = Table(
    "crawler_usage",
    metadata,
    Column("project_id", TEXT, primary_key=True),
    Column("at", Double, primary_key=True, autoincrement=False),
    number_column("submitted"),
    number_column("completed"),
    number_column("failed"),
    number_column("cancelled"),
    number_column("attempts"),
    real_column("cpu_s"),
    real_column("run_s"),
    number_column("pages"),
    number_column("bytes"),
    number_column("peak_waiting"),
    number_column("peak_running"),
    Column("storage_bytes", BigInteger),
    sqlite_with_rowid=False,
)
Index("ix_usage_at", usage.c.at)
