#!/bin/sh
# Owns the choice of a Python for the first steps; hands over to `python -m deploy.setup` at once.
usable='import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'
for python in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$python" >/dev/null 2>&1 && "$python" -c "$usable" >/dev/null 2>&1; then
        exec "$python" -m deploy.setup "$@"
    fi
done
echo "make $1: no usable Python: 3.11 or newer with venv and pip is needed (Debian: apt install python3-venv); PYTHON=/path names one" >&2
exit 1
