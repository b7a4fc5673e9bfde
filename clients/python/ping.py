#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An example: pings a node by capsule, as `anode ping` does.

    anode code build apps/ping.c -o ping.anb
    python3 clients/python/ping.py NODE ping.anb 10.0.0.3
"""

import os
import struct
import sys
import time

import anode


def main(node, bundle, destination, count=3):
    with anode.Control(node) as control:
        code = control.add_code(bundle)
    token = os.urandom(4)
    received = 0
    with anode.Attachment(node) as here:
        for sequence in range(int(count)):
            sent = time.monotonic()
            # struct ping of apps/ping.c: token, sequence, and four bytes that the nodes fill.
            here.send(destination, code, payload=token + struct.pack("!I4x", sequence), bound=255)
            while capsule := here.receive(timeout=max(0, sent + 2 - time.monotonic())):
                if capsule.payload[:4] == token and struct.unpack_from("!I", capsule.payload, 4)[0] == sequence:
                    there, back = capsule.payload[9], capsule.payload[10]
                    rtt = (time.monotonic() - sent) * 1000
                    print(f"from {capsule.source}: seq {sequence}, {there} + {back} hops, {rtt:.3f} ms")
                    received += 1
                    break
    print(f"{count} sent, {received} received")
    return 0 if received else 1


if __name__ == "__main__":
    if not 4 <= len(sys.argv) <= 5:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(*sys.argv[1:]))
    except anode.Error as error:
        print(f"ping: {error}", file=sys.stderr)
        sys.exit(1)
