"""Flags that choose tasks: the same for looking at them and for ordering them about."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

Status = Annotated[
    list[str] | None,
    typer.Option(help="Only tasks in this state; may be repeated, or parted by commas."),
]
Project = Annotated[str | None, typer.Option(help="Only tasks of this project.")]
Cluster = Annotated[str | None, typer.Option(help="Only tasks of this cluster.")]
Type = Annotated[str | None, typer.Option("--type", help="Only tasks of this type.")]
Node = Annotated[str | None, typer.Option(help="Only tasks on this node.")]
Workflow = Annotated[str | None, typer.Option(help="Only tasks of this workflow.")]
Parent = Annotated[str | None, typer.Option(metavar="ID", help="Only the shards of this task.")]
Dead = Annotated[bool, typer.Option("--dead", help="Only the dead-letter list.")]


def chosen(
    status: Iterable[str] | None,
    project: str | None,
    type: str | None,
    node: str | None,
    workflow: str | None,
    dead: bool,
    parent: str | None = None,
    *,
    cluster: str | None = None,
) -> dict[str, Any]:
    """The API's filter; empty when no flag was given."""
    states = [name.strip() for part in status or () for name in part.split(",") if name.strip()]
    given = {
        "status": states,
        "project_id": project,
        "cluster_id": cluster,
        "task_type": type,
        "assigned_node": node,
        "workflow_id": workflow,
        "dead": dead,
        "parent_id": parent,
    }
    return {name: value for name, value in given.items() if value}


def as_query(filter: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filter as parameters of a query string."""
    query = {name: str(value) for name, value in filter.items() if isinstance(value, str)}
    if "status" in filter:
        query["status"] = ",".join(filter["status"])
    if "dead" in filter:
        query["dead"] = "true"
    return query
