"""The wheel of the Python client: its modules, with what a wheel says of itself (PEP 427). The same bytes for the same sources."""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

MODULES = ["anode.py", "anode_plan.py", "anode_plan_form.py", "nodeos.py"]
ROOT = pathlib.Path(__file__).resolve().parent.parent


def main(folder):
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)
    info = f"anode_client-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: anode-client\nVersion: {version}\nSummary: Applications of anode nodes\n"
    metadata += "License: Apache-2.0 OR MIT\nRequires-Python: >=3.9\n"
    files = {name: (ROOT / "clients/python" / name).read_bytes() for name in MODULES}
    files[f"{info}/METADATA"] = metadata.encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: anode\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = f"{info}/RECORD"
    lines = [f"{name},{digest(data)},{len(data)}" for name, data in files.items()]
    files[record] = "".join(line + "\n" for line in [*lines, f"{record},,"]).encode()
    path = pathlib.Path(folder) / f"anode_client-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


main(sys.argv[1])
