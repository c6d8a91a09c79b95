#!/bin/sh
# Creates target/labgrid, a Python environment with labgrid and PDUDaemon. The tests of a lab run
# its coordinator, exporter and client, and the daemon that switches power, on loopback, and are
# skipped without them.
#
# usage: lab-for-tests.sh

set -u

LABGRID=26.0.1
PDUDAEMON=1.1.1
# What PDUDaemon says it needs, but for systemd_python: only its log in the journal takes that, and
# it is compiled with the headers of systemd.
PDUDAEMON_NEEDS="aiohttp requests pexpect paramiko pyserial hidapi pysnmp>=7.1.22 pyasn1>=0.6.2
    pyusb pymodbus"
folder=${CARGO_TARGET_DIR:-target}/labgrid

say() { printf '%s\n' "$*" >&2; }

for program in sshd ssh-keygen; do
    if ! PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null 2>&1; then
        say "skipped: the tests of a lab: no $program here (apt-get install openssh-server)"
        exit 0
    fi
done
if [ "$(cat "$folder/version" 2>/dev/null)" = "$LABGRID $PDUDAEMON" ]; then
    exit 0
fi
say "creating $folder: a Python environment with labgrid $LABGRID and PDUDaemon $PDUDAEMON from" \
    "the package index"
rm -rf "$folder"
install() { "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" >&2; }
if ! { python3 -m venv "$folder" >&2 && install "labgrid==$LABGRID"; }; then
    rm -rf "$folder"
    say "skipped: the tests of a lab: labgrid could not be installed (it takes python3 with venv," \
        "and a package index)"
    exit 0
fi
# shellcheck disable=SC2086 # several words
if ! { install $PDUDAEMON_NEEDS && install --no-deps "pdudaemon==$PDUDAEMON"; }; then
    say "skipped: a test of a lab: PDUDaemon could not be installed"
    exit 0
fi
echo "$LABGRID $PDUDAEMON" >"$folder/version"
