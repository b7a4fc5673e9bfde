#!/bin/sh
# The bill of materials of the program (CycloneDX 1.5, JSON), from Cargo.lock, by cargo-cyclonedx, which is installed
# if it is missing.
#
#   sh tools/sbom.sh [FOLDER, default target/sbom]
set -eu
cd "$(dirname "$0")/.."
out=${1:-target/sbom}
version=0.5.9
cargo="${CARGO:-cargo}"
if ! $cargo cyclonedx --version 2>/dev/null | grep -q "$version"; then
    echo "installing cargo-cyclonedx $version"
    $cargo install cargo-cyclonedx --version "$version" --locked --debug --quiet
fi
# The time in the file is the commit's, so that the same commit gives the same list.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
$cargo cyclonedx --manifest-path Cargo.toml --format json --spec-version 1.5 --describe crate --target x86_64-unknown-linux-gnu
mkdir -p "$out"
for crate in anode-net:. anode-bench:bench anode-plan:plan anode-click:click libanode:libanode; do
    # Names of folders are this machine's.
    sed "s#path+file://$PWD#path+file:///anode#g" "${crate#*:}/${crate%%:*}.cdx.json" >"$out/${crate%%:*}.cdx.json"
    rm "${crate#*:}/${crate%%:*}.cdx.json"
done
ls "$out"
