#!/bin/sh
# Checks that builds are reproducible. Two builds of this commit, in folders of different names and with target
# folders of their own, must be the same bytes. So anybody can compare a build from the sources with the published
# one. Takes two cold builds.
#
#   sh tools/reproduce.sh [COMMIT, default HEAD [ARGUMENTS of cargo build, default --workspace]]
set -eu
cd "$(dirname "$0")/.."
commit=$(git rev-parse "${1:-HEAD}")
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- --workspace
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH
home=${CARGO_HOME:-$HOME/.cargo}

# build FOLDER ARGUMENTS…: the digests of programs and libraries.
build() {
    folder=$root/$1
    shift
    mkdir -p "$folder"
    git archive "$commit" | tar -x -C "$folder"
    (
        cd "$folder"
        # Paths of sources stand in debugging information and in messages of panics.
        RUSTFLAGS="--remap-path-prefix=$folder=/anode --remap-path-prefix=$home=/cargo" \
            CARGO_TARGET_DIR="$folder/target" cargo build --release --locked --quiet "$@" >&2
        cd target/release
        find . -maxdepth 1 -type f ! -name '.*' ! -name '*.d' ! -name '*.rlib' | sort | xargs sha256sum
    )
}

one=$(build one "$@")
other=$(build another-folder "$@")
printf '%s\n' "$one"
[ -n "$one" ] || { echo "nothing was built" >&2; exit 1; }
[ "$one" = "$other" ] || {
    printf 'the second build is another:\n%s\n' "$other" >&2
    exit 1
}
