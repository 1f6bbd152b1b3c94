"""Pack a dataset into shards: python -m utils.cli.shards --project NAME."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from utils.cli.common import progress_phases, run_command
from utils.config import Config
from utils.project import advice
from utils.project.paths import open_project


@dataclass(frozen=True, kw_only=True)
class ShardsConfig(Config):
    """Pack the recordings of a dataset into shards."""

    project: str
    """Name of the voice; its folder below `output`."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    train_csv: Path | None = None
    """Training clips; the project's metadata_train.csv when not given."""
    eval_csv: Path | None = None
    """Evaluation clips; the project's metadata_eval.csv when not given."""
    folder: Path | None = None
    """Where the shards are put; the project's dataset/shards when not given."""
    shard_clips: int = 1_000
    """Recordings in a shard."""

    def problems(self) -> list[str]:
        return [f"shard_clips is {self.shard_clips}; use 1 or more"] if self.shard_clips < 1 else []


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(ShardsConfig, _shards, "Pack the recordings of a dataset into shards, to be trained from.", args)


def _shards(config: ShardsConfig) -> None:
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.dataset.storage.shards import pack

    project = open_project(config.project, config.output)
    csvs = {"train": config.train_csv or project.train_csv, "evaluate": config.eval_csv or project.eval_csv}
    folder = config.folder or project.dataset / "shards"
    with progress_phases() as phases:
        packed = pack(csvs, folder, shard_clips=config.shard_clips, progress=phases)
    print(f"{folder}: {packed.clips} clips in {packed.shards} shards, {packed.num_bytes / 1e9:.2f} GB")
    train_csv, eval_csv = (packed.manifests[name] for name in ("train", "evaluate"))
    print(f"train from them: {advice.command('train', project=project, train_csv=train_csv, eval_csv=eval_csv)}")


if __name__ == "__main__":
    main()
