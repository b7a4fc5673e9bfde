//! Who has answered: neighbours that an object came from, whole and as it is named, the last ones of each payer.
//!
//! Example: all strangers of a port are one payer, and four silent ones have been named for a code. The fifth has sent
//! code before, so it goes before them (`sources`). Who is silent when it is asked is forgotten here.

use super::Source;
use crate::code::run::Ingress;
use std::collections::VecDeque;

/// Those that are remembered; of whoever has most the oldest gives way.
const MOST: usize = 256;

#[derive(Default)]
pub(super) struct Answered(VecDeque<(Source, Ingress)>);

impl Answered {
    /// An object came from it, which this payer had named.
    pub fn note(&mut self, source: Source, whose: Ingress) {
        self.forget(&source);
        self.0.push_back((source, whose));
        if self.0.len() > MOST {
            let count = |whose| self.0.iter().filter(|(_, of)| *of == whose).count();
            let most = self.0.iter().map(|(_, whose)| *whose).max_by_key(|whose| count(*whose));
            let oldest = self.0.iter().position(|(_, whose)| Some(*whose) == most);
            oldest.into_iter().for_each(|at| _ = self.0.remove(at));
        }
    }

    /// It was asked, and has said nothing.
    pub fn forget(&mut self, source: &Source) {
        self.0.retain(|(known, _)| known != source);
    }

    pub fn has(&self, source: &Source) -> bool {
        self.0.iter().any(|(known, _)| known == source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Payer, PeerId, PortId};
    use crate::wire::Addr;

    fn of(payer: u16, number: u16) -> (Source, Ingress) {
        let [high, low] = number.to_be_bytes();
        let source = Source { port: PortId(payer), peer: PeerId::NONE, addr: Addr::v4([10, payer as u8, high, low]) };
        (source, Ingress::Port(PortId(payer), Payer(payer)))
    }

    #[test]
    fn who_has_most_loses_its_oldest_and_who_is_silent_is_forgotten() {
        let mut answered = Answered::default();
        let mut note = |(source, whose)| answered.note(source, whose);
        note(of(1, 0));
        (0..1000).for_each(|number| note(of(0, number)));
        assert_eq!(answered.0.len(), MOST);
        assert!(answered.has(&of(1, 0).0) && answered.has(&of(0, 999).0) && !answered.has(&of(0, 0).0));
        answered.forget(&of(1, 0).0);
        assert!(!answered.has(&of(1, 0).0));
    }
}
