"""Tab 3: a project's table of pronunciations."""

from utils.errors import UserError, disk_errors
from utils.files import write_atomic
from utils.text.pronunciations import COLUMNS, PRONUNCIATIONS_FILE, read_pronunciations, read_table
from webui import text
from webui.change import TOAST, Change, Updates, Values
from webui.studio import Studio

TABLE = "inference.pronunciations"


def show(studio: Studio, values: Values) -> Updates:
    """Load the table of a project; of one that cannot be shown, the fault."""
    project = studio.project_or_none(values)
    try:
        return {TABLE: (project and read_table(project.folder / PRONUNCIATIONS_FILE)) or HEADER}
    except UserError as error:
        return {TABLE: Change(value="", placeholder=str(error))}


@disk_errors()
def save(studio: Studio, values: Values) -> Updates:
    """Save the table of a project, and name what is wrong with it."""
    path = studio.project(values).folder / PRONUNCIATIONS_FILE
    # What could not be shown is not replaced.
    read_table(path)
    table = str(values[TABLE] or HEADER)
    # A table with a fault would stop all speech of the project.
    read_pronunciations(path, table)
    write_atomic(path, table)
    return {TOAST: text.PRONUNCIATIONS_SAVED}


HEADER = f"{','.join(COLUMNS)}\n"
"""Of a project without a table."""
