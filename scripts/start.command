#!/bin/sh
# macOS: double-click to install once and open the page.
set -eu
cd "$(dirname "$0")/.."
for python in python3.12 python3.11 python3; do
    command -v "$python" >/dev/null 2>&1 && break
done
if [ ! -e .venv/.started ]; then
    sh scripts/make_venv.sh "$python" .venv
    .venv/bin/python -m pip install -r requirements.txt -c requirements.lock
    touch .venv/.started
fi
(sleep 15 && open http://127.0.0.1:7860) &
exec .venv/bin/python app.py "$@"
