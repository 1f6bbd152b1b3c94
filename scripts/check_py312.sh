#!/bin/sh
# Check that the pinned requirements resolve on Python 3.12 too; skipped, and said so, where there is no 3.12.
# PYTHON312 names the interpreter when it is not found by itself.
set -eu

is_312() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 12))' >/dev/null 2>&1
}

for candidate in "${PYTHON312:-python3.12}" python3 "$HOME"/.pyenv/versions/3.12*/bin/python; do
    if is_312 "$candidate"; then
        folder=$(mktemp -d)
        trap 'rm -rf "$folder"' EXIT
        "$candidate" -m venv "$folder"
        "$folder/bin/python" scripts/lock.py check
        exit 0
    fi
done
echo "SKIPPED, NOT CHECKED: no Python 3.12 with venv found here; name one: make check-py312 PYTHON312=/path/to/python3.12"
