"""Run by Alembic: applies the steps on the connection, and in the transaction, of the caller.

Or, for a caller with only an asynchronous driver, writes them down as SQL.
"""

from alembic import context

from crawlfleet.adapters.store.sql.schema import metadata

given = context.config.attributes
if context.is_offline_mode():
    context.configure(
        dialect_name=given["dialect_name"],
        target_metadata=metadata,
        version_table=given["version_table"],
        literal_binds=True,
        transactional_ddl=False,
    )
else:
    context.configure(
        connection=given["connection"],
        target_metadata=metadata,
        version_table=given["version_table"],
        render_as_batch=True,
    )
context.run_migrations()
