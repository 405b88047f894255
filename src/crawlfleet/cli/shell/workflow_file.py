"""Workflow documents as people keep them: YAML or JSON, in a file or on standard input."""

import sys
from pathlib import Path
from typing import Any

import typer
import yaml

from crawlfleet.cli.shell.arguments import STANDARD_INPUT
from crawlfleet.core.text.nesting import MAX_NESTING


class _Strict(yaml.SafeLoader):  # type: ignore[misc]
    """Says so when a name stands twice, where YAML would take the last and say nothing."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose the next node and those within it; raises an error when they are nested too
        deep."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise yaml.composer.ComposerError(None, None, "it is nested too deep")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _mapping(loader: _Strict, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            # The one word of YAML 1.1 that is often meant: `on` is true there.
            key = "on" if key is True else str(key)
        if key in seen:
            line = key_node.start_mark.line + 1
            raise yaml.constructor.ConstructorError(
                None, None, f"line {line}: {key!r} stands twice"
            )
        seen.add(key)
    made = yaml.SafeLoader.construct_mapping(loader, node, deep=True)
    return {"on" if key is True else str(key): value for key, value in made.items()}


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
# Dates stay the texts that they are: JSON has none.
_Strict.add_constructor(
    "tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node)
)


def read_yaml(source: str) -> Any:
    """Parse a file of YAML or JSON, or standard input (`-`). Raises `BadParameter` when it cannot
    be read."""
    try:
        text = sys.stdin.read() if source == STANDARD_INPUT else Path(source).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot be read: {error}", param_hint=source) from None
    try:
        return yaml.load(text, Loader=_Strict)  # noqa: S506 (a SafeLoader)
    except yaml.YAMLError as error:
        told = " ".join(str(error).split())
        raise typer.BadParameter(f"is neither YAML nor JSON: {told}", param_hint=source) from None


def read_document(source: str) -> dict[str, Any]:
    """The document of a file, or of standard input (`-`)."""
    document = read_yaml(source)
    if not isinstance(document, dict):
        raise typer.BadParameter("has no `name` and `steps`", param_hint=source)
    return document
