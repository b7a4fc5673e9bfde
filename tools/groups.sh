#!/bin/sh
# Tests under control groups of version 2, on a host that has bound their controllers to version 1. A Debian kernel
# boots in an emulator, with this host's files below an overlay in memory, and runs the programs of the tests as its
# root. Nothing on the host changes.
#
#   sh tools/groups.sh [PARTS of tests/run, default jail]
#
# It needs the Debian packages qemu-system-x86, busybox-static, cpio and kmod. The kernel is that of `apt-get download`,
# or the package named by ANODE_KERNEL=FILE.deb. The emulator translates, which takes some minutes; where KVM works,
# ANODE_ACCELERATOR=kvm and ANODE_CPU=host are faster. ANODE_VM_SECONDS (default 1200) bounds its time.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- jail
seconds=${ANODE_VM_SECONDS:-1200}
repository=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"

cargo test --release --locked --no-run --message-format=json --test run >"$folder/built"
python3 - "$folder/built" >"$folder/programs" <<'END'
import json, sys
for line in open(sys.argv[1]):
    message = json.loads(line) if line.startswith("{") else {}
    if message.get("executable") and message.get("profile", {}).get("test"):
        print(message["executable"])
END
[ -s "$folder/programs" ] || { echo "no tests were built" >&2; exit 1; }

# The kernel, and the modules that it needs for 9p, the overlay and the tests, each after those that it needs.
package=${ANODE_KERNEL:-}
if [ -z "$package" ]; then
    meta=linux-image-amd64
    real=$(apt-cache depends "$meta" | sed -n 's/^ *Depends: *\(linux-image-[0-9].*\)$/\1/p' | head -n 1)
    (cd "$folder" && apt-get download "$real" >/dev/null)
    package=$(ls "$folder"/linux-image-*.deb)
fi
dpkg-deb -x "$package" "$folder/kernel"
image=$(ls "$folder"/kernel/boot/vmlinuz-*)
version=${image##*/vmlinuz-}
[ -d "$folder/kernel/lib" ] || ln -s usr/lib "$folder/kernel/lib"
depmod -b "$folder/kernel" "$version"
mkdir -p "$folder/root/bin" "$folder/root/modules" "$folder/root/proc" "$folder/root/sys" "$folder/root/dev" \
    "$folder/root/host" "$folder/root/memory" "$folder/root/new"
cp "$(command -v busybox)" "$folder/root/bin/busybox"
for module in virtio_pci 9pnet_virtio 9p overlay veth; do
    modprobe -d "$folder/kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done | awk '!seen[$0]++' | while read -r file; do
    count=$((${count:-100} + 1))
    cp "$file" "$folder/root/modules/$count-$(basename "$file")"
done
cat >"$folder/root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in /modules/*; do
    case $module in
        *.xz) xz -dc "$module" >/module.ko; module=/module.ko ;;
    esac
    insmod "$module"
done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=1048576,cache=loose host /host
mount -t tmpfs -o size=3g tmpfs /memory; mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work overlay /new
for place in proc sys dev; do mount --move /$place /new/$place; done
mkdir -p /new/dev/shm /new/dev/pts; mount -t tmpfs shm /new/dev/shm; mount -t devpts pts /new/dev/pts
mount -t tmpfs run /new/run; mount -t tmpfs tmp /new/tmp; mount -t bpf bpf /new/sys/fs/bpf
mount -t cgroup2 groups /new/sys/fs/cgroup
cp /tests /new/run/tests
# Not chroot: the kernel gives no user namespace to a process whose root is not that of its namespace.
exec switch_root /new /bin/sh /run/tests
END
{
    echo 'export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root'
    echo 'ip link set lo up; ulimit -l unlimited'
    echo 'echo "$(uname -r), cgroup.controllers: $(cat /sys/fs/cgroup/cgroup.controllers)"'
    echo "cd '$repository'"
    program=$(cat "$folder/programs")
    for part in "$@"; do echo "'$program' --test-threads 2 --color never $part:: && echo PASSED"; done
    echo 'echo o >/proc/sysrq-trigger; sleep 100'
} >"$folder/root/tests"
chmod +x "$folder/root/init"
(cd "$folder/root" && find . | cpio -o -H newc --quiet) >"$folder/initrd"

timeout "$seconds" qemu-system-x86_64 -accel "${ANODE_ACCELERATOR:-tcg,thread=single}" -cpu "${ANODE_CPU:-EPYC}" -m 6G -smp 1 -nographic -no-reboot \
    -kernel "$image" -initrd "$folder/initrd" -append "console=ttyS0 panic=-1 quiet tsc=reliable no_timer_check" \
    -virtfs "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap" </dev/null | tee "$folder/said"
[ "$(grep -c '^PASSED' "$folder/said")" = $# ] || { echo "not all of: $*" >&2; exit 1; }
