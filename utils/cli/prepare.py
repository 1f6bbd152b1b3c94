"""Recordings with transcripts to a dataset: python -m utils.cli.prepare --input PATH --project NAME --language en."""

from dataclasses import dataclass
from functools import partial

from utils.cli.common import StageFlags, progress_phases, run_command
from utils.dataset.settings import PrepareConfig
from utils.options import STARTER
from utils.project.advice import command
from utils.project.paths import open_project


@dataclass(frozen=True, kw_only=True)
class PrepareCommand(StageFlags, PrepareConfig):
    """Turn recordings with transcripts into a dataset."""


def _prepare(given: PrepareCommand) -> None:
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.bases.download import fetch_base
    from utils.dataset.build import prepare
    from utils.dataset.sources.read import require_inputs

    config = given.settings_of(PrepareConfig)
    project = open_project(config.project, config.output)
    # Before a download, which takes long.
    require_inputs((config.input, *config.also))
    with progress_phases() as phases:
        fetch_base(config.base, accept_license=given.accept_license, progress=phases)
        # Shown from now on: long recordings are read, and perhaps transcribed, before the first clip.
        phases("preparing clips", 0, None)
        result = prepare(config, progress=phases)
    print(f"dataset {project.dataset}: {result.added} new clips, {result.unchanged} as before")
    print(result.table())
    if result.used:
        print(f"next  {command('train', project=project, base=None if config.base == STARTER else config.base)}")


main = partial(run_command, PrepareCommand, _prepare, "Turn recordings with transcripts into a dataset.")
"""The command; see `utils.cli.common.run_command` for its exit statuses."""


if __name__ == "__main__":
    main()
