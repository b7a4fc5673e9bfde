#!/bin/sh
# The suite and the demo as an ordinary user. An ordinary user just runs `make test`. Root builds here, then runs
# every test and the demo as a user who owns nothing but an empty folder, in a network namespace of their own. Tests
# that need more say SKIPPED and why.
#
#   sh tools/ordinary.sh [ARGUMENTS of cargo test, default --workspace]
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || exec make test demo
[ $# -gt 0 ] || set -- --workspace
user=${ANODE_UID:-54321}
root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
mkdir "$folder/home"
chown "$user:$user" "$folder/home"

cargo test --release --locked --no-run --message-format=json "$@" 2>"$folder/log" >"$folder/built" || {
    cat "$folder/log" >&2
    exit 1
}
# A line for each program of tests: the folder of its crate, and where it is.
python3 - "$folder/built" >"$folder/programs" <<'END'
import json, os, sys
for line in open(sys.argv[1]):
    message = json.loads(line) if line.startswith("{") else {}
    if message.get("executable") and message.get("profile", {}).get("test"):
        print(os.path.dirname(message["manifest_path"]), message["executable"])
END
[ -s "$folder/programs" ] || { echo "no tests were built" >&2; exit 1; }

# ordinary FOLDER COMMAND…
ordinary() {
    unshare -n sh -c 'ip link set lo up; cd "$1"; shift; exec "$@"' sh "$1" \
        env -i "PATH=$PATH" "HOME=$folder/home" "XDG_RUNTIME_DIR=$folder/home" "TMPDIR=$folder/home" \
        setpriv "--reuid=$user" "--regid=$user" --clear-groups "$2" $3 $4
}

failed=0
while read -r crate program; do
    name=$(basename "$program")
    if ordinary "$crate" "$program" --show-output "" >"$folder/out" 2>&1 </dev/null; then
        skipped=$(grep -c SKIPPED "$folder/out" || true)
        echo "$name: $(grep '^test result' "$folder/out" | cut -d. -f2 | cut -d';' -f1), $skipped SKIPPED"
    else
        echo "$name: FAILED"
        tail -40 "$folder/out"
        failed=1
    fi
done <"$folder/programs"
ordinary "$root" "$root/target/release/anode" demo "" >"$folder/out" 2>&1 </dev/null || { echo "demo: FAILED"; cat "$folder/out"; failed=1; }
exit $failed
