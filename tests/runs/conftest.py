"""Jobs that tests start end with the test."""

from tests.jobs.conftest import output, own_temporary_folder

__all__ = ["output", "own_temporary_folder"]
