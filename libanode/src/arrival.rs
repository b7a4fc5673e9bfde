//! What a channel for TCP streams tells its program of each stream: one message, with the stream's socket beside it.
//!
//! ```text
//! stream(32) source: known(8) address(128) port(16) destination: the same        all big endian
//! ```

/// One end: an address in the form of IPv6, and a port.
pub type StreamEnd = ([u8; 16], u16);

/// A stream that somebody has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The node's name of it.
    pub stream: u32,
    /// Who has begun it.
    pub source: Option<StreamEnd>,
    /// Where he has found it, unless the channel listens at all addresses.
    pub destination: Option<StreamEnd>,
}

/// Bytes of an end.
const END: usize = 19;

impl Arrival {
    /// Bytes of the message.
    pub const BYTES: usize = 4 + 2 * END;

    /// The message.
    pub fn encode(&self) -> [u8; Arrival::BYTES] {
        let mut message = [0; Arrival::BYTES];
        message[..4].copy_from_slice(&self.stream.to_be_bytes());
        for (end, at) in [(self.source, 4), (self.destination, 4 + END)] {
            if let Some((address, port)) = end {
                message[at] = 1;
                message[at + 1..at + 17].copy_from_slice(&address);
                message[at + 17..at + END].copy_from_slice(&port.to_be_bytes());
            }
        }
        message
    }

    /// What a message says; nothing: it is none.
    pub fn decode(message: &[u8]) -> Option<Arrival> {
        let message: &[u8; Arrival::BYTES] = message.try_into().ok()?;
        let end = |at: usize| {
            let address = message[at + 1..at + 17].try_into().ok()?;
            let port = u16::from_be_bytes([message[at + 17], message[at + 18]]);
            (message[at] == 1).then_some((address, port))
        };
        let stream = u32::from_be_bytes([message[0], message[1], message[2], message[3]]);
        Some(Arrival { stream, source: end(4), destination: end(4 + END) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_back_and_nothing_shorter_or_longer_does() {
        for (source, destination) in
            [(None, None), (Some(([7; 16], 80)), None), (Some(([1; 16], 1)), Some(([2; 16], 65535)))]
        {
            let arrival = Arrival { stream: 9, source, destination };
            let message = arrival.encode();
            assert_eq!(Arrival::decode(&message), Some(arrival));
            assert_eq!(Arrival::decode(&message[1..]), None);
            assert_eq!(Arrival::decode(&[&message[..], &[0]].concat()), None);
        }
    }
}
