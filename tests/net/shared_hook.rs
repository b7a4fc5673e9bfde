//! An XDP program that somebody else has put at an interface: the node comes before it, and what is not the node's goes to
//! it, whatever becomes of the node. One that cannot be jumped to, or is a link's, is left where it is.

use crate::running::{self, ANODE, LINE, Running, in_kernel};
use anode::sys::bpf::{Hook, Link, Program, XdpMode};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

const B: &str = "10.0.2.2";

/// Drops datagrams to port 7777.
const WALL: &str = r#"
struct xdp_md { unsigned data, data_end, data_meta, ingress_ifindex, rx_queue_index; };
__attribute__((section(SECTION), used)) int wall(struct xdp_md *ctx)
{
    unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + 42 > end)
        return 2;
    return data[12] == 8 && data[13] == 0 && data[23] == 17 && data[36] == 0x1e && data[37] == 0x61 ? 1 : 2;
}
char terms[] __attribute__((section("license"), used)) = "GPL";
"#;

/// A lab whose node r does not run yet, with the wall at its interface to a.
fn walled(name: &str, section: &str) -> Option<Running> {
    walled_by(name, section, |object| format!("ip link set dev to-a xdp obj {object} sec {section}"))
}

/// The same, put there by a command.
fn walled_by(name: &str, section: &str, put: impl FnOnce(&str) -> String) -> Option<Running> {
    let net = Running::build(name, LINE)?;
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("wall.c"), WALL).unwrap();
    let at = dir.path().display();
    net.shell("r", &format!("clang -O2 -g -target bpf -DSECTION='\"{section}\"' -c {at}/wall.c -o {at}/wall.o"));
    net.shell("r", &put(&format!("{at}/wall.o")));
    Some(net)
}

/// The program at an interface of r.
fn program(net: &Running) -> Value {
    let shown: Value = serde_json::from_str(&net.shell("r", "ip -d -j link show dev to-a")).unwrap();
    shown[0]["xdp"]["prog"].clone()
}

/// Its number.
fn standing(net: &Running) -> Option<u64> {
    program(net)["id"].as_u64()
}

/// Whether what Linux forwards from a to b meets the wall, and nothing else does.
fn is_walled(net: &Running) -> bool {
    let open = |port: u16| net.lab.enter("b", || UdpSocket::bind((B, port)).unwrap()).unwrap();
    let (walled, free) = (open(7777), open(7778));
    let from = net.lab.enter("a", || UdpSocket::bind("10.0.1.1:0").unwrap()).unwrap();
    free.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    // The first may be lost while link addresses are asked for.
    for _ in 0..20 {
        from.send_to(b"walled", (B, 7777)).unwrap();
        from.send_to(b"free", (B, 7778)).unwrap();
        if free.recv(&mut [0; 16]).is_ok() {
            walled.set_nonblocking(true).unwrap();
            // What came before on the same way is there.
            return walled.recv(&mut [0; 16]).is_err();
        }
    }
    panic!("nothing is forwarded")
}

fn passes(net: &Running) -> bool {
    net.anode("a", &["ping", "-c", "3", "-i", "0.02", "-t", "0.3", B])["summary"]["received"] == 3
}

