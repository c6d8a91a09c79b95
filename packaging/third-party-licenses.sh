#!/bin/sh
# Prints names, licenses and notices of the crates that the program contains. A text that several
# crates share is printed once. The crates must be vendored (cargo vendor --versioned-dirs).
#
# usage: third-party-licenses.sh ARCHITECTURE...    $FLASHFIT_CRATES is the directory of the crates

set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: third-party-licenses.sh ARCHITECTURE..." >&2; exit 2; }
crates=${FLASHFIT_CRATES:?the directory of the vendored crates}
texts=$(mktemp -d)
trap 'rm -rf "$texts"' EXIT

echo "flashfit contains these crates:"
echo
for arch in "$@"; do
    . packaging/architecture.sh
    # shellcheck disable=SC2086 # several arguments or none
    "${CARGO:-cargo}" tree --locked --package flashfit --no-default-features $features --edges normal --target "$rust_target" \
        --prefix none --no-dedupe --format '{p}	{l}'
done | grep -v '(/' | sort -u >"$texts/list"
[ -s "$texts/list" ]
while IFS='	' read -r crate license; do
    printf '%s: %s\n' "$crate" "$license"
    name=${crate%% *}
    version=${crate#* v}
    version=${version%% *}
    [ -d "$crates/$name-$version" ]
    for file in "$crates/$name-$version"/*; do
        case $(basename "$file" | tr '[:lower:]' '[:upper:]') in
        LICEN[SC]E* | COPYING* | COPYRIGHT* | NOTICE*) ;;
        *) continue ;;
        esac
        [ -f "$file" ] || continue
        sum=$(sha256sum <"$file" | cut -c1-64)
        [ -e "$texts/$sum.text" ] || cp "$file" "$texts/$sum.text"
        printf '%s\n' "$crate" >>"$texts/$sum.crates"
    done
done <"$texts/list"
for text in "$texts"/*.text; do
    printf '\n%s\n' "------------------------------------------------------------------------"
    printf 'Of %s:\n\n' "$(sort -u "${text%.text}.crates" | tr '\n' ',' | sed 's/,$//; s/,/, /g')"
    tr -d '\r\f' <"$text"
done
