#!/bin/sh
# Create the virtual environment FOLDER with PYTHON: usage make_venv.sh PYTHON FOLDER.
# Debian ships `venv` without `ensurepip`; there the system's own pip puts a pip into the new environment.
set -eu
python=$1
folder=$2

fail() {
    printf 'make venv: %s\n' "$@" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "there is no command '$python'; install Python 3.11 or 3.12, or name one: make venv PYTHON=python3.12"
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null ||
    fail "'$python' is $("$python" --version 2>&1 | head -n 1), but Python 3.11 or 3.12 is needed; name one: make venv PYTHON=python3.12"

rm -rf "$folder"
if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    "$python" -m venv "$folder"
elif "$python" -c 'import pip, venv' 2>/dev/null; then
    echo "make venv: this Python has no ensurepip, so its own pip installs pip into $folder"
    "$python" -m venv --without-pip "$folder"
    "$python" -m pip --python "$folder/bin/python" install --quiet pip==26.3
else
    fail "this Python has neither ensurepip nor pip; on Debian: apt-get install python3-venv (or python3-pip)"
fi
