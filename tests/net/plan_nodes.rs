//! PLAN on nodes as real processes: in an overlay of UDP sockets without privileges, and on real interfaces.

use crate::running::{ANODE, LINE, PATIENCE, Running};
use crate::wait;
use anode::apps::plan::{Local, Script, delivered, packet};
use anode::manage::client::Control;
use anode::manage::client::plan::{PlanPort, Told};
use plan::value::{Host, Value};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const COUNT: usize = 3;

/// A line of three nodes, each a process: node i has the address 10.0.0.i+1.
struct Overlay {
    folder: tempfile::TempDir,
    tcp: SocketAddr,
    nodes: Vec<Child>,
}

fn addr(at: usize) -> String {
    format!("10.0.0.{}", at + 1)
}

impl Overlay {
    fn start(more: &str) -> Overlay {
        let sockets: Vec<_> = (0..COUNT).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        drop(sockets);
        let mut line = Overlay { folder: tempfile::tempdir().unwrap(), tcp, nodes: Vec::new() };
        std::fs::write(line.folder.path().join("hosts"), "10.0.0.1 first\n10.0.0.3 last third # two names\n").unwrap();
        let key = line.folder.path().join("key");
        std::fs::write(&key, "07".repeat(32)).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        for at in 0..COUNT {
            line.run(at, &ports, more);
        }
        line
    }

