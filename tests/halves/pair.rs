//! The same case in a user half alone, and in a kernel half with a user half above it. Sent packets, deliveries, drops
//! with their reasons, and soft state must be the same.
//!
//! The clock of both stands still but for the steps of the cases. The kernel's cannot be stopped: it is set anew for
//! every case and goes on for as long as that takes. So the times that code writes into packets and state may be
//! later by that much, and by nothing else; and a case that took so long that soft state could have ended in the
//! meantime is not judged.

use super::generator::{Case, Kind, Subject};
use super::place::user::Went;
use super::place::{Came, MACS, OWN_MACS, Place};
use anode::core::reason::Reason;
use anode::kernel::KernelUsage;
use anode::wire::{Addr, ethernet, udp};
use std::collections::BTreeMap;

/// A step of the clock, in nanoseconds. No keep time of the cases is within 8 ms of a multiple of it.
const STEP: u64 = 64_000_000;

/// A case that takes longer is not judged, since soft state could have ended meanwhile.
const LATE_MAX: u64 = 7_000_000;

/// Learned neighbours are forgotten after 60 s of silence, and the user half does not hear those whose capsules
/// run in the kernel: so time jumps beyond that before it is over.
const STRETCH: u64 = 50_000_000_000;
const JUMP: u64 = STEP * 1000;

/// Steps that are longer than the time between two sweeps of a node.
const SWEEP: u64 = STEP * 2;

/// All soft state has ended after this.
const FORGOTTEN: u64 = STEP * 5000;

/// Differences shown before giving up.
const SHOWN_MAX: usize = 8;

/// Where cases of one kind ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    pub cases: u64,
    /// Sent or dropped there.
    pub kernel: u64,
    /// Passed up before, and after the code has run.
    pub up: u64,
    pub up_run: u64,
}

impl Share {
    pub fn permille(&self) -> u64 {
        self.kernel * 1000 / self.cases.max(1)
    }

    fn count(&mut self, came: &Came) {
        self.cases += 1;
        match came {
            Came::Up(_) => self.up += 1,
            Came::UpRun(_) => self.up_run += 1,
            _ => self.kernel += 1,
        }
    }
}

pub struct Pair {
    pub place: Place,
    pub subjects: Vec<Subject>,
    now: u64,
    jumped: u64,
    /// The longest that a case took.
    late: u64,
    /// Cases not judged since they took too long.
    pub unjudged: u64,
    /// By subject, whether the form is one that the kernel half takes, and kind.
    pub shares: BTreeMap<(usize, bool, Kind), Share>,
    pub differences: Vec<String>,
}

impl Pair {
    pub fn new(mut place: Place, subjects: Vec<Subject>) -> Pair {
        for user in [&mut place.alone, &mut place.above] {
            user.open(&[5, 49152]);
        }
        let (shares, differences) = (BTreeMap::new(), vec![]);
        Pair { place, subjects, now: STEP, jumped: 0, late: 0, unjudged: 0, shares, differences }
    }

    /// Lets both user halves load the code of a good frame; then it may run in the kernel.
    pub fn warm_up(&mut self, subject: usize, port: u16, frame: &[u8]) {
        for user in [&mut self.place.alone, &mut self.place.above] {
            user.put(self.now, port, frame);
            user.take();
        }
        let Subject { code, refused, .. } = &self.subjects[subject];
        match refused {
            None => self.place.share_state(self.now, *code),
            Some(why) => self.place.above.linked(self.now, *code, Err(why.clone())),
        }
    }

    /// Puts a case into both, and notes what is different.
    pub fn judge(&mut self, case: &Case) {
        self.pass_time(case.steps * STEP);
        let went = self.alone(case.port, &case.bytes);
        let before = self.counts();
        let (came, late) = self.kernel(case);
        let told = self.above(case, &came, before.clone());
        if late > LATE_MAX {
            self.unjudged += 1;
            return self.jump(FORGOTTEN);
        }
        self.late = self.late.max(late);
        let claimed = Subject::takes(case.form);
        if self.place.counts().dropped_forged == before.0 {
            self.shares.entry((case.subject, claimed, case.kind)).or_default().count(&came);
        }
        let (mut went, mut told) = (went, told);
        if self.subjects[case.subject].sends {
            // Who waits for a link address comes behind others.
            went.frames.sort();
            told.frames.sort();
            self.place.pass_links_on();
        }
        self.overlook_time(case.subject, &went, &mut told);
        if went != told {
            self.differ(case, &came, &went, &told);
        }
        if case.kind != Kind::Transit && matches!(came, Came::Up(_)) {
            // It may have made a neighbour known, of whom the kernel half is told in the node's next sweep.
            self.pass_time(SWEEP);
        }
    }

