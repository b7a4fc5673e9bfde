//! What `make package` builds beside the package: the wheel of the Python client, installed by pip, and the image, in which a node runs.

use super::{SOURCES, Service, is_there, skipped};
use crate::gate;
use crate::running::ANODE;
use crate::single::is_root;
use crate::wait;
use std::path::Path;
use std::process::{Command, Stdio};

/// The wheel of the Python client is installed by pip, and imported from where it is then.
#[test]
fn the_wheel_is_installed_by_pip_and_imported() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let run = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), said)
    };
    let (made, said) = run("python3", &[&format!("{SOURCES}/tools/wheel.py"), &at("")]);
    assert!(made, "{said}");
    let (made, said) = run("python3", &["-m", "venv", &at("venv")]);
    if !made {
        return skipped(&format!("python3 makes no environment of its own (apt install python3-venv): {said}"));
    }
    let version = env!("CARGO_PKG_VERSION");
    let wheel = at(&format!("anode_client-{version}-py3-none-any.whl"));
    let python = at("venv/bin/python");
    let (done, said) = run(&python, &["-m", "pip", "install", "--no-index", "--disable-pip-version-check", &wheel]);
    assert!(done, "{said}");
    let modules = "import anode, anode_plan, nodeos, importlib.metadata as installed";
    let show = format!("{modules}; print(anode.__file__, installed.version('anode-client'))");
    let (done, said) = run(&python, &["-c", &show]);
    assert!(done && said.contains("site-packages") && said.ends_with(&format!("{version}\n")), "{said}");
}

/// What a container has beside its image, and the node in it.
const CONTAINER: &str = r#"set -eu
mkdir -p "$1/proc" "$1/sys" "$1/dev" "$1/etc/anode"
for place in proc sys dev; do mount --rbind "/$place" "$1/$place"; done
cp "$2" "$1/etc/anode/in-image.toml"
ip link set lo up
exec chroot "$1" /usr/bin/anode node run /etc/anode/in-image.toml
"#;

/// A node runs in the image, and becomes its user.
fn run_as_in_a_container(root: &Path, folder: &Path) {
    let (file, log) = (folder.join("in-image.toml"), folder.join("log"));
    let port = "[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.9.9.1/24\"]\n";
    let places = "run_dir = \"/run/anode/in-image\"\nstore = \"/var/lib/anode/in-image\"\n";
    std::fs::write(&file, format!("name = \"in-image\"\n{places}{port}")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--propagation", "private", "sh", "-c", CONTAINER, "sh"]);
    command.args([root, &file]).stdin(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let mut node = Service(command.spawn().unwrap());
    let said = || std::fs::read_to_string(&log).unwrap();
    wait::text(&log, Some(&node.0), |log| log.contains("node runs").then_some(()));
    let user = anode::sys::privileges::standing(&format!("/proc/{}", node.0.id())).unwrap().user;
    let users = std::fs::read_to_string(root.join("etc/passwd")).unwrap();
    assert!(users.contains(&format!("\nanode:x:{user}:{user}:")), "{user} is none of {users}");
    assert!(Command::new("kill").arg(node.0.id().to_string()).status().unwrap().success());
    assert!(wait::ended(&mut node.0).success(), "{}", said());
}

/// The image is made from nothing by buildah, and its program runs with what is in it alone.
#[test]
fn the_image_holds_all_that_its_program_needs() {
    if !is_root("an image is unpacked by root") {
        return;
    }
    if !is_there("buildah") {
        return skipped("buildah is not here (apt install buildah)");
    }
    gate::pass();
    let folder = tempfile::tempdir().unwrap();
    // Nothing of it is among the images of this host.
    let storage = folder.path().join("storage.conf");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let text =
        format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n", place("graph"), place("run"));
    std::fs::write(&storage, text).unwrap();
    let tool = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).current_dir(SOURCES).env("ANODE_PROGRAM", ANODE).env("CONTAINERS_STORAGE_CONF", &storage);
        let output = command.env("BUILDAH_ISOLATION", "chroot").output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout.clone(), output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{program} {words:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    tool("sh", &["tools/image.sh", folder.path().to_str().unwrap()]);
    let archive = format!("oci-archive:{}", folder.path().join("anode.oci.tar").display());
    let container = tool("buildah", &["from", "--quiet", &archive]);
    let root = tool("buildah", &["mount", &container]);
    let said = tool("chroot", &[&root, "/usr/bin/anode", "--version"]);
    let line = tool("chroot", &[&root, "/usr/bin/anode", "sim", "--help"]);
    run_as_in_a_container(Path::new(&root), folder.path());
    let configured = tool("buildah", &["inspect", "--format", "{{.OCIv1.Config.Entrypoint}}", &container]);
    tool("buildah", &["rm", &container]);
    assert!(said.contains(env!("CARGO_PKG_VERSION")) && !line.is_empty(), "{said}");
    assert_eq!(configured, "[/usr/bin/anode]");
}
