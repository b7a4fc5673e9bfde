#!/bin/sh
# Two programs side by side: capsules, their code and PLAN packets pass in both directions.
#   sh tests/compat/side_by_side.sh OLDER NEWER
set -eu
older=$1 newer=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
cd "$folder"
export XDG_RUNTIME_DIR="$folder" XDG_DATA_HOME="$folder"
end() {
    kill $(cat ./*.pid) 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT
node() {
    cat >"$1.toml" <<CONFIG
name = "$1"
run_dir = "run-$1"
store = "store-$1"
[plan]
hosts = "hosts"
[[port]]
udp = "127.0.0.1:4340$2"
address = ["10.0.0.$2/24"]
neighbours = [{ address = "10.0.0.$3", at = "127.0.0.1:4340$3" }]
CONFIG
}
printf '10.0.0.1 first\n10.0.0.2 second\n' >hosts
node older 1 2
node newer 2 1
"$older" node run older.toml 2>older.log & echo $! >older.pid
"$newer" node run newer.toml 2>newer.log & echo $! >newer.pid
until "$older" node status ./run-older >/dev/null 2>&1 && "$newer" node status ./run-newer >/dev/null 2>&1; do sleep 0.1; done
"$older" ping -c 3 --node ./run-older 10.0.0.2 | tee said
grep '3 received' said
"$newer" ping -c 3 --node ./run-newer 10.0.0.1 | tee said
grep '3 received' said
"$older" plan inject "$root/apps/plan/ping.plan" 4 'ping(hd thisHost(), getHostByName("second"))' --hosts hosts \
    --node ./run-older --replies 1 --wait 20 | grep Success
"$newer" plan inject "$root/apps/plan/ping.plan" 4 'ping(hd thisHost(), getHostByName("first"))' --hosts hosts \
    --node ./run-newer --replies 1 --wait 20 | grep Success
# Each is asked by the program of the other version, too.
"$older" node status ./run-newer >/dev/null
"$newer" node status ./run-older --json >/dev/null
"$older" node down ./run-newer
"$newer" node down ./run-older
echo "both versions pass capsules, code and PLAN"
