#!/bin/sh
# Owns replacing the web processes one after the other: whoever reads is carried on by the two that are left.
#   VERSION=2 sh deploy/compose/roll.sh
set -eu
cd "$(dirname "$0")/../.."
docker compose build
docker compose run --rm setup
for web in web-1 web-2 web-3; do
    docker compose up --detach --no-deps --wait "$web"
done
docker compose up --detach --no-deps worker beat
