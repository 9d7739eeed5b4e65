"""Publishes a run's agent or a question set: a folder with a card, which the Hugging Face hub takes as it is.

    python scripts/publish.py agent runs/il                      # published/agent: weights in float16, config, card
    python scripts/publish.py agent runs/il --results runs/eval/2026-11-25_10-00-00   # the card's table from there
    python scripts/publish.py questions ~/.cache/eqa/questions/d9a8f1e9136c.jsonl      # published/questions
    python scripts/publish.py agent runs/il --push somebody/pacman-q                   # and sends it to the hub

The package's own agent has no copy of the package's encoder:

    python scripts/publish.py agent runs/il --out models/weights/pacman_q --share models/weights/residual.safetensors

`NeuralAgent.from_pretrained("somebody/pacman-q")`, or `eval.py checkpoint=published/agent`, reads the agent again. The
package's own are models/weights/pacman_q and data/questions/published (--out). Rounding to float16 can change an action
here and there; so play the folder with eval.py, and publish again with the --results.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from huggingface_hub import HfApi

from eqa.data.questions.counts import count_file
from eqa.data.questions.published import publish_questions
from eqa.data.questions.storage import read_header
from eqa.envs.files import atomic_write
from eqa.envs.progress import console
from eqa.envs.reading import named, parsed, read_text
from eqa.models.agents.neural import NeuralAgent, share_encoder
from eqa.models.evaluation.question_tables import blind_of, overview

AGENT_CARD = """---
library_name: eqa
license: mit
tags: [embodied-question-answering, navigation, imitation-learning]
---
# {name}