    fn dir(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("n{at}"))
    }

    fn run(&mut self, at: usize, ports: &[u16], more: &str) {
        let near = [at.checked_sub(1), (at + 1 < COUNT).then_some(at + 1)];
        let neighbours: Vec<String> = near
            .into_iter()
            .flatten()
            .map(|n| format!("{{ address = \"{}\", at = \"127.0.0.1:{}\" }}", addr(n), ports[n]))
            .collect();
        let tcp = if at == 0 { format!("tcp = \"{}\"\n", self.tcp) } else { String::new() };
        let mut config = format!(
            "name = \"n{at}\"\nrun_dir = {:?}\n[plan]\nhosts = {:?}\n{tcp}{more}\n[[plan.principal]]\nname = \"operator\"\n\
             key_file = {:?}\nservices = [\"memoryUse\"]\n\
             [[port]]\nudp = \"127.0.0.1:{}\"\naddress = [\"{}/24\"]\nneighbours = [{}]\n",
            self.dir(at),
            self.folder.path().join("hosts"),
            self.folder.path().join("key"),
            ports[at],
            addr(at),
            neighbours.join(", ")
        );
        config = config.replace("OWN-PORT", &format!("udp-{}", ports[at]));
        for to in (0..COUNT).filter(|to| to.abs_diff(at) > 1 && !more.contains("routing")) {
            let via = if to > at { at + 1 } else { at - 1 };
            config += &format!("[[route]]\nto = \"{}/32\"\nvia = \"{}\"\n", addr(to), addr(via));
        }
        let file = self.folder.path().join(format!("n{at}.toml"));
        std::fs::write(&file, config).unwrap();
        self.nodes.push(Command::new(ANODE).args(["node", "run"]).arg(&file).stderr(Stdio::null()).spawn().unwrap());
        wait::control(&self.dir(at), self.nodes.last(), || format!("node {at}"));
    }

    fn status(&self, at: usize) -> serde_json::Value {
        crate::running::accounted(Control::connect(&self.dir(at)).unwrap().status().unwrap())
    }

    fn inject(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(ANODE);
        command.args(["plan", "inject"]).args(arguments).current_dir(self.folder.path()).output().unwrap()
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        for child in &mut self.nodes {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn program(name: &str) -> String {
    format!("{}/apps/plan/{name}.plan", env!("CARGO_MANIFEST_DIR"))
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_program_is_injected_by_socket_and_by_tcp() {
    let line = Overlay::start("");
    let (dir, tcp) = (line.dir(0).display().to_string(), line.tcp.to_string());
    let call = "ping(hd thisHost(), getHostByName(\"10.0.0.3\"))";
    let ping = program("ping");
    for place in [["--node", &dir], ["--port", &tcp]] {
        let output = line.inject(&[&ping, "9", call, place[0], place[1], "--replies", "1", "--wait", "20"]);
        assert_eq!(printed(&output), "Success");
    }
    // Reports come home too, and the node in the middle only routed.
    let (errors, go) = (program("errors"), "go(hd thisHost(), getHostByName(\"10.0.0.3\"), 0)");
    let output = line.inject(&[&errors, "9", go, "--node", &dir, "--replies", "1", "--wait", "20"]);
    assert_eq!(output.status.code(), Some(3), "an exception is told from a value");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "ERROR: <chunk:\nwork[10.0.0.1;0]> raised DivByZero on 10.0.0.3\n");
    let status = line.status(1);
    assert_eq!(status["plan"]["evaluated"], 0, "{status}");
    // With the hosts of the node, evaluated elsewhere first, in a flow.
    let look = line.folder.path().join("look.plan");
    let source = "fun look(n : string, home : host) = OnRemote(|tell|(getHostByName(n), getFlow(), hd thisHost()), \
                  home, getRB(), defaultRoute)
                  fun tell(found : host, flow : int, at : host) = print((found, flow, at))";
    std::fs::write(&look, source).unwrap();
    let arguments = [
        "look.plan",
        "9",
        "look(\"third\", hd thisHost())",
        "--node",
        &dir,
        "--ed",
        "10.0.0.3",
        "--fid",
        "77",
        "--replies",
        "1",
        "--wait",
        "20",
    ];
    assert_eq!(printed(&line.inject(&arguments)), "(10.0.0.3, 77, 10.0.0.3)");
}

#[test]
fn packets_go_by_the_routes_of_an_extension() {
    let routes = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/apps/extensions/routes.wat")).unwrap();
    // No route of the nodes' own leads on.
    let more = format!("routing = \"routes.next\"\n[[extension]]\nname = \"routes\"\nmodule = '''\n{routes}'''\n");
    let line = Overlay::start(&more);
    let add = |at: usize, words: &[&str]| {
        let mut command = Command::new(ANODE);
        let done = command.args(["node", "call"]).arg(line.dir(at)).args(words).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    std::fs::write(
        line.folder.path().join("by.plan"),
        "svc next : host -> host * dev
        fun there(home : host) : unit = OnRemote(|back|(hd thisHost()), home, getRB(), next)
        fun back(at : host) : unit = print(at)
        fun go(dest : host) : unit = OnRemote(|there|(hd thisHost()), dest, getRB(), next)",
    )
    .unwrap();
    let (dir, ping) = (line.dir(0).display().to_string(), program("ping"));
    let go = |arguments: [&str; 3]| {
        let output = line.inject(&[&arguments[..], &["--node", &dir, "--replies", "1", "--wait", "20"]].concat());
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let by_name = ["by.plan", "9", "go(getHostByName(\"10.0.0.3\"))"];
    let by_default = [&ping, "9", "ping(hd thisHost(), getHostByName(\"10.0.0.3\"))"];
    assert!(go(by_name).contains("raised NotFound on 10.0.0.1"), "{}", go(by_name));
    assert!(go(by_default).contains("NoRoute"), "{}", go(by_default));
    // On the way back each node needs one, too.
    add(0, &["routes.add", "10.0.0.0", "24", "10.0.0.2", "0"]);
    add(1, &["routes.add", "10.0.0.3", "32", "10.0.0.3", "0"]);
    add(1, &["routes.add", "10.0.0.0", "31", "10.0.0.1", "0"]);
    add(2, &["routes.add", "0.0.0.0", "0", "10.0.0.2", "0"]);
    assert_eq!((go(by_name).trim(), go(by_default).trim()), ("10.0.0.3", "Success"));
    add(0, &["routes.remove", "10.0.0.0", "24"]);
    assert!(go(by_name).contains("raised NotFound on 10.0.0.1"), "{}", go(by_name));
    let mut unload = Command::new(ANODE);
    let said = unload.args(["extension", "unload"]).arg(line.dir(0)).arg("routes").output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("of the configuration"), "it is what defaultRoute asks");
    line.status(1);
}

#[test]
fn what_cannot_be_injected_is_refused_with_its_reason() {
    let line = Overlay::start("");
    let (dir, ping) = (line.dir(0).display().to_string(), program("ping"));
    let said = |arguments: &[&str]| {
        let output = line.inject(arguments);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&[&ping, "9", "pong(1)", "--node", &dir]).contains("pong"));
    assert!(said(&[&ping, "9", "ping(1, 2)", "--node", &dir]).contains("expected"));
    assert!(said(&[&ping, "9", "ack()", "--node", "/nowhere/at/all"]).contains("no node answers"));
    let elsewhere = said(&[&ping, "9", "ack()", "--node", &dir, "--ed", "192.0.2.1"]);
    assert!(elsewhere.contains("no-route"), "{elsewhere}");
}

#[test]
fn a_packet_can_be_written_and_a_call_read() {
    let line = Overlay::start("");
    let file = line.folder.path().join("packet");
    let output =
        Command::new(ANODE).args(["plan", "inject", &program("ping"), "5", "ack()", "-o"]).arg(&file).output().unwrap();
    assert_eq!(printed(&output), "");
    let bytes = std::fs::read(&file).unwrap();
    let mut port = PlanPort::attach_tcp(line.tcp, 0).unwrap();
    port.inject(&bytes).unwrap();
    assert_eq!(port.receive(PATIENCE).unwrap(), Some(Told::Printed("Success".into())));
}

#[test]
fn values_reach_a_listening_application_and_connections_close() {
    let line = Overlay::start("");
    let mut server = PlanPort::attach(&line.dir(2), 7).unwrap();
    assert!(PlanPort::attach(&line.dir(2), 7).is_err(), "the number is taken");
    let mut client = PlanPort::attach(&line.dir(0), 0).unwrap();
    let source = "fun there(what : (int * string) list) : unit =
                    let val port = openPort(hd thisHost(), 7) in (deliver(port, what); closePort(port)) end
                  fun send(to : host) : unit = OnRemote(|there|([(1, \"one\"); (2, \"two\")]), to, getRB(), defaultRoute)";
    let script = Script::new("send", source).unwrap();
    let chunk = script.first("send(getHostByName(\"10.0.0.3\"))", &mut Local::default()).unwrap();
    client.inject(&packet(chunk, 9).bytes().unwrap()).unwrap();
    let mut next = || server.receive(PATIENCE).unwrap().unwrap();
    let Told::Opened(opened, from, 7) = next() else { panic!("not opened") };
    let Told::Delivered(port, bytes) = next() else { panic!("nothing delivered") };
    let (header, value) = delivered(&bytes).unwrap();
    assert_eq!((port, from.to_string(), value.to_string()), (opened, addr(0), "[(1, \"one\");(2, \"two\")]".into()));
    assert_eq!(header.source, Host::v4([10, 0, 0, 1]));
    assert_eq!(next(), Told::Closed(opened));
}

#[test]
fn the_system_finds_names_while_packets_go_on() {
    let line = Overlay::start("");
    let mut port = PlanPort::attach(&line.dir(0), 0).unwrap();
    let source = "fun find(n : string) : unit = print(try (n, getHostByName(n)) handle BadHost => (n, getSource()))
                  fun say(n : string) : unit = print((n, getSource()))";
    let script = Script::new("find", source).unwrap();
    for (name, expected) in [("localhost", ""), ("nobody.invalid", "(\"nobody.invalid\", 10.0.0.1)")] {
        let chunk = script.chunk("find", [Value::text(name.as_bytes())]).unwrap();
        port.inject(&packet(chunk, 1).bytes().unwrap()).unwrap();
        let Some(Told::Printed(said)) = port.receive(PATIENCE).unwrap() else { panic!("nothing") };
        assert!(expected.is_empty() && said.starts_with("(\"localhost\", ") || said == expected, "{said}");
    }
}

#[test]
fn a_principal_sees_more_than_anyone() {
    let line = Overlay::start("restricted = [\"memoryUse\"]");
    let dir = line.dir(0).display().to_string();
    std::fs::write(line.folder.path().join("who.plan"), "fun who() = print((getPrincipal(), length(memoryUse()) > 0))")
        .unwrap();
    let common = ["who.plan", "1", "who()", "--node", &dir, "--replies", "1", "--wait", "20"];
    let output = line.inject(&common);
    let anyone = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(3) && anyone.contains("raised ServiceNotPresent"), "{anyone}");
    let with = [&common[..], &["--principal", "operator", "--key", "key"]].concat();
    assert_eq!(printed(&line.inject(&with)), "(\"operator\", true)");
}

/// What a node takes of a neighbour's bound: its port's, or less if `[plan]` says so, and never more.
#[test]
fn plan_lowers_the_ceiling_of_a_port_and_never_raises_it() {
    let source = "fun say(n) = print(n)\nfun left(home) = OnRemote(|say|(getRB()), home, getRB(), defaultRoute)\n\
                  fun go(home, dest) = OnRemote(|left|(home), dest, getRB(), defaultRoute)\n";
    let ingress = |most: u32| format!("bound_max = 2000\n[[plan.ingress]]\nport = \"OWN-PORT\"\nbound_max = {most}");
    for (more, left) in [("bound_max = 2000".to_owned(), "64"), (ingress(5), "5"), (ingress(1000), "64")] {
        let line = Overlay::start(&more);
        std::fs::write(line.folder.path().join("left.plan"), source).unwrap();
        let (dir, call) = (line.dir(0).display().to_string(), "go(hd thisHost(), getHostByName(\"10.0.0.2\"))");
        let output = line.inject(&["left.plan", "900", call, "--node", &dir, "--replies", "1", "--wait", "20"]);
        assert_eq!(printed(&output).trim(), left, "{more}");
    }
}

#[test]
fn rip_finds_the_ways_of_running_nodes() {
    let line = Overlay::start("routing = \"rip\"\nrip_update_ms = 100");
    wait::told(&line.dir(0), "status", |status| (status["plan"]["rip_routes"] == 2).then_some(()));
    let dir = line.dir(0).display().to_string();
    let call = "ping(hd thisHost(), getHostByName(\"10.0.0.3\"))";
    let output = line.inject(&[&program("ping"), "9", call, "--node", &dir, "--replies", "1", "--wait", "20"]);
    assert_eq!(printed(&output), "Success");
}

#[test]
fn rip_finds_neighbours_on_interfaces_that_nobody_configured() {
    let rip = |_: &str, config: &mut toml::Table| {
        config.insert("plan".into(), toml::from_str("routing = \"rip\"\nrip_update_ms = 1000").unwrap());
    };
    let Some(net) = Running::up_with("planrip", LINE, &rip) else { return };
    // Both ends have found the node in the middle, and by it each other: four addresses of its, two of the other end.
    for end in ["a", "b"] {
        net.await_status(end, |status| status["plan"]["rip_routes"] == 6);
    }
    let ping = Script::new("ping", &std::fs::read_to_string(program("ping")).unwrap()).unwrap();
    for (home, to) in [("10.0.1.1", "10.0.2.2"), ("fd00:0:1::1", "fd00:0:2::2")] {
        let hosts = format!("ping(getHostByName(\"{home}\"), getHostByName(\"{to}\"))");
        assert_eq!(call(net.dir("a"), &ping, &hosts, 9, 1), ["Success"]);
    }
}

#[test]
fn only_plan_messages_pass_the_bridge() {
    let line = Overlay::start("");
    let stream = std::net::TcpStream::connect(line.tcp).unwrap();
    let mut buffer = [0; 1000];
    for message in [&[1, 0, 0][..], &[2; 100], &[0xff]] {
        anode::manage::plan::send(&stream, message).unwrap();
        let length = anode::manage::plan::receive(&stream, &mut buffer).unwrap();
        assert!(String::from_utf8_lossy(&buffer[..length]).contains("only PLAN messages"));
    }
}

/// Each byte is in time, and what they are of is not.
#[test]
fn who_attaches_byte_by_byte_is_closed_too() {
    use std::io::{Read, Write};
    /// Between two bytes.
    const GAP: std::time::Duration = std::time::Duration::from_secs(1);
    let line = Overlay::start("");
    let mut stream = std::net::TcpStream::connect(line.tcp).unwrap();
    stream.set_read_timeout(Some(GAP)).unwrap();
    stream.write_all(&60_000u32.to_be_bytes()).unwrap();
    let patience = wait::Patience::new();
    // What is closed takes no more, or says so.
    while stream.write_all(&[11]).is_ok() && stream.read(&mut [0]).is_err() {
        patience.left(|| "it is open".into());
    }
}

/// A connection from an address of this host.
fn connect(from: [u8; 4], to: std::net::SocketAddr) -> std::net::TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stream, &std::net::SocketAddr::from((from, 0))).unwrap();
    connect(&stream, &to).unwrap();
    stream.into()
}

#[test]
fn silent_connections_to_the_bridge_leave_others_room_and_are_closed() {
    let line = Overlay::start("");
    let silent: Vec<_> = (0..100).map(|_| connect([127, 0, 0, 2], line.tcp)).collect();
    let port = PlanPort::attach_tcp(line.tcp, 0).unwrap();
    let mut buffer = [0; 100];
    // Some were refused at once; none stays.
    for mut stream in silent {
        while std::io::Read::read(&mut stream, &mut buffer).is_ok_and(|length| length > 0) {}
    }
    drop(port);
    let all: Vec<_> = (0..20).map(|_| PlanPort::attach_tcp(line.tcp, 0).unwrap()).collect();
    assert_eq!(all.len(), 20, "places are given back");
}

#[test]
fn the_python_client_injects_and_receives() {
    let line = Overlay::start("");
    let folder = line.folder.path();
    let output = Command::new(ANODE)
        .args([
            "plan",
            "inject",
            &program("ping"),
            "9",
            "ping(getHostByName(\"10.0.0.1\"), getHostByName(\"10.0.0.3\"))",
        ])
        .args(["-o", "packet"])
        .current_dir(folder)
        .output()
        .unwrap();
    printed(&output);
    let script = "
import sys
import anode_plan as plan
address, port = sys.argv[2].rsplit(':', 1)
for place in sys.argv[1], (address, int(port)):
    with plan.Port(place, listen=8) as here:
        here.inject(plan.Packet.decode(open('packet', 'rb').read()))
        print(here.receive(20).text)
        here.inject(plan.Packet(plan.Chunk('deliver', arguments=[plan.PortId(here.port), ('back', [1, 2])]), bound=1))
        print(here.receive(20).value)
";
    let output = Command::new("python3")
        .args(["-c", script, line.dir(0).to_str().unwrap(), &line.tcp.to_string()])
        .env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/clients/python"))
        .current_dir(folder)
        .output();
    let Ok(output) = output else {
        assert!(std::env::var_os("CI").is_none(), "continuous integration must have python3");
        println!("SKIPPED: there is no python3");
        return;
    };
    assert_eq!(printed(&output), "Success\n('back', [1, 2])\n".repeat(2));
}

/// Injects a call at a node of a lab by its socket; what is printed.
fn call(dir: &Path, script: &Script, call: &str, bound: u32, replies: usize) -> Vec<String> {
    let mut port = PlanPort::attach(dir, 0).unwrap();
    let mut local = Local { addresses: port.addresses().iter().map(|addr| Host(addr.0)).collect(), ..Local::default() };
    let chunk = script.first(call, &mut local).unwrap();
    port.inject(&packet(chunk, bound).bytes().unwrap()).unwrap();
    let next = |_| match port.receive(PATIENCE).unwrap() {
        Some(Told::Printed(text)) => text,
        other => panic!("{other:?}"),
    };
    (0..replies).map(next).collect()
}

#[test]
fn packets_go_natively_from_interface_to_interface() {
    let Some(net) = Running::up("plan", LINE) else { return };
    let script = |name: &str| Script::new(name, &std::fs::read_to_string(program(name)).unwrap()).unwrap();
    let dir = net.dir("a");
    for (home, to) in [("10.0.1.1", "10.0.2.2"), ("fd00:0:1::1", "fd00:0:2::2")] {
        let hosts = format!("(getHostByName(\"{home}\"), getHostByName(\"{to}\")");
        assert_eq!(call(dir, &script("ping"), &format!("ping{hosts})"), 9, 1), ["Success"]);
        let mut hops = call(dir, &script("traceroute"), &format!("trace{hosts}, 0)"), 30, 6);
        hops.retain(|text| text != "\n");
        hops.sort();
        assert!(hops[0].starts_with("(0, ") && hops[1].starts_with("(1, ") && hops[2].starts_with("(2, "), "{hops:?}");
    }
    // Longer than a frame: it goes in pieces.
    let long = Script::new(
        "long",
        "fun back(load : blob) : unit = print(load)
         fun there(load : blob, home : host) : unit = OnRemote(|back|(load), home, getRB(), defaultRoute)
         fun long(load : blob, home : host, to : host) : unit = OnRemote(|there|(load, home), to, getRB(), defaultRoute)",
    )
    .unwrap();
    let mut port = PlanPort::attach(dir, 0).unwrap();
    let ends = ["10.0.1.1", "10.0.2.2"].map(|text| Value::Host(Host(text.parse::<anode::wire::Addr>().unwrap().0)));
    let [home, to] = ends;
    let chunk = long.chunk("long", [Value::Blob(vec![9; 20_000].into()), home, to]).unwrap();
    // 14 frames on each of four links.
    port.inject(&packet(chunk, 60).bytes().unwrap()).unwrap();
    assert_eq!(port.receive(PATIENCE).unwrap(), Some(Told::Printed("<blob of 20000 bytes>".into())));
    // A lab's nodes know each other's names.
    let ask = Script::new("ask", "fun ask(name : string) : unit = print(getHostByName(name))").unwrap();
    for name in ["a", "b"] {
        let said = call(dir, &ask, &format!("ask(\"{name}\")"), 1, 1).concat();
        let address = said.parse().unwrap_or_else(|_| panic!("{name}: {said}"));
        let known = net.lab.topology().node(name).unwrap().all_addresses().any(|own| own == address);
        assert!(known, "{name}: {said}");
    }
    // The process's heap is known to programs from the first sweep on.
    let kept = Script::new("kept", "fun kept() : unit = print(memoryUse())").unwrap();
    net.until("a", || call(dir, &kept, "kept()", 1, 1).concat().contains("(\"heap-bytes\", ").then_some(()));
}

/// The interface files of three daemons, two of them on one host, and their hosts file: what comes out runs, and the old names are known.
#[test]
fn files_of_old_daemons_become_a_network_that_answers_to_the_old_names() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("first.ifc", "1\nip0 ip athens:3340 athens:3341\n"),
        ("middle.ifc", "2\nip0 ip athens:3341 athens:3340\neth0 ethernet 158.130.6.2 sparta\n"),
        ("last.ifc", "1\neth0 ethernet sparta 158.130.6.2\n"),
        ("EXP_IP_ADDRS", "158.130.6.1 athens\n158.130.6.3 sparta\n"),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let anode =
        |arguments: &[&str]| printed(&Command::new(ANODE).args(arguments).current_dir(folder.path()).output().unwrap());
    let [first, middle, last, hosts] = files.map(|(name, _)| name);
    let topology = anode(&["lab", "import", first, middle, last, "--hosts", hosts, "--hosts-to", "hosts"]);
    let Some(net) = Running::up("planold", &topology) else { return };
    let dir = net.dir("first").to_str().unwrap();
    for name in ["sparta", "sparta:3324", "158.130.6.3", "last", "athens:3341", "158.130.6.2"] {
        let call = format!("ping(hd thisHost(), getHostByName(\"{name}\"))");
        let said = anode(&[
            "plan",
            "inject",
            &program("ping"),
            "9",
            &call,
            "--hf",
            "hosts",
            "--node",
            dir,
            "--replies",
            "1",
            "--wait",
            "20",
        ]);
        assert_eq!(said, "Success", "{name}");
    }
    // The nodes know the old names themselves.
    std::fs::write(folder.path().join("ask.plan"), "fun ask(name : string) : unit = print(getHostByName(name))")
        .unwrap();
    for (name, address) in [("sparta", "10.0.1.2"), ("last", "10.0.1.2"), ("athens:3340", "10.0.0.1")] {
        let call = format!("ask(\"{name}\")");
        let said = anode(&["plan", "inject", "ask.plan", "1", &call, "--node", dir, "--replies", "1", "--wait", "20"]);
        assert_eq!(said, address, "{name}");
    }
}
