"""Recordings with transcripts to a dataset: python -m utils.cli.prepare --input PATH --project NAME --language en."""

from collections.abc import Sequence

from utils.cli.common import progress_report, run_command
from utils.config import PrepareConfig
from utils.paths import open_project


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(PrepareConfig, _prepare, "Turn recordings with transcripts into a dataset.", args)


def _prepare(config: PrepareConfig) -> None:
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.dataset.build import prepare

    project = open_project(config.project, config.output)
    with progress_report("preparing clips") as report:
        result = prepare(config, progress=report)
    print(f"dataset {project.dataset}: {result.added} new clips, {result.unchanged} as before")
    print(result.table())


if __name__ == "__main__":
    main()