    fn alone(&mut self, port: u16, bytes: &[u8]) -> Went {
        // What the node's socket does not show it.
        if is_for_another(port, bytes) || bytes.get(12..14) == Some(&[0x88, 0xb5]) {
            return Went::default();
        }
        self.place.alone.put(self.now, port, bytes);
        self.place.alone.take()
    }

    /// What the kernel half does with it, and how long that took: of code that sends really, so that there are copies.
    fn kernel(&mut self, case: &Case) -> (Came, u64) {
        if !self.subjects[case.subject].sends {
            return self.place.kernel_at(self.now, case.port, &case.bytes);
        }
        let (mut left, late) = self.place.live_at(self.now, case.port, &case.bytes);
        let came = match (left.sent.is_empty(), left.up.pop()) {
            (true, None) => Came::Dropped,
            (false, None) => Came::Left(left.sent),
            // A tagged frame comes without its tag, whatever is behind that.
            (true, Some(up)) if up.len() > case.bytes.len() => Came::UpRun(up),
            (true, Some(_)) => Came::Up(case.bytes.clone()),
            (false, Some(up)) => panic!("{}: {:?} left and {up:?} went up", case.what, left.sent),
        };
        (came, late)
    }

    /// What the kernel half counted of all subjects.
    fn counts(&self) -> (u64, Vec<Option<KernelUsage>>) {
        let usage = |subject: &Subject| subject.refused.is_none().then(|| self.place.usage(subject.code));
        (self.place.counts().dropped_forged, self.subjects.iter().map(usage).collect())
    }

    /// What comes of it in the end where there is a kernel half.
    fn above(&mut self, case: &Case, came: &Came, before: (u64, Vec<Option<KernelUsage>>)) -> Went {
        match came {
            Came::Up(bytes) if is_for_another(case.port, bytes) => Went::default(),
            Came::Up(bytes) | Came::UpRun(bytes) => {
                self.place.above.put(self.now, case.port, bytes);
                self.place.above.take()
            }
            Came::Sent(bytes) => {
                let leaves = |port: &u16| bytes.get(6..12) == Some(&OWN_MACS[usize::from(*port)].0);
                let port = (0..2).find(leaves).unwrap_or(u16::MAX);
                let to = MACS.get(usize::from(port)).is_some_and(|mac| bytes[..6] == mac.0);
                Went { frames: vec![(if to { port } else { u16::MAX }, bytes.clone())], ..Went::default() }
            }
            Came::Dropped | Came::Left(_) => {
                let frames = if let Came::Left(sent) = came { sent.clone() } else { Vec::new() };
                let after = self.counts();
                let mut drops = vec![];
                for (before, after) in before.1.iter().zip(&after.1) {
                    let (Some(before), Some(after)) = (before, after) else { continue };
                    drops.push((Reason::Code, after.dropped_by_code - before.dropped_by_code));
                    drops.push((Reason::Verdict, after.dropped_for_verdict - before.dropped_for_verdict));
                }
                drops.retain(|(_, count)| *count > 0);
                if drops.is_empty() && frames.is_empty() && after.0 != before.0 + 1 {
                    drops.push((Reason::MalformedPacket, u64::MAX));
                }
                Went { frames, drops, ..Went::default() }
            }
            came => panic!("{came:?}"),
        }
    }

    /// A copy that a cache answers with says how long it lasts: as late as the case took, and no more.
    fn overlook_time(&self, subject: usize, went: &Went, told: &mut Went) {
        const VALUE: u8 = 3;
        const COPY: u8 = 2;
        if self.subjects[subject].title != "cache" {
            return;
        }
        let frames = went.frames.iter().zip(&mut told.frames).map(|(here, there)| (payload(&here.1), here, there));
        let deliveries = went.deliveries.iter().zip(&mut told.deliveries).map(|(here, there)| (Some(88), here, there));
        for (at, (_, here), (_, there)) in frames.chain(deliveries) {
            let Some(at) = at else { continue };
            let is_summed = summed(there) == *there;
            let (Some(ours), Some(theirs)) = (here.get(at..at + 16), there.get_mut(at..at + 16)) else { continue };
            let keep = |bytes: &[u8]| u32::from_be_bytes(*bytes[12..].first_chunk().unwrap());
            let late = u64::from(keep(ours).abs_diff(keep(theirs)));
            if ours[0] == VALUE && ours[1] & COPY != 0 && late <= 1 + self.late / 1_000_000 {
                theirs[12..].copy_from_slice(&ours[12..]);
                if is_summed {
                    *there = summed(there);
                }
            }
        }
    }

    fn differ(&mut self, case: &Case, came: &Came, went: &Went, told: &Went) {
        let station = match came {
            Came::Up(_) => "passed up",
            Came::UpRun(_) => "passed up with a verdict",
            _ => "ended in the kernel",
        };
        self.differences.push(format!(
            "{} by port {}\n  frame {}\n  user half alone: {}\n  {station}: {}",
            case.what,
            case.port,
            hex::encode(&case.bytes),
            shown(went),
            shown(told)
        ));
        assert!(self.differences.len() < SHOWN_MAX, "{}", self.differences.join("\n"));
    }

