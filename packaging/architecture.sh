# Sourced. Sets $rust_target and $gnu_type of the Debian architecture in $arch. That may be a build with
# `flashfit survey`, such as amd64-survey: $arch is then without, and $features are cargo's arguments.
# shellcheck shell=sh disable=SC2034

case $arch in
*-survey) features="--features survey" arch=${arch%-survey} ;;
*) features= ;;
esac
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

# The build that the package of an architecture contains: that for desktops has `flashfit survey`.
packaged_build() {
    case $1 in
    amd64) echo amd64-survey ;;
    *) echo "$1" ;;
    esac
}
