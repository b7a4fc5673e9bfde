#!/bin/sh
# Checks dependencies against deny.toml: bans, licences and sources, by cargo-deny. That is installed if it is missing
# (from crates.io, once; without optimisation, since it works for a second). Advisories need their database, a
# repository on GitHub, so they are asked for with ANODE_ADVISORIES=1.
set -eu
cd "$(dirname "$0")/.."
version=0.20.2
cargo="${CARGO:-cargo}"
if ! $cargo deny --version 2>/dev/null | grep -q "^cargo-deny $version\$"; then
    echo "installing cargo-deny $version"
    $cargo install cargo-deny --version "$version" --locked --debug --quiet
fi
checks="bans licenses sources"
[ -z "${ANODE_ADVISORIES:-}" ] || checks="$checks advisories"
for manifest in Cargo.toml fuzz/Cargo.toml; do
    # shellcheck disable=SC2086 # one check a word
    $cargo deny --manifest-path "$manifest" --locked check --hide-inclusion-graph --allow license-exception-not-encountered $checks
done
