"""New projects: a spec, its cells and data of one's own to begin with, taken from those that ship."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from abw.core.base.errors import AbwError
from abw.core.run.workload import open_model
from abw.core.spec.keys.model import model_schema
from abw.core.spec.load import Overrides
from abw.core.spec.shipped import FOLDER


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of model to begin with: the shipped spec it is made from, and what an instance of it is.

    `more` are files beside it, by the folder of the spec, and what each is for.
    """

    spec: str
    summary: str
    instance: str
    more: Mapping[str, str] = field(default_factory=dict)


TEMPLATES: Mapping[str, Template] = {
    "chain": Template(
        "bilstm.yaml", "a tagger: two LSTMs over each sentence, from either end", "a sentence, one a line"
    ),
    "tree": Template(
        "treelstm.yaml", "a tree LSTM with scores at every node", "a bracketed tree, one a line"
    ),
    "lattice": Template(
        "lattice.yaml", "a lattice LSTM: characters, and the words that end at them", "a lattice of arcs"
    ),
    "graph": Template(
        "dag.yaml", "a recurrent network over any graph without cycles", "a JSON object, one a line"
    ),
    "classifier": Template(
        "sst.yaml",
        "a tree LSTM that learns the labels of phrases",
        "a labelled tree, one a line",
    ),
    "growing": Template(
        "seq2seq.yaml",
        "a translator with attention that grows its words one by one, and learns to",
        "a sentence and its translation, one pair a line",
    ),
    "plans": Template(
        "plans/treelstm-cost.yaml",
        "a cost model of query plans, for PostgreSQL with a database of its own",
        "a plan as EXPLAIN (FORMAT JSON) writes it",
        {
            "postgres.py": "a PostgreSQL server, random queries, sets of hints: `python postgres.py start`",
            "library.sql": "its tables and data",
            "collect.py": "runs 200 queries under hints and writes their plans: `python collect.py`",
            "choose.py": "chooses hints for new queries by the served model: `python choose.py`",
        },
    ),
}

TRAIN = """\
abw train model.yaml                    # learn weights; `abw runs` lists trainings: t1, t2
abw run model.yaml --weights t1         # run with the weights of the first one
"""
README = """# {name}

{summary}, made by `abw new {template}`.

```sh
abw check model.yaml                    # is the spec right, and what graph does its data give
abw run model.yaml --verify             # run it; compare every node with the reference
abw viz                                 # what was batched, and how
abw run model.yaml --output out.jsonl   # a line of results for each instance
{train}```

| file | what |
| --- | --- |
| `model.yaml` | the model: its types, and on which vertices of an instance they run |
{files}| `data/` | a few instances to try it on: {instance} |
| `abw.schema.json` | completion and checks for editors with a YAML language server |

Next: your own data (`data:` in `model.yaml`, or `--data FILE`), your sizes (`dims:`, or `--set \
hidden=256`), and your trained weights (`--weights FILE`; `abw weights model.yaml` says which tensors \
they must be). From Python:

```python
import abw

model = abw.load("model.yaml")
outputs = model(["an instance as it stands in the data file", ...])
```
"""


def create_project(template: str, folder: Path) -> list[Path]:
    """Write a project into a new folder, whole or not at all, or into an empty one; the files written.

    Errors: AbwError where the folder holds anything, or cannot be written.
    """
    chosen = TEMPLATES[template]
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AbwError(f"{folder} already exists", hint="name a new folder, or an empty one")
    name = folder.resolve().name
    try:
        beside = folder.resolve().parent
        beside.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=beside, prefix=".abw-new-") as draft:
            made = Path(draft) / "new"
            _fill(made, template, chosen, name)
            if folder.exists():  # it stays the same folder: somebody may be in it
                for item in sorted(made.iterdir()):
                    item.rename(folder / item.name)
            else:
                made.rename(folder)
    except OSError as error:
        raise AbwError(f"cannot write {folder}: {error.strerror}") from error
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _fill(folder: Path, template: str, chosen: Template, name: str) -> None:
    spec = FOLDER / chosen.spec
    model = open_model(spec, Overrides())
    for file in (*model.files[1:], model.data.path):
        target = folder / file.relative_to(spec.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    for extra in chosen.more:
        shutil.copyfile(spec.parent / "project" / extra, folder / extra)
    text = spec.read_text(encoding="utf-8").replace("$schema=../", "$schema=")
    words = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in name) or "model"
    valid = words if words[0].isalpha() else f"m-{words}"
    renamed = text.replace(f"model: {model.name}\n", f"model: {valid}\n")
    (folder / "model.yaml").write_text(renamed, encoding="utf-8", newline="\n")
    schema = json.dumps(model_schema(), indent=1) + "\n"
    (folder / "abw.schema.json").write_text(schema, encoding="utf-8", newline="\n")
    summary = chosen.summary[0].upper() + chosen.summary[1:]
    train = TRAIN if model.training else ""
    cells = {"cells/": "the equations of its types"} if model.files[1:] else {}
    files = "".join(f"| `{file}` | {what} |\n" for file, what in (cells | {**chosen.more}).items())
    told = README.format(
        name=name, summary=summary, template=template, instance=chosen.instance, train=train, files=files
    )
    (folder / "README.md").write_text(told, encoding="utf-8", newline="\n")
