//! `anode lab capture`: the frames of a shaped link as they enter it, from both ends, in a capture file.
//!
//! They are seen where the link is carried, so all are there, also those that the kernel half redirects. It ends after so many frames, or
//! by a signal.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::lab::{Lab, LinkTap};
use crate::port::pcap::{Beginning, Capture, Captured};
use crate::sys::clock::unix_ns;
use crate::sys::packet::{self, PacketSocket, Room};
use crate::sys::poll::{Poll, Waker};

/// Bytes of frames from each end that may wait to be written.
const RING: usize = 8 << 20;

/// Frames that are put into the order of their coming at once.
const TURN: usize = 4096;

/// The longest wait, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

/// The token of the signals; sockets have 0 and 1.
const SIGNAL: u64 = 2;

/// Writes frames of a link, named by one of its ends, into a file.
pub(super) fn capture(lab: &Lab, link: &str, file: &Path, count: Option<u64>) -> anyhow::Result<()> {
    let tap = lab.tap(link)?;
    let mut sockets = open(&tap).with_context(|| format!("cannot listen on the link of {link}"))?;
    // One end was listened to before the other.
    let begin = unix_ns();
    let ends: Vec<_> = tap.interfaces.iter().map(|name| (name.clone(), Beginning::Ethernet)).collect();
    let mut out = Capture::create(file, &ends).with_context(|| file.display().to_string())?;
    let (waker, stop) = (Waker::new()?, Arc::new(AtomicBool::new(false)));
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (bell, told) = (waker.clone(), stop.clone());
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            told.store(true, Ordering::Relaxed);
            bell.wake();
        }
    })?;
    let mut poll = Poll::new()?;
    poll.add(&waker, SIGNAL)?;
    for (socket, token) in sockets.iter().zip(0..) {
        poll.add_port(socket, token, false)?;
    }
    let (mut ready, mut written, mut missed) = (Vec::new(), 0, 0);
    let most = count.unwrap_or(u64::MAX);
    while written < most && !stop.load(Ordering::Relaxed) {
        poll.wait(PATIENCE, &mut ready)?;
        let mut frames: Vec<(u64, u32, Vec<u8>)> = Vec::new();
        for (socket, end) in sockets.iter_mut().zip(0..) {
            let mut more = TURN;
            while more > 0 && socket.see(|seen| frames.push((seen.at, end, seen.pieces().concat()))) {
                more -= 1;
            }
            missed += u64::from(socket.overflows()?);
        }
        frames.retain(|(at, ..)| *at >= begin);
        frames.sort_by_key(|(at, ..)| *at);
        for (at, end, bytes) in frames.iter().take(usize::try_from(most - written).unwrap_or(usize::MAX)) {
            let packet = Captured { interface: *end, at: *at, inward: None, bytes, comment: "" };
            out.packet(&packet).with_context(|| file.display().to_string())?;
            written += 1;
        }
        out.flush().with_context(|| file.display().to_string())?;
    }
    let end = unix_ns();
    out.end(end, missed).with_context(|| file.display().to_string())?;
    crate::say!("{written} frames in {}, {missed} missed", file.display());
    Ok(())
}

fn open(tap: &LinkTap) -> anyhow::Result<Vec<PacketSocket>> {
    let open = |interface: &String| -> anyhow::Result<PacketSocket> {
        let room = Room::Bytes(RING);
        let fd = packet::open(packet::index(interface)?, libc::ETH_P_ALL as u16, tap.longest, room, None, None)?;
        Ok(PacketSocket::over(fd, tap.longest, room)?)
    };
    tap.place.enter(|| tap.interfaces.iter().map(open).collect::<anyhow::Result<Vec<_>>>())?
}
