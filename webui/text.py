"""Every word the page shows, in one place, ready for translation."""

TITLE = "XTTS Fine-tuning Studio"
INTRO = (
    "Fine-tune an XTTS v2 voice: prepare a dataset, train, export, speak. All four work **from the command line** "
    "so far. This page lists your projects and shows the commands; it cannot start work yet."
)

PROJECTS_TAB = "Projects"
PROJECTS_FOLDER = "Output folder"
PROJECTS_FOLDER_HELP = "Set with: python app.py --output FOLDER"
PROJECTS_TABLE = "Projects in this folder"
PROJECTS_COLUMNS = ["Project", "Language", "Clips used", "Clips dropped", "Runs", "Exported"]
REFRESH = "Read the folder again"
YES = "yes"
NO = "no"
NOTHING_YET = "-"
UNREADABLE = "unreadable"

COMMANDS_TAB = "Command line"
COMMANDS_HELP = (
    "Run these in the project's folder, with `.venv` made by `make venv`. Each takes `--help`, which lists its "
    "settings with units and defaults. To see the whole job on the bundled voice first, run `make demo`."
)
COMMANDS = [
    (
        "1. Prepare a dataset from recordings with transcripts",
        ".venv/bin/python -m utils.cli.prepare --input FOLDER --project NAME --language en",
    ),
    ("2. Train", ".venv/bin/python -m utils.cli.train --project NAME --base tiny --num-epochs 3 --batch-size 4"),
    ("3. Export the model", ".venv/bin/python -m utils.cli.export --project NAME"),
    ("4. Speak", '.venv/bin/python -m utils.cli.synthesize --project NAME --text "Hello." --out hello.wav'),
    ("Base models: list, download, or make a tiny one", ".venv/bin/python -m utils.cli.base list"),
]


def projects_found(count: int) -> str:
    """What the page says above the table of `count` projects."""
    if count == 0:
        return f"No project here yet. Make one with step 1 of the tab **{COMMANDS_TAB}**, or run `make demo`."
    return "1 project found." if count == 1 else f"{count} projects found."
