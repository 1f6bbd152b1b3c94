"""Export a trained voice: python -m utils.cli.export --project NAME."""

from collections.abc import Sequence

from utils.bases.catalog import read_about
from utils.cli.common import progress_phases, run_command
from utils.config import ExportConfig


def main(args: Sequence[str] | None = None) -> None:
    """The command; see `utils.cli.common.run_command` for its exit statuses."""
    run_command(ExportConfig, _export, "Put a run's weights and its base into one model folder.", args)


def _export(config: ExportConfig) -> None:
    # Imported late: torch takes seconds to load, and a wrong flag should be answered at once.
    from utils.inference.export import export_model

    with progress_phases() as progress:
        ready = export_model(config, progress=progress)
    for file in sorted(ready.iterdir()):
        print(f"{file.stat().st_size / 1e6:8.1f} MB  {file}")
    print(f"It loads in: {read_about(ready)['loads_in']}")


if __name__ == "__main__":
    main()