The agent walks in a house that it has never seen until it can answer a question about it ("what color is the sofa in the
living room?"). `eqa` reads it; weights are float16, {megabytes:.1f} MB {with_encoder}.

```python
from eqa.models.agents.neural import NeuralAgent

agent = NeuralAgent.load("{out}")  # from_pretrained, for a repository of the hub
```

`python eval.py checkpoint={out}` plays it. It knows {words} words and {answers} answers, and frames of
{height_px}x{width_px} pixels drawn by the project's renderer. It has seen neither photographs nor people.

## How it was made

| | |
|---|---|
| command | `{command}` |
| commit | {commit} |
| seed | {seed} |
| machine | {machine} |
| time | {minutes:.0f} minutes |
| navigator, answerer, encoder | {parts} |

## What it does

{table}

Made by `{results_command}` at commit {results_commit}. Rows of walks that learned nothing stand beside it.
"""

QUESTIONS_CARD = """---
license: mit
task_categories: [visual-question-answering]
tags: [embodied-question-answering, navigation]
configs:
- config_name: default
  data_files:
{data_files}
---
# Questions about houses that one has to walk through

{total:,} questions with their answers, the poses that show them, spawns and shortest walks. Houses are procedural:
`eqa` makes them from their seeds (`{houses}`), so there is nothing else to download.
The split `human` is about homes that people designed, for testing only. A line is a question, with the fields of
`eqa.envs.episode.Episode`.

```python
import pandas

questions = pandas.read_json("train.jsonl.gz", lines=True)  # or datasets.load_dataset with this folder
```

This makes the same set; `eqa` takes this copy where it is asked for that set:

```bash
python scripts/make_questions.py{command}
```

{tables}
"""


def main() -> None:
    arguments = _arguments()
    try:
        arguments.publish(arguments)
        if arguments.push:
            api = HfApi()
            kind = "model" if arguments.publish is agent else "dataset"
            api.create_repo(arguments.push, repo_type=kind, exist_ok=True)
            api.upload_folder(repo_id=arguments.push, repo_type=kind, folder_path=arguments.out)
    except ValueError as error:
        sys.exit(f"publish: {error}")
    console.print(arguments.out, *sorted(path.name for path in arguments.out.iterdir()))


def agent(arguments: argparse.Namespace) -> None:
    """Writes weights, description and card of the agent of a run."""
    run, results = _record(arguments.source), _record(arguments.results or arguments.source)
    trained = NeuralAgent.load(arguments.source / "agent.ckpt")
    with named((table := (arguments.results or arguments.source) / "table.md"), "expected a table of results"):
        shown = re.sub(r"^#+", "###", read_text(table, "record").strip(), flags=re.MULTILINE)
    folder = trained.config.get("run_folder", str(arguments.source))
    trained.config = json.loads(json.dumps(trained.config).replace(folder, Path(folder).name))  # it exists here only
    out = arguments.out = arguments.out or Path("published/agent")
    trained.save_pretrained(out)
    if arguments.share:
        share_encoder(out, arguments.share)
    parts = trained.navigator, trained.answerer, trained.encoder
    card = AGENT_CARD.format(
        name=trained.name,
        out=out.as_posix(),
        megabytes=(out / "model.safetensors").stat().st_size / 1e6,
        with_encoder=f"beside the encoder's, {arguments.share}" if arguments.share else "with the encoder's",
        words=len(trained.vocabulary.words),
        answers=len(trained.vocabulary.answers),
        height_px=trained.encoder.height_px,
        width_px=trained.encoder.width_px,
        **{name: run[name] for name in ("command", "commit", "seed", "machine")},
        minutes=run["time_s"] / 60,
        parts=", ".join(f"{type(x).__name__} ({sum(p.numel() for p in x.parameters()):,})" for x in parts),
        table=shown,
        results_command=results["command"],
        results_commit=results["commit"],
    )
    with atomic_write(out / "README.md") as aside:
        aside.write_text(card)


def questions(arguments: argparse.Namespace) -> None:
    """Writes a question file's splits, header and card."""
    path = arguments.source
    header, counts = read_header(path), count_file(path)
    out = arguments.out = arguments.out or Path("published/questions")
    publish_questions(path, out)
    made_with, splits = header["configuration"], list(header["counts"])
    houses = made_with["made_from"]
    sizes = {"houses": houses["num_houses"], "questions": {s: n for s, n in made_with["counts"].items() if n}}
    words = [f" --{name} {' '.join(map(str, numbers.values()))}" for name, numbers in sizes.items()]
    words += [f" --set {made_with['set']} --balance {made_with['balance']}"]
    words += [f" --seed {made_with['seed']} --style {houses['house_style']}"]
    card = QUESTIONS_CARD.format(
        data_files="\n".join(f"  - {{split: {split}, path: {split}.jsonl.gz}}" for split in splits),
        total=sum(sum(of_type.values()) for of_type in header["counts"].values()),
        houses=f"{houses['houses']}, {houses['house_style']}, seed {houses['house_seed']}",
        command="".join(words),
        tables="\n".join(sheet.for_markdown() for sheet in overview(counts, blind_of(counts), header["steps"])),
    )
    with atomic_write(out / "README.md") as aside:
        aside.write_text(card)


def _record(folder: Path) -> dict:
    path = folder / "run.json"
    with named(path, "not a run's record", "name the folder of a run, such as runs/il"):
        return parsed(read_text(path, "record"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True, metavar="{agent,questions}")
    for publish, source in ((agent, "folder of a run"), (questions, "question file")):
        kind = kinds.add_parser(publish.__name__, help=publish.__doc__)
        kind.set_defaults(publish=publish)
        kind.add_argument("source", type=Path, help=source)
        kind.add_argument("--out", type=Path, help=f"default: published/{publish.__name__}")
        kind.add_argument("--push", metavar="NAME", help="repository of the hub, which is made if it is missing")
        if publish is agent:
            kind.add_argument("--results", type=Path, help="folder of eval.py, for the table (default: the run's)")
            kind.add_argument("--share", metavar="WEIGHTS", help="the package's file that has the encoder's weights")
    return parser.parse_args()


if __name__ == "__main__":
    main()
