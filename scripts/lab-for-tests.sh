#!/bin/sh
# Creates target/labgrid, a Python environment with labgrid. The tests of crates/lab run its
# coordinator, exporter and client on loopback, and are skipped without it.
#
# usage: lab-for-tests.sh

set -u

LABGRID=26.0.1
folder=${CARGO_TARGET_DIR:-target}/labgrid

say() { printf '%s\n' "$*" >&2; }

for program in sshd ssh-keygen; do
    if ! PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null 2>&1; then
        say "skipped: the tests of a lab: no $program here (apt-get install openssh-server)"
        exit 0
    fi
done
if [ "$(cat "$folder/version" 2>/dev/null)" = "$LABGRID" ]; then
    exit 0
fi
say "creating $folder: a Python environment with labgrid $LABGRID from the package index"
rm -rf "$folder"
if ! { python3 -m venv "$folder" &&
    "$folder/bin/pip" install --quiet --disable-pip-version-check "labgrid==$LABGRID"; } >&2; then
    rm -rf "$folder"
    say "skipped: the tests of a lab: labgrid could not be installed (it takes python3 with venv," \
        "and a package index)"
    exit 0
fi
echo "$LABGRID" >"$folder/version"
