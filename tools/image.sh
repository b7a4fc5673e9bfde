#!/bin/sh
# An image from scratch of target/release/anode, or of ANODE_PROGRAM: the program, and the C library it needs. Into FOLDER/anode.oci.tar.
set -eu
out=$1
program=${ANODE_PROGRAM:-target/release/anode}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/usr/bin" "$root/etc" "$root/run" "$root/tmp" "$root/var/lib/anode"
strip -o "$root/usr/bin/anode" "$program"
# The loader and what it loads, where the program looks for them.
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
# One of the system's users: those that environments get are no node's ([jail] users).
printf 'root:x:0:0:root:/:/\nanode:x:990:990:anode:/var/lib/anode:/\n' >"$root/etc/passwd"
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
container=$(buildah from scratch)
buildah copy --quiet "$container" "$root" / >/dev/null
buildah config --entrypoint '["/usr/bin/anode"]' --cmd --help "$container"
buildah commit --quiet --rm "$container" "oci-archive:$out/anode.oci.tar" >/dev/null
