"""Tab 3: a project's table of pronunciations."""

from utils.errors import disk_errors
from utils.files import replacing
from utils.text.pronunciations import COLUMNS, PRONUNCIATIONS_FILE, read_pronunciations
from webui import text
from webui.change import TOAST, Updates, Values
from webui.studio import Studio

TABLE = "inference.pronunciations"


def show(studio: Studio, values: Values) -> Updates:
    """Load the table of a project."""
    project = studio.project_or_none(values)
    path = project and project.folder / PRONUNCIATIONS_FILE
    return {TABLE: path.read_text(encoding="utf-8-sig", errors="replace") if path and path.is_file() else HEADER}


@disk_errors()
def save(studio: Studio, values: Values) -> Updates:
    """Save the table of a project, and name what is wrong with it."""
    path = studio.project(values).folder / PRONUNCIATIONS_FILE
    # A table with a fault would stop all speech of the project.
    with replacing(path) as aside:
        aside.write_text(str(values[TABLE] or HEADER), encoding="utf-8")
        read_pronunciations(aside)
    return {TOAST: text.PRONUNCIATIONS_SAVED}


HEADER = f"{','.join(COLUMNS)}\n"
"""Of a project without a table."""
