# Sourced. Sets $rust_target and $gnu_type of the Debian architecture in $arch.
# shellcheck shell=sh disable=SC2034

case $arch in
amd64) rust_target=x86_64-unknown-linux-gnu gnu_type=x86_64-linux-gnu ;;
arm64) rust_target=aarch64-unknown-linux-gnu gnu_type=aarch64-linux-gnu ;;
armhf) rust_target=armv7-unknown-linux-gnueabihf gnu_type=arm-linux-gnueabihf ;;
*)
    echo "error: unknown architecture \`$arch\`" >&2
    echo "hint: use amd64, arm64 or armhf" >&2
    exit 2
    ;;
esac
