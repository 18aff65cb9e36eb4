"""`abw schema`: the JSON Schema of spec files, for editors."""

from __future__ import annotations

from abw.cli import options
from abw.cli.console import print_json


def schema(output: options.Output) -> None:
    """Print the JSON Schema of spec files: `abw schema > abw.schema.json`.

    An editor with a YAML language server completes and checks a spec that begins with the line
    `# yaml-language-server: $schema=abw.schema.json`.
    """
    from abw.core.spec.keys.document import model_schema

    output.give(model_schema(), print_json)
