#!/bin/sh
# Fuzzes each target for some seconds from the committed corpus, with libFuzzer and coverage, on the stable compiler
# (RUSTC_BOOTSTRAP lets it instrument). Needs cargo-fuzz. Inputs with new coverage go back into fuzz/corpus, thinned.
# The figures of each target go into fuzz/figures.tsv: executions summed over all committed soaks, executions a second
# and edges covered in the last one, inputs kept. docs/soak.md shows them.
#
#   sh tools/fuzz.sh SECONDS [TARGET…]
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
export RUSTC_BOOTSTRAP=1
figures=fuzz/figures.tsv
[ -e "$figures" ] || printf 'target\texecutions\tper second\tedges\tinputs\n' >"$figures"

# sanitizer TARGET: the address sanitizer where there is unsafe code; it makes the others several times slower and finds nothing there.
sanitizer() { case $1 in nodeos_ring) echo address ;; *) echo none ;; esac; }

one() {
    target=$1
    work=fuzz/target/corpus/$target
    log=fuzz/target/$target.log
    rm -rf "$work" "$work.min"
    python3 tools/corpus.py unpack "$target" "$work"
    mkdir -p "$work.min"
    (cd fuzz && cargo fuzz run -s "$(sanitizer "$target")" "$target" "target/corpus/$target" -- \
        -max_total_time="$seconds" -max_len=2048 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=1) >"$log" 2>&1 || {
        echo "$target: a crash; see $log and fuzz/artifacts/$target" >&2
        tail -30 "$log" >&2
        return 1
    }
    done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    edges=$(sed -n 's/.*cov: \([0-9]*\) ft:.*/\1/p' "$log" | tail -1)
    (cd fuzz && cargo fuzz run -s "$(sanitizer "$target")" "$target" -- \
        -merge=1 "target/corpus/$target.min" "target/corpus/$target") >>"$log" 2>&1
    python3 tools/corpus.py pack "$target" "$work.min"
    inputs=$(wc -l <"fuzz/corpus/$target.txt")
    before=$(awk -F'\t' -v target="$target" '$1 == target { print $2 }' "$figures")
    sum=$((${before:-0} + ${done:-0}))
    grep -v "^$target	" "$figures" >"$figures.new" || true
    printf '%s\t%s\t%s\t%s\t%s\n' "$target" "$sum" "${rate:-0}" "${edges:-0}" "$inputs" >>"$figures.new"
    { head -1 "$figures.new"; tail -n +2 "$figures.new" | sort; } >"$figures"
    rm -f "$figures.new"
    echo "$target: $done executions, $rate/s, $edges edges"
}

[ $# -gt 0 ] || set -- $(cd fuzz && cargo fuzz list)
failed=0
for target in "$@"; do one "$target" || failed=1; done
exit $failed
