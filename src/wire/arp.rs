//! ARP for IPv4 over Ethernet (RFC 826).
//!
//! A node on a native interface answers for its own addresses and asks for its next hops'. Other hardware or protocol
//! types are malformed here; `topology` decides which claims are believed.

use super::ethernet::Mac;
use super::{Error, Result, field, put};

/// Length of a packet in bytes.
pub const LENGTH: usize = 28;

/// What every packet for IPv4 over Ethernet begins with: types and address lengths.
const FAMILY: [u8; 6] = [0, 1, 8, 0, 6, 4];

const OPERATION: usize = 6;
const SENDER_MAC: usize = 8;
const SENDER_IP: usize = 14;
const TARGET_MAC: usize = 18;
const TARGET_IP: usize = 24;

/// Question or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target's IP address?
    Request,
    /// The sender has it.
    Reply,
}

/// A packet as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Question or answer.
    pub operation: Operation,
    /// The sender's Ethernet address.
    pub sender_mac: Mac,
    /// The sender's IPv4 address; zero in a probe (RFC 5227).
    pub sender_ip: [u8; 4],
    /// The target's Ethernet address; of no meaning in a request.
    pub target_mac: Mac,
    /// The target's IPv4 address.
    pub target_ip: [u8; 4],
}

impl Repr {
    /// Reads the packet at the beginning of `bytes`; padding may follow it.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Repr> {
        let packet = bytes.first_chunk::<LENGTH>().ok_or(Error::Truncated)?;
        if field::<0, 6, _>(packet) != FAMILY {
            return Err(Error::Malformed);
        }
        let operation = match u16::from_be_bytes(field::<OPERATION, _, _>(packet)) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(Error::Malformed),
        };
        Ok(Repr {
            operation,
            sender_mac: Mac(field::<SENDER_MAC, _, _>(packet)),
            sender_ip: field::<SENDER_IP, _, _>(packet),
            target_mac: Mac(field::<TARGET_MAC, _, _>(packet)),
            target_ip: field::<TARGET_IP, _, _>(packet),
        })
    }

    /// Writes the packet at the beginning of `buf` and returns [`LENGTH`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize> {
        let packet = buf.first_chunk_mut::<LENGTH>().ok_or(Error::Truncated)?;
        let operation: u16 = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        put::<0, _, _>(packet, FAMILY);
        put::<OPERATION, _, _>(packet, operation.to_be_bytes());
        put::<SENDER_MAC, _, _>(packet, self.sender_mac.0);
        put::<SENDER_IP, _, _>(packet, self.sender_ip);
        put::<TARGET_MAC, _, _>(packet, self.target_mac.0);
        put::<TARGET_IP, _, _>(packet, self.target_ip);
        Ok(LENGTH)
    }

    /// The answer that `mac` has the address this request asks for.
    #[inline]
    pub fn reply(&self, mac: Mac) -> Repr {
        Repr {
            operation: Operation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_turns_the_question_around() {
        let request = Repr {
            operation: Operation::Request,
            sender_mac: Mac([2, 0, 0, 0, 0, 1]),
            sender_ip: [10, 0, 0, 1],
            target_mac: Mac::default(),
            target_ip: [10, 0, 0, 2],
        };
        let mut buf = [0; 46];
        assert_eq!(request.emit(&mut buf), Ok(LENGTH));
        assert_eq!(Repr::parse(&buf), Ok(request));
        let reply = request.reply(Mac([2, 0, 0, 0, 0, 2]));
        assert_eq!((reply.sender_ip, reply.target_ip), ([10, 0, 0, 2], [10, 0, 0, 1]));
        assert_eq!(reply.target_mac, request.sender_mac);
    }

    #[test]
    fn other_families_and_operations_are_refused() {
        let mut buf = [0; LENGTH];
        let reply = Repr {
            operation: Operation::Reply,
            sender_mac: Mac([2; 6]),
            sender_ip: [1; 4],
            target_mac: Mac([3; 6]),
            target_ip: [2; 4],
        };
        reply.emit(&mut buf).unwrap();
        for (at, value) in [(0, 1), (1, 6), (2, 0x86), (4, 8), (5, 16), (7, 3)] {
            let mut bent = buf;
            bent[at] = value;
            assert_eq!(Repr::parse(&bent), Err(Error::Malformed), "byte {at}");
        }
    }
}
