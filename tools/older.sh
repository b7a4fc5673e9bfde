#!/bin/sh
# Builds the program of an older commit, for tests/net/upgrade.rs: the last tag before this commit, or another commit.
# It is built once for each commit, with a target folder of its own. Prints its path.
#
#   ANODE_OLD=$(sh tools/older.sh [COMMIT]) cargo test --release --test net upgrade::
set -eu
cd "$(dirname "$0")/.."
# The last one whose node was root, as long as no version has a tag.
commit=${1:-$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null || echo c994750ff614)}
commit=$(git rev-parse "$commit^{commit}")
folder=$PWD/target/older/$commit
if [ ! -x "$folder/anode" ]; then
    mkdir -p "$folder/source"
    git archive "$commit" | tar -x -C "$folder/source"
    (cd "$folder/source" && CARGO_TARGET_DIR="$folder/target" cargo build --release --locked --quiet --bin anode) >&2
    mv "$folder/target/release/anode" "$folder/anode"
    rm -rf "$folder/source" "$folder/target"
fi
echo "$folder/anode"
