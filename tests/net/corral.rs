//! The trivial active network of the OKE Corral (Bos and Samwel, 2002, II.B), in its four steps: active packets re-plumb the data path of
//! ordinary ones while these pass, and none is lost, doubled or out of order.

use crate::build::{Linked, build};
use crate::extended::{OWN, load};
use crate::graphs::Stand;
use crate::running::PATIENCE;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Stdio};

const ROLE: &str = "[[role]]\nname = \"corral\"\n\
     grants = { channels = 4, bandwidth = 1_000_000_000, memory_bytes = 33_554_432, threads = 4 }\n\
     graphs = { edits_per_second = 100, engines = 32, text_bytes = 8192, devices = [\"to-b\"] }\n\
     [[graph]]\nname = \"path\"\nrole = \"corral\"\ntake = [\"to-a/ip/udp *:7000\"]\n\
     text = \"FromDevice(to-a) -> Discard;\"\n";

/// Datagrams of one burst: all that wait behind the queue together are less than the receiver's socket holds at once.
const BURST: u32 = 16;

/// The environment; killed when it goes.
struct Runtime(Child);

impl Drop for Runtime {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Corral {
    stand: Stand,
    _runtime: Runtime,
    /// Sends active packets.
    active: UdpSocket,
    from: UdpSocket,
    to: UdpSocket,
    sent: u32,
    came: u32,
}

impl Corral {
    fn new() -> Option<Corral> {
        let stand = Stand::new("corral", ROLE)?;
        load(&stand, vec![hex::encode(OWN)]);
        let [own, next] = &stand.macs;
        let path = format!(
            "FromDevice(to-a) -> entry :: Counter -> exit :: Null -> Strip(14) -> CheckIPHeader -> DecIPTTL \
             -> EtherEncap(0x800, {own}, {next}) -> Queue(4096) -> ToDevice(to-b);"
        );
        stand.said("apply", &["path", &stand.file("path.click", &path)]);
        let program = build("examples/nodeos/corral.c", stand.folder(), &["-O2"], Linked::Static);
        let mut command = stand.net.lab.command("r", program.to_str().unwrap()).unwrap();
        command.env("ANODE_NODEOS", stand.net.dir("r").join("nodeos.sock")).env_remove("LD_LIBRARY_PATH");
        command.args(["corral", "path", "if0/ip/udp", "10.0.1.2:9000", "if0/ip/udp", "*:9000 -> *:*"]);
        let mut runtime = Runtime(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(runtime.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let (active, from) = (stand.socket("a", "10.0.1.1:4001"), stand.socket("a", "10.0.1.1:4000"));
        active.connect("10.0.1.2:9000").unwrap();
        let to = stand.socket("b", "10.0.2.2:7000");
        // What is listed is open: the ports know of what the graph takes.
        stand.net.control("r").ask(&model::Ask::Channels).unwrap();
        Some(Corral { stand, _runtime: runtime, active, from, to, sent: 0, came: 0 })
    }

    /// Sends ordinary packets, which nobody waits for.
    fn send(&mut self) {
        for number in self.sent..self.sent + BURST {
            self.from.send_to(&number.to_be_bytes(), "10.0.2.2:7000").unwrap();
        }
        self.sent += BURST;
    }

    /// Takes all that are on their way, each once and behind the one before.
    fn receive(&mut self) {
        let mut buffer = [0; 64];
        while self.came < self.sent {
            let length = self.to.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..length], self.came.to_be_bytes(), "in their order, each once");
            self.came += 1;
        }
    }

    /// Sends an active packet with this code, and ordinary ones before and behind it; what is answered.
    fn change(&mut self, disconnect: &str, remove: &str, connect: &str) -> String {
        self.send();
        self.active.send(format!("{disconnect}\n{remove}\n{connect}").as_bytes()).unwrap();
        self.send();
        let mut said = [0; 1500];
        let length = self.active.recv(&mut said).unwrap();
        String::from_utf8_lossy(&said[..length]).into_owned()
    }

    fn read(&self, handler: &str) -> u32 {
        self.stand.said("read", &["path", handler]).trim().parse().unwrap()
    }

    /// Waits until a handler says this.
    fn await_count(&self, handler: &str, count: u32) {
        crate::wait::told(self.stand.net.dir("r"), "status", |_| (self.read(handler) == count).then_some(()));
    }
}

#[test]
fn the_four_steps_of_the_trivial_active_network_lose_and_mix_no_packet() {
    let Some(mut corral) = Corral::new() else { return };
    corral.from.set_write_timeout(Some(PATIENCE)).unwrap();
    // As it begins: what is pushed to the entry is pushed to the exit.
    corral.send();
    corral.receive();
    // Steps 1 and 2: the two engines are disconnected, and the entry is connected to a queue. One change, since each leaves a whole graph.
    let said = corral.change("entry -> exit", "", "entry -> q :: Queue(4096) -> none :: Idle -> exit");
    assert_eq!(said, "generation 3");
    corral.send();
    // Those before the change have gone, in their order, and all others wait.
    let passed = corral.sent - {
        corral.await_count("entry.count", corral.sent);
        corral.read("q.length")
    };
    let all = std::mem::replace(&mut corral.sent, passed);
    corral.receive();
    corral.sent = all;
    assert!(passed <= 3 * BURST, "none has come behind the change: {passed} of {all}");
    // A packet that asks for what cannot be changes nothing, and hears why.
    let said = corral.change("q -> nobody", "", "q -> exit");
    assert!(said.contains("graph path: ") && said.contains("nobody"), "{said}");
    let said = corral.change("", "", "entry -> ToDevice(to-a)");
    assert!(said.contains("graph path: "), "{said}");
    // Step 3: the runtime is an engine, which pulls packets from the queue; what it wants to send it keeps for now.
    let runtime = "q -> Unqueue -> runtime :: own/Same -> kept :: Queue(4096) -> none";
    assert_eq!(corral.change("q -> none", "", runtime), "generation 4");
    corral.await_count("runtime.calls", corral.sent - passed);
    assert_eq!((corral.read("q.length"), corral.read("kept.length")), (0, corral.sent - passed));
    // Step 4: its send is a push to the exit.
    assert_eq!(corral.change("kept -> none -> exit", "none", "kept -> Unqueue -> exit"), "generation 5");
    corral.receive();
    corral.send();
    corral.receive();
    assert_eq!(corral.read("runtime.calls"), corral.sent - passed, "from the change on all packets go through it");
    let shown: Value = serde_json::from_str(&corral.stand.said("show", &["path", "--json"])).unwrap();
    let graph = &shown["graph"];
    let sent = Value::from(corral.sent);
    assert_eq!((&graph["came"], &graph["left"], &graph["dropped"]), (&sent, &sent, &0.into()), "{graph}");
    assert_eq!(graph["edited"], 3, "{graph}");
    corral.stand.net.status("r");
}