fn down(net: &Running) {
    let mut command = net.lab.command("r", ANODE).unwrap();
    let done = command.args(["node", "down"]).arg(net.dir("r")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn kill_all(net: &mut Running) {
    let pid = net.daemon("r").pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let all: Vec<String> = children.split_whitespace().map(str::to_owned).chain([pid.to_string()]).collect();
    assert!(Command::new("kill").arg("-KILL").args(&all).status().unwrap().success());
    net.kill("r");
    net.daemons.retain(|daemon| daemon.node != "r");
}

/// The wall has what is not the node's: before, during and after it, and when it has died.
fn a_wall_stays(name: &str, adjust: running::Adjust<'_>, there: impl Fn(&Running) -> bool) {
    let Some(mut net) = walled(name, "xdp.frags") else { return };
    let before = standing(&net);
    assert!(before.is_some() && is_walled(&net));
    net.start(adjust);
    for again in [true, false] {
        net.await_status("r", |_| passes(&net));
        assert!(there(&net) && standing(&net) != before, "{}", net.log("r"));
        assert!(is_walled(&net), "{}", net.log("r"));
        if again {
            kill_all(&mut net);
            assert!(is_walled(&net), "the node has died");
            net.start(adjust);
        }
    }
    down(&net);
    assert_eq!(standing(&net), before, "put back");
    assert!(is_walled(&net));
}

#[test]
fn a_program_that_was_there_has_what_is_not_the_kernel_halfs() {
    a_wall_stays("wallk", &in_kernel, |net| {
        let status = net.status("r");
        status["kernel"]["ports"].as_array().unwrap().iter().any(|port| port["behind"] == "wall")
    });
}

#[test]
fn a_program_that_was_there_has_what_goes_to_no_socket() {
    let said = "the XDP program that stands there has what is not the node's";
    a_wall_stays("walls", &running::sockets(false), |net| net.log("r").contains(said));
}

/// A program that stands at to-a stays, and the node says why.
fn it_stays(mut net: Running, why: &str) {
    let before = standing(&net);
    net.start(&in_kernel);
    let status = net.await_status("r", |_| passes(&net));
    let refused = status["kernel"]["refused"][0]["why"].as_str().unwrap_or_default();
    assert!(refused.contains(why), "{status}");
    down(&net);
    assert_eq!(standing(&net), before);
}

#[test]
fn a_program_that_cannot_be_jumped_to_stays() {
    let Some(net) = walled("wallf", "xdp") else { return };
    it_stays(net, "without frags");
}

#[test]
fn a_program_of_somebodys_link_stays() {
    let Some(net) = Running::build("walll", LINE) else { return };
    // Passes everything: r0 = 2, end.
    let code = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
    let _link: Link = net
        .lab
        .enter("r", || {
            let all = anode::sys::netlink::interfaces().unwrap();
            let index = all.iter().find(|found| found.name == "to-a").unwrap().index;
            let program = Program::load(Hook::Xdp, "theirs", &code, &[], None).unwrap();
            program.attach_xdp(index, XdpMode::Native).unwrap()
        })
        .unwrap();
    it_stays(net, "a link of another process");
}

/// A BPF file system for what libxdp keeps; it goes with this.
struct Kept(tempfile::TempDir);

impl Kept {
    fn new() -> Kept {
        let kept = Kept(tempfile::tempdir().unwrap());
        anode::sys::bpf::mount(kept.0.path()).unwrap();
        kept
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        assert!(Command::new("umount").arg(self.0.path()).status().unwrap().success());
    }
}

/// libxdp puts a dispatcher there, which jumps to programs that replace functions of it; where the kernel has none of that, the program
/// itself.
#[test]
fn what_libxdp_has_put_there_is_jumped_to_or_stays_and_it_takes_nothing_away() {
    let is_there = Command::new("xdp-loader").arg("help").output().is_ok();
    assert!(
        is_there || std::env::var_os("CI").is_none(),
        "continuous integration needs libxdp (apt install xdp-tools)"
    );
    if !is_there {
        return println!("SKIPPED: no xdp-loader");
    }
    let kept = Kept::new();
    let loader = |words: &str| format!("LIBXDP_BPFFS={} xdp-loader {words}", kept.0.path().display());
    let load = |object: &str| loader(&format!("load -m native -s xdp.frags to-a {object}"));
    let Some(mut net) = walled_by("libxdp", "xdp.frags", load) else { return };
    let before = program(&net);
    assert!(is_walled(&net), "{before}");
    net.start(&in_kernel);
    let status = net.await_status("r", |_| passes(&net));
    if before["name"] == "xdp_dispatcher" {
        let why = status["kernel"]["refused"][0]["why"].as_str().unwrap_or_default();
        assert!(why.contains("a dispatcher of libxdp"), "{status}");
        assert_eq!(program(&net), before);
    } else {
        assert_eq!(before["name"], "wall");
        assert!(status["kernel"]["ports"].as_array().unwrap().iter().any(|port| port["behind"] == "wall"), "{status}");
        // It cannot take away what stands there by a link.
        let unload = loader("unload --all to-a");
        let done = net.lab.command("r", "sh").unwrap().args(["-c", &unload]).output().unwrap();
        assert!(!done.status.success() && passes(&net), "{}", String::from_utf8_lossy(&done.stderr));
    }
    assert!(is_walled(&net), "{}", net.log("r"));
    down(&net);
    assert_eq!(program(&net), before);
    assert!(is_walled(&net));
}
