"""Export a trained voice: python -m utils.cli.export --project NAME."""

from collections.abc import Sequence

from utils.bases.catalog import read_about
from utils.cli.common import progress_phases, run_command, size
from utils.config import ExportConfig
from utils.project.advice import command
from utils.project.paths import Project, open_project
from utils.runs.layout import VOICE


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(ExportConfig, _export, "Put a run's weights and its base into one model folder.", args)


def _export(config: ExportConfig) -> None:
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.inference.export import export_model, export_voice

    if config.adapter:
        voice = export_voice(config)
        print(f"{size(voice.stat().st_size):>9}  {voice}")
        print(f"next      {_next(open_project(config.project, config.output), VOICE)}")
        return
    with progress_phases() as progress:
        ready = export_model(config, progress=progress)
    for file in sorted(ready.iterdir()):
        print(f"{size(file.stat().st_size):>9}  {file}")
    print(f"It loads in: {read_about(ready)['loads_in']}")
    print(f"next      {_next(open_project(config.project, config.output))}")


def _next(project: Project, model: str | None = None) -> str:
    """How to speak with what was exported."""
    return command("synthesize", project=project, model=model, text="Hello.", out="hello.wav")


if __name__ == "__main__":
    main()
