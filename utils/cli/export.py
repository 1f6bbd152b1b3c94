"""Export a trained voice: python -m utils.cli.export --project NAME."""

from functools import partial

from utils.bases.catalog import read_about
from utils.cli.common import progress_phases, run_command, size
from utils.config import ExportConfig
from utils.project.advice import command
from utils.project.paths import Project, open_project
from utils.runs.layout import VOICE


def _export(config: ExportConfig) -> None:
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.inference.export import export_model, export_voice

    if config.adapter:
        model, files = VOICE, [export_voice(config)]
    else:
        with progress_phases() as progress:
            model, files = None, sorted(export_model(config, progress=progress).iterdir())
    for file in files:
        print(f"{size(file.stat().st_size):>9}  {file}")
    project = open_project(config.project, config.output)
    if not config.adapter:
        print(f"It loads in: {read_about(project.ready)['loads_in']}")
    print(f"next      {_next(project, model)}")


def _next(project: Project, model: str | None = None) -> str:
    """How to speak with what was exported."""
    return command("synthesize", project=project, model=model, text="Hello.", out="hello.wav")


main = partial(run_command, ExportConfig, _export, "Put a run's weights and its base into one model folder.")
"""The command; see `utils.cli.common.run_command` for its exit statuses."""


if __name__ == "__main__":
    main()
