#!/bin/sh
# The tests at full length: simulated ones with every seed of a range, a thousand kills of the store, many more
# generated cases, swarms. Two builds must be the same bytes, and every parser and checker is fuzzed for a minute
# (tools/fuzz.sh). Results go to docs/soak.md, with the figures of fuzzing summed over all soaks.
#
#   sh tools/soak.sh [SEEDS] [KILLS] [CASES] [FUZZ SECONDS, 0: leave it out] [BUILD TWICE: 1 or 0]
set -eu
cd "$(dirname "$0")/.."
seeds=${1:-100} kills=${2:-1000} cases=${3:-20000} fuzz=${4:-60} twice=${5:-1}
swarms=$((cases / 10))
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
        SEED=$((seed * 1000)) cargo test --release --locked --test sim -- bound:: fetch:: lying:: || return 1
        seed=$((seed + 1))
    done
}

kill_store() { ANODE_KILLS=$kills cargo test --release --locked --lib kill_9_at_any_instant; }

kill_node() { ANODE_KILLS=200 cargo test --release --locked --test net outlive::; }

# Restarts under a thousand capsules a second, and starts that are killed.
restarts() {
    ANODE_RESTARTS=50 ANODE_KILLS=100 cargo test --release --locked --test net -- restart:: failed_start:: --nocapture
}

# The last version and this one follow each other under traffic.
upgrades() {
    old=$(sh tools/older.sh) || return 1
    ANODE_OLD=$old cargo test --release --locked --test net upgrade:: -- --nocapture
}

# The program of the commit that a file names beside this one.
beside() {
    old=$(sh tools/older.sh "$(cat tests/compat/COMMIT)") || return 1
    sh tests/compat/side_by_side.sh "$old" "$PWD/target/release/anode"
}

# What lends the core to code, run by an interpreter that knows the rules of references (needs a nightly toolchain with miri).
lent() { cargo +nightly miri test --locked --lib --target-dir target/miri code::run::lent; }

generated() {
    PROPTEST_CASES=$cases cargo test --release --locked --lib &&
        PROPTEST_CASES=$cases cargo test --release --locked --test unit formats:: &&
        PROPTEST_CASES=$cases cargo test -p anode-plan -p anode-click --release --locked
}

# Programs to scanner, linker and the kernel's verifier.
programs() { SEED=$(date +%s) ANODE_CASES=$cases cargo test --release --locked --test halves generated:: -- --nocapture; }

# Packets into both halves: ten times as many, from a seed that the log has.
halves() { SEED=$(date +%s) ANODE_CASES=$((cases * 10)) cargo test --release --locked --test halves random:: -- --nocapture; }

# Domains that end, with all they own.
domains() { SEED=$(date +%s) ANODE_ROUNDS=10000 cargo test --release --locked --test node nodeos_ending:: -- --nocapture; }

# Networks by chance with hostile nodes.
swarms() { SEED=$(date +%s) ANODE_SWARMS=$swarms cargo test --release --locked --test sim swarm:: -- --nocapture; }

# The fuzz targets without a fuzzer.
bent() { SEED=$(date +%s) ANODE_CASES=$((cases * 10)) cargo test --release --locked --test unit fuzzed:: -- --nocapture; }

twice() { sh tools/reproduce.sh; }

# Jails as environments have them, one after the other: processes, control groups, mounts, users, descriptors counted before and after.
jails() { ANODE_JAILS=10000 cargo test --release --locked --test run jail::those_that_have_ended; }

# The same with sessions, domains and files of theirs, at running nodes.
environments() { ANODE_HUNDREDS=100 cargo test --release --locked --test run environments_end::; }

# A million routes and 100,000 changes of them, in both halves: as fast as they can be made, and a thousand each second.
routes() {
    SEED=$(date +%s) ANODE_ROUTES=1000000 ANODE_CHANGES=100000 ANODE_SECONDS=100 \
        cargo test --release --locked --test net routes::both -- --nocapture --test-threads=1
}

# What the program is made of.
sbom() { sh tools/sbom.sh; }

# Dependencies against the list of known holes too, which is a repository on GitHub.
advisories() { ANODE_ADVISORIES=1 sh tools/deny.sh; }

# Every test and the demo as a user without rights.
ordinary() { sh tools/ordinary.sh; }

run suite "the whole of \`make test\`" suite
run seeds "$seeds seeds each: fetching, bounds, peers under loss, duplication, reordering, partition, lies" every_seed
run kills "$kills kills -9 of a process that writes to the store" kill_store
run node "200 kills -9 of a node whose kernel half is at work" kill_node
run restarts "50 restarts each under load, without and with kernel half and sockets; 100 starts killed at random" restarts
run upgrades "the last version, this one, and back, under traffic" upgrades
run beside "an older program beside this one: capsules, their code and PLAN, in both directions" beside
run cases "$cases cases of every generated test" generated
run lent "the core as it is lent to code, under Miri" lent
run programs "$cases programs to the scanner and the linker, a fifth of them to the kernel's verifier" programs
run domains "10,000 domains that end, twice: everything counted before and after" domains
run jails "10,000 jails as environments have them, started and ended" jails
run environments "10,000 lives of environments at running nodes: everything counted before and after" environments
run routes "1,000,000 routes, of which 100,000 change at once, and 1,000 each second for 100 s: both halves say what the kernel says" routes
run halves "$((cases * 10)) frames into both halves, twice: traffic, and strange ones" halves
run swarms "$swarms swarms: networks, codes, faults and hostile nodes by chance, all rules at each step" swarms
run bent "$((cases * 10)) bent inputs of every fuzz target, without a fuzzer" bent
run ordinary "the suite and the demo as an ordinary user" ordinary
run sbom "the list of all parts, for each crate" sbom
run advisories "dependencies against the known holes" advisories
if [ "$twice" -eq 0 ]; then
    rows="$rows| twice | left out | SKIPPED | |
"
else
    run twice "two builds in different folders are the same bytes" twice
fi
if [ "$fuzz" -eq 0 ]; then
    rows="$rows| fuzz | left out | SKIPPED | |
"
elif cargo fuzz --version >/dev/null 2>&1; then
    for target in $(cd fuzz && cargo fuzz list); do
        run "fuzz-$target" "$fuzz s" sh tools/fuzz.sh "$fuzz" "$target"
    done
else
    rows="$rows| fuzz | cargo-fuzz is not installed | SKIPPED | |
"
fi

# The figures of fuzzing as rows, and their sum.
figures() { tail -n +2 fuzz/figures.tsv | awk -F'\t' '{ printf "| %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5 }'; }
sum=$(awk -F'\t' 'NR > 1 { sum += $2 } END { print sum + 0 }' fuzz/figures.tsv)

cat >docs/soak.md <<END
# The last soak

\`make soak\` at $(git rev-parse --short=12 HEAD), $(date -u +%Y-%m-%d), $(($(date +%s) - began)) s in all. $(uname -sr), $(nproc) CPUs.

| | what | result | time |
|---|---|---|---|
$rows

## Fuzzing, all soaks together

$sum executions. Executions a second and edges covered are those of the last soak; the corpus is committed (\`fuzz/corpus\`).

| target | executions | per second | edges | inputs |
|---|---|---|---|---|
$(figures)
END
cat docs/soak.md
exit $failed
