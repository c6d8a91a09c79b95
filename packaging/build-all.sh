#!/bin/sh
# Builds the program for several architectures, as many at a time as there are processors: most of the
# time of a build is link-time optimization, which uses only one.
#
# usage: build-all.sh ARCHITECTURE...    as for build.sh; one named twice is built once

set -eu
cd "$(dirname "$0")/.."
printf '%s\n' "$@" | awk '!named[$0]++' | xargs -n 1 -P "$(nproc)" sh packaging/build.sh
