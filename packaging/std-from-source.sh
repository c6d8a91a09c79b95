#!/bin/sh
# Builds Rust's standard library for an architecture from the package rust-src, for size: without
# symbolic backtraces, which a stripped program does not have anyway, and without unwinding. The package libstd-rust-dev of the
# architecture is not needed; the C compiler of the architecture and the vendored crates of the standard
# library are.
#
# usage: std-from-source.sh ARCHITECTURE DIRECTORY    makes DIRECTORY a sysroot

set -eu
cd "$(dirname "$0")/.."
arch=${1:?usage: std-from-source.sh ARCHITECTURE DIRECTORY}
sysroot=${2:?usage: std-from-source.sh ARCHITECTURE DIRECTORY}
. packaging/architecture.sh
version=$(rustc --version | cut -d' ' -f2)
# Its name changes with the flags below, so that a library built with others is not used.
stamp=$sysroot/$version-for-size-abort
[ ! -e "$stamp" ] || exit 0
echo "building Rust's standard library for $arch" >&2
# Next to the result and not in a random place, which could be seen in the result.
build=$sysroot.build
rm -rf "$build"
mkdir -p "$build"
trap 'rm -rf "$build"' EXIT
cp -r "/usr/src/rustc-$version/library" "$build/library"
linker=CARGO_TARGET_$(echo "$rust_target" | tr 'a-z-' 'A-Z_')_LINKER
export "$linker=$gnu_type-gcc"

# The flags that Rust builds it with: bitcode for link-time optimization, and no crate of it can be
# used by others. The standard library uses features that are unstable elsewhere.
RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$build/target \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 CARGO_PROFILE_RELEASE_DEBUG=0 \
    CARGO_PROFILE_RELEASE_OPT_LEVEL=z CARGO_PROFILE_RELEASE_PANIC=abort \
    RUSTFLAGS="-C embed-bitcode=yes -C force-unwind-tables=no -Z force-unstable-if-unmarked \
--remap-path-prefix=$build/library=/rustc/$version/library \
--remap-path-prefix=${FLASHFIT_CRATES:-/vendor}=/usr/src/crates" \
    "${CARGO:-cargo}" build --locked --release --target "$rust_target" \
    --manifest-path "$build/library/sysroot/Cargo.toml" --no-default-features \
    --features optimize_for_size,std_detect_file_io,std_detect_dlsym_getauxval
lib=$sysroot/lib/rustlib/$rust_target/lib
rm -rf "$sysroot"
mkdir -p "$lib"
cp "$build/target/$rust_target/release/deps/"*.rlib "$lib/"
touch "$stamp"
