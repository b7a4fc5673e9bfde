#!/bin/sh
# The tests at full length: every seed of a range for the simulated ones, a thousand kills of the store,
# many more cases for the generated ones, a minute of fuzzing for every parser and checker. Writes what
# came of it to docs/soak.md.
#
#   sh tools/soak.sh [SEEDS] [KILLS] [CASES] [FUZZ SECONDS, 0: leave it out]
set -eu
cd "$(dirname "$0")/.."
seeds=${1:-100} kills=${2:-1000} cases=${3:-20000} fuzz=${4:-60}
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
rows="" failed=0
began=$(date +%s)

# run NAME WHAT COMMAND…: one row of the table.
run() {
    name=$1 what=$2
    shift 2
    start=$(date +%s)
    if "$@" >"$log/$name" 2>&1; then result=passed; else result="**FAILED**" failed=1; fi
    rows="$rows| $name | $what | $result | $(($(date +%s) - start)) s |
"
    echo "$name: $result"
    [ "$result" = passed ] || tail -40 "$log/$name"
}

suite() { cargo test --workspace --release --locked --no-fail-fast; }

every_seed() {
    seed=1
    while [ "$seed" -le "$seeds" ]; do
        SEED=$((seed * 1000)) cargo test --release --locked --test sim_bound --test sim_fetch --test sim_peers || return 1
        seed=$((seed + 1))
    done
}

kill_store() { ANODE_KILLS=$kills cargo test --release --locked --lib kill_9_at_any_instant; }

kill_node() { ANODE_KILLS=200 cargo test --release --locked --test outlive; }

generated() {
    PROPTEST_CASES=$cases cargo test --release --locked --lib --test wire &&
        PROPTEST_CASES=$cases cargo test -p anode-plan --release --locked
}

# Programs to scanner, linker and the kernel's verifier.
programs() { SEED=$(date +%s) ANODE_CASES=$cases cargo test --release --locked --test programs -- --nocapture; }

# Packets into both halves: ten times as many, from a seed that the log has.
halves() { SEED=$(date +%s) ANODE_CASES=$((cases * 10)) cargo test --release --locked --test halves_random -- --nocapture; }

# Domains that end, with all they own.
domains() { SEED=$(date +%s) ANODE_ROUNDS=10000 cargo test --release --locked --test nodeos_ending -- --nocapture; }

fuzz_one() { (cd fuzz && cargo +nightly fuzz run "$1" -- -max_total_time="$fuzz"); }

run suite "the whole of \`make test\`" suite
run seeds "$seeds seeds each: fetching, bounds, peers under loss, duplication, reordering, partition, lies" every_seed
run kills "$kills kills -9 of a process that writes to the store" kill_store
run node "200 kills -9 of a node whose kernel half is at work" kill_node
run cases "$cases cases of every generated test" generated
run programs "$cases programs to the scanner and the linker, a fifth of them to the kernel's verifier" programs
run domains "10,000 domains that end, twice: everything counted before and after" domains
run halves "$((cases * 10)) frames into both halves, twice: traffic, and strange ones" halves
if [ "$fuzz" -eq 0 ]; then
    rows="$rows| fuzz | left out | SKIPPED | |
"
elif cargo fuzz --version >/dev/null 2>&1; then
    for target in $(cd fuzz && cargo +nightly fuzz list); do
        run "fuzz-$target" "$fuzz s" fuzz_one "$target"
    done
else
    rows="$rows| fuzz | cargo-fuzz is not installed | SKIPPED | |
"
fi

cat >docs/soak.md <<END
# The last soak

\`make soak\` at $(git rev-parse --short=12 HEAD), $(date -u +%Y-%m-%d), $(($(date +%s) - began)) s in all. $(uname -sr), $(nproc) CPUs.

| | what | result | time |
|---|---|---|---|
$rows
END
cat docs/soak.md
exit $failed
