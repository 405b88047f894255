"""Run by Alembic: applies the steps on the connection, and in the transaction, of the caller."""

from alembic import context

from crawlfleet.backends.sql.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
context.run_migrations()
