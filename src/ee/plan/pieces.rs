//! Messages that come in pieces, until they are whole.
//!
//! Memory is bounded: so many messages, so many octets. Of the messages that are not whole the oldest of the neighbour
//! with the most gives way, so one that sends only first pieces displaces itself. Neighbours on a native link count as one unless they prove who they
//! are: their addresses can be forged.

use crate::core::reason::Reason;
use crate::frame::Payer;
use crate::frame::shares::gives_way;
use crate::topology::Neighbour;
use crate::wire::plan::Piece;

/// Messages that can be on their way.
const MESSAGES_MAX: usize = 64;

/// Octets of all of them.
const BYTES_MAX: usize = 1 << 20;

/// Nanoseconds within which all pieces must come.
const WITHIN: u64 = 2_000_000_000;

struct Assembly {
    from: Neighbour,
    /// Whose share of the worker pays for it.
    payer: Payer,
    id: u32,
    count: u8,
    /// Which pieces are here.
    have: [u64; 4],
    left: u8,
    until: u64,
    octets: Vec<u8>,
}

/// Messages on their way.
#[derive(Default)]
pub struct Assemblies {
    list: Vec<Assembly>,
    bytes: usize,
    /// Messages that gave way and are not counted yet.
    displaced: u32,
}

impl Assemblies {
    /// Takes a piece; gives the message when it is whole.
    pub fn take(
        &mut self,
        now: u64,
        from: &Neighbour,
        payer: Payer,
        piece: &Piece<'_>,
    ) -> Result<Option<Vec<u8>>, Reason> {
        let same = |assembly: &Assembly| assembly.from == *from && assembly.id == piece.id;
        let at = match self.list.iter().position(same) {
            Some(at) => at,
            None => self.begin(now, from, payer, piece),
        };
        let Some(assembly) = self.list.get_mut(at) else { return Err(Reason::Reassembly) };
        if assembly.count != piece.count || assembly.octets.len() != piece.total as usize {
            return Err(Reason::Malformed);
        }
        let (word, bit) = (usize::from(piece.index) / 64, 1u64 << (piece.index % 64));
        let start = piece.start();
        let room = assembly.octets.get_mut(start..start + piece.bytes.len());
        let (Some(have), Some(room)) = (assembly.have.get_mut(word), room) else { return Err(Reason::Malformed) };
        if *have & bit != 0 {
            return Ok(None);
        }
        room.copy_from_slice(piece.bytes);
        *have |= bit;
        assembly.left -= 1;
        if assembly.left > 0 {
            return Ok(None);
        }
        let whole = self.list.remove(at).octets;
        self.bytes -= whole.len();
        Ok(Some(whole))
    }

    fn begin(&mut self, now: u64, from: &Neighbour, payer: Payer, piece: &Piece<'_>) -> usize {
        let total = piece.total as usize;
        while self.list.len() >= MESSAGES_MAX || self.bytes + total > BYTES_MAX {
            let Some(worst) = gives_way(self.list.iter(), |assembly| assembly.payer) else { break };
            self.bytes -= self.list.remove(worst).octets.len();
            self.displaced += 1;
        }
        self.bytes += total;
        self.list.push(Assembly {
            from: *from,
            payer,
            id: piece.id,
            count: piece.count,
            have: [0; 4],
            left: piece.count,
            until: now + WITHIN,
            octets: vec![0; total],
        });
        self.list.len() - 1
    }

    /// When the first one is given up.
    pub fn next_timer(&self) -> u64 {
        self.list.iter().map(|assembly| assembly.until).min().unwrap_or(u64::MAX)
    }

    /// Gives up what is not whole in time; how many, those that gave way included.
    pub fn expire(&mut self, now: u64) -> u32 {
        let before = self.list.len();
        self.list.retain(|assembly| assembly.until > now);
        self.bytes = self.list.iter().map(|assembly| assembly.octets.len()).sum();
        std::mem::take(&mut self.displaced) + (before - self.list.len()) as u32
    }

    /// Octets held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{PeerId, PortId};
    use crate::wire::Addr;
    use crate::wire::plan::pieces;

    fn neighbour(number: u8) -> Neighbour {
        Neighbour { addr: Addr::v4([10, 0, 0, number]), port: PortId(0), peer: PeerId(number.into()) }
    }

    #[test]
    fn pieces_in_any_order_and_twice_make_the_message_once() {
        let message: Vec<u8> = (0..2000).map(|at| at as u8).collect();
        let mut list: Vec<_> = pieces(&message, 300, 5).unwrap().collect();
        list.reverse();
        let mut assemblies = Assemblies::default();
        let (last, first) = list.split_last().unwrap();
        for piece in first {
            assert_eq!(assemblies.take(0, &neighbour(1), Payer(1), piece), Ok(None));
            assert_eq!(assemblies.take(0, &neighbour(1), Payer(1), piece), Ok(None), "twice");
        }
        assert_eq!(assemblies.take(0, &neighbour(2), Payer(2), last), Ok(None), "another neighbour's");
        assert_eq!(assemblies.take(0, &neighbour(1), Payer(1), last), Ok(Some(message.clone())));
        assert_eq!(assemblies.bytes(), 2000);
        assert_eq!((assemblies.expire(WITHIN - 1), assemblies.expire(WITHIN), assemblies.bytes()), (0, 1, 0));
    }

    #[test]
    fn who_sends_only_first_pieces_displaces_itself() {
        let message = vec![1; 60_000];
        let piece = |id| pieces(&message, 1000, id).unwrap().next().unwrap();
        let mut assemblies = Assemblies::default();
        assert_eq!(assemblies.take(0, &neighbour(1), Payer(1), &piece(0)), Ok(None));
        for id in 0..500 {
            assert_eq!(assemblies.take(id.into(), &neighbour(2), Payer(2), &piece(id)), Ok(None));
        }
        assert!(assemblies.bytes() <= BYTES_MAX);
        let rest: Vec<_> = pieces(&message, 1000, 0).unwrap().skip(1).collect();
        let mut last = None;
        for piece in &rest {
            last = assemblies.take(9, &neighbour(1), Payer(1), piece).unwrap();
        }
        assert!(last == Some(message.clone()));
        assert!(assemblies.expire(0) > 400);
    }
}
