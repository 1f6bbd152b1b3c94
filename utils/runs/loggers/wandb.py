"""Weights & Biases: curves and samples of a run in the account that `wandb login` chose; optional."""

from importlib import import_module
from pathlib import Path
from typing import Any

from utils.runs.loggers import scalars

# No requirement of this project, so that nothing but this file may need it.
wandb = import_module("wandb")


class WandbLogger:
    """See `utils.runs.loggers.Logger`; a resumed run continues the record that it began."""

    def __init__(self, run: Path, config: dict[str, Any]) -> None:
        self._folder = run
        self._run = wandb.init(
            project=config["project"], id=run.name, name=run.name, dir=str(run), config=config, resume="allow"
        )
        # Samples come some steps late, and a resumed run takes steps again: W&B's own step would refuse both.
        self._run.define_metric("*", step_metric="trainer_step")

    def event(self, kind: str, fields: dict[str, Any]) -> None:
        values: dict[str, Any] = dict(scalars(kind, fields))
        if kind == "sample":
            path = str(self._folder / fields["path"])
            values[f"sample/{fields['sentence']}"] = wandb.Audio(path, caption=fields["text"])
        if values:
            self._run.log({**values, "trainer_step": fields.get("step", 0)})

    def close(self) -> None:
        self._run.finish()
