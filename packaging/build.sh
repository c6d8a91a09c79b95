#!/bin/sh
# Builds the program for a Debian architecture as one static file, as it is packaged and published.
# Static, because flashfit copies itself to boards and into virtual machines, whose C library may be
# older than the one it was built with; and so that a package serves more than one release of Debian.
# Without `flashfit survey` (a feature of cargo), whose SQLite and Parquet take a third more space, unless
# the name of the architecture ends with -survey.
# The same commit and the same compiler give the same bytes, in whatever directory.
#
# usage: build.sh amd64|arm64|armhf|amd64-survey
# The result is $FLASHFIT_TARGET_DIR/NAME/flashfit, where NAME is that argument.

set -eu
cd "$(dirname "$0")/.."
name=${1:?usage: build.sh ARCHITECTURE}
arch=$name
. packaging/architecture.sh
target_dir=${FLASHFIT_TARGET_DIR:-$PWD/target/packaging}
# 8 MiB; that of packages is not copied to small boards.
MOST_BYTES=8388608
[ -z "$features" ] || MOST_BYTES=12582912

# Paths of this machine would make files differ between machines. The program does not unwind, so it
# needs no tables for that. Instructions that occur often become functions.
crates=${FLASHFIT_CRATES:-${CARGO_HOME:-$HOME/.cargo}}
flags="--remap-path-prefix=$PWD=/usr/src/flashfit --remap-path-prefix=$crates=/usr/src/crates \
-C target-feature=+crt-static -C force-unwind-tables=no"
# A binary for armhf that was made with it runs in an endless loop under qemu-arm.
[ "$arch" = armhf ] || flags="$flags -C llvm-args=-enable-machine-outliner=always \
-C llvm-args=-machine-outliner-reruns=3"

# Nothing here unwinds, so that C's library needs neither its tables nor their index, 64 kB. What the
# compiler links at the beginning of a static program for arm64 refers to them; armhf has others. The
# linker runs in this directory.
[ "$arch" != amd64 ] || flags="$flags -C link-arg=-Wl,--no-eh-frame-hdr \
-C link-arg=-Wl,-T,packaging/no-unwind-tables.ld"

# Addresses to relocate, in a tenth of the space. 32-bit ARM has no such format.
[ "$arch" = armhf ] || flags="$flags -C link-arg=-Wl,-z,pack-relative-relocs"

# The standard library is built from source, for size: its sorting alone would take half a megabyte.
# Two builds of one architecture share it.
mkdir -p "$target_dir"
flock "$target_dir/std-$arch.lock" sh packaging/std-from-source.sh "$arch" "$target_dir/std/$arch"
flags="$flags --sysroot=$target_dir/std/$arch --remap-path-prefix=$target_dir/std=/usr/src/std"

# The C compiler links for its own machine only.
linker=CARGO_TARGET_$(echo "$rust_target" | tr 'a-z-' 'A-Z_')_LINKER
if command -v "$gnu_type-gcc" >/dev/null 2>&1; then
    export "$linker=$gnu_type-gcc"
fi
# SQLite is compiled with this.
export CFLAGS="-ffile-prefix-map=$crates=/usr/src/crates -fno-asynchronous-unwind-tables"

# Each build has its own directory, because cargo lets nobody else build in one.
# shellcheck disable=SC2086 # several arguments or none
CARGO_TARGET_DIR=$target_dir/static-$name RUSTFLAGS=$flags CARGO_INCREMENTAL=0 \
    "${CARGO:-cargo}" build --locked --target "$rust_target" --profile static \
    --no-default-features $features -p flashfit
mkdir -p "$target_dir/$name"
file=$target_dir/$name/flashfit
cp "$target_dir/static-$name/$rust_target/static/flashfit" "$file"
"$gnu_type-strip" --remove-section=.comment --remove-section=.note "$file"
bytes=$(stat -c %s "$file")
if [ "$bytes" -gt $MOST_BYTES ]; then
    echo "error: $file has $bytes bytes, more than $MOST_BYTES" >&2
    exit 1
fi
# A program that needs an interpreter or a library is not static.
if readelf -ldW "$file" | grep -qE 'INTERP|NEEDED'; then
    echo "error: $file is not static" >&2
    exit 1
fi
echo "built: $file, $bytes bytes"
