//! Messages in pieces, until they are whole ([`crate::frame::assembly`]). Example: a packet of 4 kB over an MTU of 1500
//! in three pieces.
//!
//! A message is named by its neighbour and a number. Of incomplete messages the oldest of the neighbour with most gives
//! way, so a sender of first pieces alone displaces itself. Unproven neighbours of a native link count as one: their
//! addresses can be forged.

use crate::core::reason::Reason;
use crate::frame::Payer;
use crate::frame::assembly::{self, AssemblyLimits, PartialMessage};
use crate::topology::Neighbour;
use crate::wire::plan::Piece;

/// Messages that can be on their way.
const MESSAGES_MAX: usize = 64;

/// Bytes of all of them.
const BYTES_MAX: usize = 1 << 20;

/// Nanoseconds within which all pieces must come.
const WITHIN: u64 = 2_000_000_000;

/// Messages on their way.
pub struct MessagePieces {
    table: assembly::Assemblies<(Neighbour, u32), Payer, PartialMessage>,
    lost: Lost,
}

/// Pieces that went before their messages were whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The others did not come in time.
    pub late: u64,
    /// Their messages gave way to others.
    pub full: u64,
}

/// What a piece has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It waits for the others.
    Kept,
    /// It was here before.
    Again,
    /// Its message is whole, of so many pieces.
    Whole(Vec<u8>, u8),
}

impl Default for MessagePieces {
    fn default() -> MessagePieces {
        let limits = AssemblyLimits { messages: MESSAGES_MAX, bytes: BYTES_MAX, within: WITHIN };
        MessagePieces { table: assembly::Assemblies::new(limits), lost: Lost::default() }
    }
}

impl MessagePieces {
    /// Takes a piece.
    pub fn take(&mut self, now: u64, from: &Neighbour, payer: Payer, piece: &Piece<'_>) -> Result<Taken, Reason> {
        let (key, total) = ((*from, piece.id), piece.total as usize);
        let at = match self.table.find(now, &key) {
            Some(at) => Some(at),
            None => {
                self.table.expire(now, |gone| self.lost.late += u64::from(gone.pieces().here()));
                let new = PartialMessage::new(piece.count, piece.size(), total);
                let full = &mut self.lost.full;
                self.table.begin(now, (key, payer), total, new, |gone| *full += u64::from(gone.pieces().here()))
            }
        };
        let at = at.ok_or(Reason::ReassemblyFull)?;
        let message = self.table.get_mut(at).ok_or(Reason::ReassemblyFull)?;
        if (message.pieces().count(), message.total()) != (piece.count, total) {
            return Err(Reason::MalformedPlan);
        }
        let new = message.put(piece.index, piece.bytes).map_err(|assembly::Misfit| Reason::MalformedPlan)?;
        match message.whole() {
            Some(whole) => {
                self.table.take(at);
                Ok(Taken::Whole(whole, piece.count))
            }
            None => Ok(if new { Taken::Kept } else { Taken::Again }),
        }
    }

    /// When the first one is given up.
    pub fn next_timer(&self) -> u64 {
        self.table.next_timer()
    }

    /// Gives up what is not whole in time: the pieces that have gone since this was last asked.
    pub fn expire(&mut self, now: u64) -> Lost {
        self.table.expire(now, |gone| self.lost.late += u64::from(gone.pieces().here()));
        core::mem::take(&mut self.lost)
    }

    /// Pieces held, and those that have gone since [`MessagePieces::expire`] was last asked.
    pub fn pieces(&self) -> u64 {
        let here = self.table.bodies().map(|message| u64::from(message.pieces().here()));
        here.sum::<u64>() + self.lost.late + self.lost.full
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.table.held()
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
        let mut assemblies = MessagePieces::default();
        let (last, first) = list.split_last().unwrap();
        for piece in first {
            assert_eq!(assemblies.take(0, &neighbour(1), Payer(1), piece), Ok(Taken::Kept));
            assert_eq!(assemblies.take(0, &neighbour(1), Payer(1), piece), Ok(Taken::Again));
        }
        assert_eq!(assemblies.take(0, &neighbour(2), Payer(2), last), Ok(Taken::Kept), "another neighbour's");
        assert_eq!(
            assemblies.take(0, &neighbour(1), Payer(1), last),
            Ok(Taken::Whole(message.clone(), list.len() as u8))
        );
        assert_eq!(assemblies.bytes(), 2000);
        assert_eq!((assemblies.expire(WITHIN - 1), assemblies.pieces()), (Lost::default(), 1));
        assert_eq!((assemblies.expire(WITHIN), assemblies.bytes()), (Lost { late: 1, full: 0 }, 0));
    }

    #[test]
    fn who_sends_only_first_pieces_displaces_itself() {
        let message = vec![1; 60_000];
        let piece = |id| pieces(&message, 1000, id).unwrap().next().unwrap();
        let mut assemblies = MessagePieces::default();
        assert_eq!(assemblies.take(0, &neighbour(1), Payer(1), &piece(0)), Ok(Taken::Kept));
        for id in 0..500 {
            assert_eq!(assemblies.take(id.into(), &neighbour(2), Payer(2), &piece(id)), Ok(Taken::Kept));
        }
        assert!(assemblies.bytes() <= BYTES_MAX);
        let rest: Vec<_> = pieces(&message, 1000, 0).unwrap().skip(1).collect();
        let mut last = Taken::Kept;
        for piece in &rest {
            last = assemblies.take(9, &neighbour(1), Payer(1), piece).unwrap();
        }
        assert!(matches!(last, Taken::Whole(whole, _) if whole == message));
        assert_eq!(assemblies.pieces(), 500, "held, or gone and not yet told");
        assert!(assemblies.expire(0).full > 400);
    }
}
