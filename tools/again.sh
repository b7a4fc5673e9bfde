#!/bin/sh
# Runs again what failed in a run of all tests, by its log. Example: `make test 2>&1 | tee log || sh tools/again.sh log`.
#
# A test of real processes and interfaces can fail because the machine was busy. It has a second run, alone with those that failed
# too; what was passed is not asked again. A target whose failed tests the log does not name is run whole.
set -eu
log=$1

# As the summary of cargo says it: `-p anode-net --test net`.
targets=$(sed -n 's/^ *`\(-p [^`]*\)`$/\1/p' "$log" | sort -u)
if [ -z "$targets" ]; then
    echo "again: $log names no target that failed: what failed was no test"
    exit 1
fi
# The lists behind "failures:", and how many the results count.
names=$(awk '/^failures:$/ { list = 1; next } /^test result:/ { list = 0 } list && /^    [^ ]+$/ { print $1 }' "$log")
counted=$(sed -n 's/^test result: FAILED\. .* passed; \([0-9]*\) failed;.*/\1/p' "$log" | awk '{ sum += $1 } END { print sum + 0 }')
# shellcheck disable=SC2086
set -- $names
[ "$#" = "$counted" ] || set --

echo "$targets" | while read -r target; do
    passed=0
    if [ "$#" -gt 0 ]; then
        # shellcheck disable=SC2086
        said=$("${CARGO:-cargo}" test --release --locked $target -- --exact "$@" 2>&1) || { echo "$said"; exit 1; }
        echo "$said"
        passed=$(echo "$said" | sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' | awk '{ sum += $1 } END { print sum + 0 }')
    fi
    # shellcheck disable=SC2086
    [ "$passed" -gt 0 ] || "${CARGO:-cargo}" test --release --locked $target
done
