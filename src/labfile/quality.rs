//! What a file asks of a link, checked: rate, queue, delay, loss and the like.

use super::file::LinkEntry;
use super::problem::{Result, problem};
use crate::link::LinkQuality;
use crate::link::meter::METERS_MAX;
use crate::sys::packet;

/// Shaped links that a lab may have: each has two meters.
const LINKS_MAX: usize = METERS_MAX / 2;

/// Bytes that one direction of a link may have under way.
const UNDER_WAY_MAX: u64 = 64 << 20;

/// Bytes of kernel memory that the rings of a lab's shaped links may need together.
const RINGS_MAX: u64 = 1 << 30;

/// The links so far that differ from a veth.
#[derive(Debug, Default)]
pub(crate) struct Shaped {
    count: usize,
    /// Bytes that their rings need at least.
    rings: u64,
}

impl Shaped {
    /// One more, of frames of so many bytes, unless there are too many.
    fn add(&mut self, at: usize, frame: u32) -> Result<()> {
        self.count += 1;
        self.rings += 2 * packet::least_ring(frame as usize) as u64;
        if self.count > LINKS_MAX {
            let what = format!("more than {LINKS_MAX} links have a rate, a delay or the like");
            return problem(at, what, "leave those of some links out");
        }
        if self.rings > RINGS_MAX {
            let what = format!(
                "links with a rate, a delay or the like would need {} MiB of kernel memory; they may have {}",
                self.rings >> 20,
                RINGS_MAX >> 20
            );
            return problem(at, what, "give them a smaller mtu, or leave those of some links out");
        }
        Ok(())
    }
}

/// What the link does to frames; counts those that differ from a veth.
pub(crate) fn quality(at: usize, link: &LinkEntry, shaped: &mut Shaped) -> Result<LinkQuality> {
    let quality = link.quality();
    if let Err(unfit) = quality.check() {
        return problem(at, format!("{unfit} is out of range"), format!("give {}", unfit.expected));
    }
    let frame = link.mtu().saturating_add(18);
    let given = |key: &str, value: Option<u32>| value.map(|value| format!("{key} = {value}"));
    let queue = given("queue_bytes", link.queue_bytes).or(given("queue_packets", link.queue_packets));
    match (link.rate_mbit, queue) {
        (Some(rate), _) if quality.bits_per_second() == 0 => {
            return problem(at, format!("rate_mbit = {rate} would send nothing"), "leave it out for no limit");
        }
        (None, Some(queue)) => {
            return problem(at, format!("{queue} on a link without a rate: nothing ever waits"), "give it a rate_mbit");
        }
        _ => {}
    }
    if quality.queue_bytes < frame {
        let what = format!("queue_bytes = {} has no room for a frame of the link's mtu", quality.queue_bytes);
        return problem(at, what, format!("give {frame} or more"));
    }
    if link.queue_packets == Some(0) {
        return problem(at, "queue_packets = 0 would send nothing", "leave it out if only bytes count");
    }
    if link.reorder_ms.is_some() && quality.reorder == 0.0 {
        return problem(at, "reorder_ms on a link that holds no frame back", "give it a reorder, a share from 0 to 1");
    }
    if quality.bytes_under_way().is_some_and(|bytes| bytes > UNDER_WAY_MAX) {
        let what = format!("rate, delay and queue_bytes would have more than {UNDER_WAY_MAX} bytes under way");
        return problem(at, what, "make one of them smaller");
    }
    if quality.is_shaped() {
        shaped.add(at, frame)?;
    }
    Ok(quality)
}
