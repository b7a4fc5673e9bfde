//! The process in its jail: forks a child for each request that it is handed.

use super::ask::ask;
use super::job::{FILE_MAX, HttpJob, MESSAGE, leave, told};
use crate::sys::fork::{Bounds, Forker};
use crate::sys::jail;
use crate::sys::seqpacket::SeqPacket;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

/// What a child may use besides its time by the clock.
const CPU: Duration = Duration::from_millis(500);
const MEMORY: u64 = 16 << 20;

/// Serves the node behind `socket` until it goes. With each request come a way for the answer, a connection and a file.
pub fn serve(socket: OwnedFd) -> io::Result<()> {
    // A panic is told by how its child ends.
    std::panic::set_hook(Box::new(|_| {}));
    let forker = Forker::new(jail::load_seccomp("http-job")?);
    jail::apply_seccomp("http")?;
    let socket = SeqPacket::of(socket);
    loop {
        // One byte more than any request has, so that what is cut off is none.
        let mut message = vec![0; MESSAGE + 1];
        let (length, descriptors) = socket.receive_with(&mut message)?;
        if length == 0 {
            return Ok(());
        }
        let job = HttpJob::decode(&message[..length]).ok_or(io::ErrorKind::InvalidData)?;
        let [way, connection, file] = <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| io::ErrorKind::InvalidData)?;
        forker
            .fork_off(socket.as_fd(), || fetch(&job, &SeqPacket::of(way), connection.into(), file.into(), &forker))?;
    }
}

/// Has one request done, and tells how that ended.
fn fetch(job: &HttpJob, way: &SeqPacket, mut connection: File, mut file: File, forker: &Forker) -> io::Result<()> {
    let wall = Duration::from_millis(u64::from(job.wall_ms));
    let bounds = Bounds { cpu: CPU, memory: MEMORY, file: FILE_MAX as u64, wall };
    let ended = forker.run(bounds, way.as_fd(), || {
        let answer = ask(job, &mut connection);
        // What cannot be written is missing when the node reads it.
        let _ = leave(&answer, &mut file);
    })?;
    drop((connection, file));
    way.send(told(&ended).as_bytes())
}
