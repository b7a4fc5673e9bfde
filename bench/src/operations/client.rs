//! A node as a process, and a sender and a receiver of capsules at its overlay ports.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anode::code::bundle::Bundle;
use anode::wire::{Addr, Digest, anep, capsule};

use crate::node::Up;
use crate::{Error, programs};
use std::sync::Arc;

/// For how long nothing comes any more when all is there.
const SILENCE: Duration = Duration::from_millis(500);

/// Addresses: of the node, who sends and who receives.
const HERE: Addr = Addr::v4([10, 77, 0, 1]);
const FROM: Addr = Addr::v4([10, 77, 0, 2]);
const TO: Addr = Addr::v4([10, 77, 0, 3]);

/// A node that runs; it ends with this value.
pub(super) struct Node {
    process: Child,
    pub(super) dir: PathBuf,
    listen: SocketAddr,
    sender: UdpSocket,
    receiver: UdpSocket,
}

/// Where a node and its two neighbours are.
pub(super) struct Ends {
    listen: SocketAddr,
    sender: UdpSocket,
    receiver: UdpSocket,
}

impl Ends {
    /// Three free ports.
    pub(super) fn new() -> Result<Ends, Error> {
        let bind =
            || UdpSocket::bind("127.0.0.1:0").map_err(|cause| Error::Start { program: "a socket".into(), cause });
        let (sender, receiver) = (bind()?, bind()?);
        Ok(Ends { listen: crate::place::free_port()?, sender, receiver })
    }

    /// The configuration of the node with these lines of its own, whose sockets are in a folder.
    pub(super) fn configuration(&self, folder: &Path, own: &str) -> String {
        let at = |socket: &UdpSocket| socket.local_addr().map(|at| at.to_string()).unwrap_or_default();
        let near = |addr: Addr, socket| format!("{{ address = \"{addr}\", at = \"{}\" }}", at(socket));
        format!(
            "name = \"bench\"\nrun_dir = {:?}\n[[port]]\nudp = \"{}\"\naddress = [\"{HERE}/24\"]\nneighbours = [{}, {}]\n{own}",
            folder.join("run"),
            self.listen,
            near(FROM, &self.sender),
            near(TO, &self.receiver)
        )
    }
}

impl Node {
    /// Starts one that has this code.
    pub(super) fn start(ends: Ends, file: &Path, folder: &Path, bundle: &Bundle) -> Result<Node, Error> {
        let start = |cause| Error::Start { program: "anode".into(), cause };
        let mut command = Command::new(programs::node()?);
        command.args(["node", "run"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().map_err(start)?;
        let Ends { listen, sender, receiver } = ends;
        let node = Node { process, dir: folder.join("run"), listen, sender, receiver };
        Up::wait(&node.dir)?.add(bundle)?;
        Ok(node)
    }

    /// The way to ask it.
    pub(super) fn up(&self) -> Result<Up, Error> {
        Up::wait(&self.dir)
    }

    /// Sends capsules of a code at a pace from now on, and counts those that arrive.
    pub(super) fn load(&self, code: Digest, gap: Duration) -> Result<Load, Error> {
        let start = |cause| Error::Start { program: "a socket".into(), cause };
        let (sender, receiver) = (self.sender.try_clone().map_err(start)?, self.receiver.try_clone().map_err(start)?);
        receiver.set_read_timeout(Some(SILENCE)).map_err(start)?;
        let (stop, to) = (Arc::new(AtomicBool::new(false)), self.listen);
        let header = capsule::Header { app_port: 5, bound: 8, code, previous: FROM, source: FROM, destination: TO };
        let mut bytes = vec![0; anep::HEADER + capsule::HEADER];
        let emitted = header.emit(&mut bytes[anep::HEADER..]).is_ok();
        bytes.extend([0; 16]);
        let length = bytes.len() - anep::HEADER;
        let whole = emitted && anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, length).is_ok();
        assert!(whole, "a capsule fits into its own length");
        let (sent, came) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (stops, counts) = (stop.clone(), sent.clone());
        let sends = std::thread::spawn(move || {
            let begin = Instant::now();
            while !stops.load(Ordering::Relaxed) {
                let due = (begin.elapsed().as_nanos() / gap.as_nanos().max(1)) as u64;
                while counts.load(Ordering::Relaxed) < due {
                    if sender.send_to(&bytes, to).is_ok() {
                        counts.fetch_add(1, Ordering::Relaxed);
                    }
                }
                std::thread::sleep(gap);
            }
        });
        let (stops, counts) = (stop.clone(), came.clone());
        let receives = std::thread::spawn(move || {
            let mut frame = [0; 2048];
            loop {
                match receiver.recv(&mut frame) {
                    Ok(_) => drop(counts.fetch_add(1, Ordering::Relaxed)),
                    Err(_) if stops.load(Ordering::Relaxed) => return,
                    Err(_) => {}
                }
            }
        });
        Ok(Load { stop, sent, came, threads: [sends, receives] })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Capsules on their way.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    came: Arc<AtomicU64>,
    threads: [JoinHandle<()>; 2],
}

impl Load {
    /// How many have come so far.
    pub(super) fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }

    /// Ends it, waits until nothing comes any more, and gives how many were sent and have come.
    pub(super) fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // One that panicked has said so.
            let _ = thread.join();
        }
        (self.sent.load(Ordering::Relaxed), self.came.load(Ordering::Relaxed))
    }
}
