#!/usr/bin/env python3
"""The committed corpus of a fuzz target, to and from the folder of files that libFuzzer keeps.

    corpus.py unpack TARGET FOLDER     fuzz/corpus/TARGET.txt becomes files
    corpus.py pack TARGET FOLDER       files become fuzz/corpus/TARGET.txt: BYTES_MAX in all

A line of the file is an input in hexadecimal; lines are sorted by length, then by content, and none stands twice.
"""
import bisect
import hashlib
import itertools
import pathlib
import sys

INPUT_MAX = 2048
BYTES_MAX = 80_000


def main():
    act, target, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    packed = pathlib.Path(__file__).parent.parent / "fuzz" / "corpus" / (target + ".txt")
    if act == "unpack":
        folder.mkdir(parents=True, exist_ok=True)
        for line in packed.read_text().split() if packed.exists() else []:
            data = bytes.fromhex(line)
            (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
    elif act == "pack":
        inputs = {path.read_bytes() for path in folder.iterdir() if path.is_file()}
        lines = sorted((data.hex() for data in inputs if 0 < len(data) <= INPUT_MAX), key=lambda line: (len(line), line))
        # Where they are too many, half of the room is for the shortest, and half for others of all lengths: the long ones get far.
        ends = list(itertools.accumulate(len(line) // 2 for line in lines))
        short = len(lines) if not ends or ends[-1] <= BYTES_MAX else bisect.bisect_right(ends, BYTES_MAX // 2)
        kept = rest = lines[short:]
        while sum(len(line) // 2 for line in kept) > BYTES_MAX // 2:
            kept = [rest[at * len(rest) // (len(kept) - 1)] for at in range(len(kept) - 1)]
        kept = lines[:short] + kept
        packed.parent.mkdir(parents=True, exist_ok=True)
        packed.write_text("".join(line + "\n" for line in kept))
        print(f"{target}: {len(kept)} of {len(inputs)} inputs kept, {sum(len(line) // 2 for line in kept)} bytes")
    else:
        sys.exit(__doc__)


main()