    fn pass_time(&mut self, by: u64) {
        if by > 0 {
            self.advance(by);
        }
        if self.now - self.jumped > STRETCH {
            self.jump(JUMP);
        }
    }

    fn jump(&mut self, by: u64) {
        self.advance(by);
        self.jumped = self.now;
    }

    fn advance(&mut self, by: u64) {
        self.now += by;
        let [here, there] = [&mut self.place.alone, &mut self.place.above].map(|user| {
            user.timer(self.now);
            user.take()
        });
        if here != there {
            let (here, there) = (shown(&here), shown(&there));
            self.differences.push(format!("time passes\n  user half alone: {here}\n  above: {there}"));
        }
        self.place.pass_neighbours_on();
    }

    /// Compares the soft state of all subjects. The last thing to do: the user half alone loses its own.
    pub fn compare_state(&mut self) -> usize {
        let mut compared = 0;
        for subject in self.subjects.clone() {
            let mut here = self.place.alone.drain_state(self.now, subject.code);
            let mut there = match &subject.refused {
                Some(_) => self.place.above.drain_state(self.now, subject.code),
                None => {
                    let left = |until: u64| ((until - self.now) / 1_000_000) as u32;
                    let entries = self.place.state(subject.code).entries(self.now).unwrap();
                    entries.into_iter().map(|(key, value, until)| (key, value, left(until))).collect()
                }
            };
            there.sort_unstable_by_key(|(key, ..)| *key);
            here.sort_unstable_by_key(|(key, ..)| *key);
            compared += here.len();
            let late = self.late + 1_000_000;
            let same = here.len() == there.len()
                && here.iter().zip(&there).all(|(a, b)| {
                    let value = a.1 == b.1 || subject.title == "cache" && is_later_copy(&a.1, &b.1, late);
                    a.0 == b.0 && value && u64::from(a.2.abs_diff(b.2)) * 1_000_000 <= late
                });
            if !same {
                let list = |entries: &[(u64, [u8; 64], u32)]| -> String {
                    entries
                        .iter()
                        .map(|(key, value, ms)| format!("\n    {key:x} {} {ms}", hex::encode(value)))
                        .collect()
                };
                self.differences.push(format!(
                    "soft state of {}\n  user half alone: {}\n  with the kernel half: {}",
                    subject.title,
                    list(&here),
                    list(&there)
                ));
            }
        }
        compared
    }
}

/// A frame with the sum of UDP over IPv6 that it should have; others as they are.
fn summed(frame: &[u8]) -> Vec<u8> {
    const UDP_AT: usize = ethernet::HEADER + 40;
    let mut bytes = frame.to_vec();
    let addr = |at: usize| frame.get(at..at + 16).map(|bytes| Addr(bytes.try_into().unwrap()));
    if frame.get(12..14) == Some(&[0x86, 0xdd])
        && frame.get(20) == Some(&udp::IP_PROTOCOL)
        && let (Some(source), Some(destination)) = (addr(22), addr(38))
        && let Some(Ok(mut datagram)) = bytes.get_mut(UDP_AT..).map(udp::PacketMut::new_checked)
    {
        datagram.fill_checksum(source, destination);
    }
    bytes
}

/// Whether two descriptions of a copy (`struct copy` of apps/cache.c) differ in nothing but when it ends.
fn is_later_copy(a: &[u8; 64], b: &[u8; 64], late: u64) -> bool {
    let until = |value: &[u8; 64]| u64::from_le_bytes(*value[40..].first_chunk().unwrap());
    a[..40] == b[..40] && a[48..] == b[48..] && until(a).abs_diff(until(b)) <= late
}

/// Whether the node's socket does not see a frame, since it is for another host.
fn is_for_another(port: u16, bytes: &[u8]) -> bool {
    bytes.len() < 14 || bytes[0] & 1 == 0 && bytes[..6] != OWN_MACS[usize::from(port)].0
}

/// Where the payload of a capsule stands in a frame.
fn payload(frame: &[u8]) -> Option<usize> {
    let (header, protocol) = match frame.get(12..14)? {
        [8, 0] => (14 + 20, *frame.get(23)?),
        _ => (14 + 40, *frame.get(20)?),
    };
    Some(header + if protocol == 17 { 8 } else { 0 } + 8 + 88)
}

fn shown(went: &Went) -> String {
    let list = |what: &str, list: &[(u16, Vec<u8>)]| -> String {
        list.iter().map(|(port, bytes)| format!("{what} {port} {} ", hex::encode(bytes))).collect()
    };
    format!("{}{}dropped {:?}", list("sent by", &went.frames), list("delivered to", &went.deliveries), went.drops)
}
