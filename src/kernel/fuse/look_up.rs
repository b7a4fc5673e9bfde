//! Look-ups in a graph's table, and what is done with what was found ([`crate::contract::plan::FusedEnd::Find`]).
//!
//! ```text
//! key on the stack ─▶ bpf_map_lookup_elem ─▶ its address on the stack ─▶ the block of its output ─▶ new ends, link address
//! ```

use super::{FLOW, Goal, LOOKED_FOR, MAP_LOOKUP, STATION, Writer, op};
use crate::code::link::Reference;
use crate::contract::plan::{FusedKey, FusedNext, IP_AT};
use crate::contract::{graph_found, graph_key};
use crate::kernel::graph_table::TABLE_MAP;

/// The number of `bpf_ktime_get_coarse_ns`: a tick is near enough for what is forgotten after minutes.
const COARSE_TIME: i32 = 160;

const UDP: i32 = 17;
const TCP: i32 = 6;

/// Flags of TCP with which a connection ends: FIN, RST.
const ENDS: i32 = 0x05;

/// Places in a plain packet.
const PROTOCOL: i16 = IP_AT as i16 + 9;
const IP_SUM: i16 = IP_AT as i16 + 10;
const FROM: i16 = IP_AT as i16 + 12;
const TRANSPORT: u16 = IP_AT + 20;
const UDP_SUM: i16 = TRANSPORT as i16 + 6;
const TCP_SUM: i16 = TRANSPORT as i16 + 16;
const TCP_FLAGS: i16 = TRANSPORT as i16 + 13;

/// Words of the ends of a flow: addresses, ports.
const END_WORDS: i16 = 3;

/// Where a field of what was found is.
const fn place(at: usize) -> i16 {
    at as i16
}

impl Writer {
    /// A jump forward: [`Writer::land`] makes the next instruction its goal. Gives its place.
    fn ahead(&mut self, opcode: u8, (dst, src): (u8, u8), imm: i32) -> usize {
        self.put(opcode, dst, src, 0, imm);
        self.code.len() - 1
    }

    fn land(&mut self, from: usize) {
        let over = self.code.len() - from - 1;
        if let Some(jump) = self.code.get_mut(from) {
            jump.off = over as i16;
        }
    }

    fn key_word(&mut self, number: i16, register: u8) {
        self.put(op::STORE[4], 10, register, LOOKED_FOR + place(graph_key::WORD.at()) + number * 4, 0);
    }

    /// The ends of a flow are the key; what has none, or ends, goes elsewhere.
    fn ends(&mut self, otherwise: Goal) {
        self.has(TRANSPORT + 8, otherwise);
        self.put(op::LOAD[1], 1, 7, IP_AT as i16, 0);
        self.jump(op::IF_OTHER_SHORT, (1, 0), 0x45, otherwise);
        self.put(op::LOAD[1], 3, 7, PROTOCOL, 0);
        let of_udp = self.ahead(op::IF_EQUAL_SHORT, (3, 0), UDP);
        self.jump(op::IF_OTHER_SHORT, (3, 0), TCP, otherwise);
        self.has(TRANSPORT + 20, otherwise);
        self.put(op::LOAD[1], 1, 7, TCP_FLAGS, 0);
        self.number(op::AND_SHORT, 1, ENDS);
        self.jump(op::IF_OTHER_SHORT, (1, 0), 0, otherwise);
        self.land(of_udp);
        self.key_word(END_WORDS, 3);
        for word in 0..END_WORDS {
            self.put(op::LOAD[4], 1, 7, FROM + word * 4, 0);
            self.key_word(word, 1);
        }
    }

    /// An address is the key.
    fn next(&mut self, next: FusedNext, otherwise: Goal) {
        match next {
            FusedNext::Frame(at) => {
                self.has(at + 4, otherwise);
                self.put(op::LOAD[4], 1, 7, at as i16, 0);
            }
            FusedNext::Flow(at) => {
                self.put(op::LOAD_LONG, 1, 10, FLOW, 0);
                self.put(op::LOAD[4], 1, 1, place(graph_found::BYTES.at()) + at as i16, 0);
            }
            FusedNext::Known(address) => self.number(op::SET, 1, i32::from_ne_bytes(address)),
        }
        self.key_word(0, 1);
        self.number(op::SET, 1, 0);
        (1..=END_WORDS).for_each(|word| self.key_word(word, 1));
    }

    /// Looks a packet up; what is found is in register 1 then, and on the stack.
    pub(super) fn find(&mut self, engine: u16, key: FusedKey, otherwise: Goal) {
        match key {
            FusedKey::Ends => self.ends(otherwise),
            FusedKey::Next(next) => self.next(next, otherwise),
        }
        self.put(op::STORE_NUMBER[4], 10, 0, LOOKED_FOR + place(graph_key::ENGINE.at()), engine.into());
        self.registers(op::MOVE, 2, 10);
        self.number(op::ADD, 2, LOOKED_FOR.into());
        self.references.push((self.code.len(), Reference::Map(TABLE_MAP.0.into())));
        self.long(1, 0);
        self.number(op::CALL, 0, MAP_LOOKUP);
        self.jump(op::IF_EQUAL, (0, 0), 0, otherwise);
        let slot = if key == FusedKey::Ends { FLOW } else { STATION };
        self.put(op::STORE_LONG, 10, 0, slot, 0);
        if key == FusedKey::Ends {
            self.number(op::CALL, 0, COARSE_TIME);
            self.put(op::LOAD_LONG, 1, 10, slot, 0);
            // Whoever was silent for too long is asked for in user space.
            self.put(op::LOAD_LONG, 2, 1, place(graph_found::USED.at()), 0);
            self.put(op::LOAD_LONG, 3, 1, place(graph_found::UNTIL.at()), 0);
            self.registers(op::ADD_REGISTER, 2, 3);
            self.jump(op::IF_GREATER, (0, 2), 0, otherwise);
            return self.put(op::STORE_LONG, 1, 0, place(graph_found::USED.at()), 0);
        }
        // What holds for ever needs no clock.
        self.put(op::LOAD_LONG, 2, 0, place(graph_found::UNTIL.at()), 0);
        let for_ever = self.ahead(op::IF_EQUAL, (2, 0), -1);
        self.number(op::CALL, 0, COARSE_TIME);
        self.put(op::LOAD_LONG, 1, 10, slot, 0);
        self.put(op::LOAD_LONG, 2, 1, place(graph_found::UNTIL.at()), 0);
        self.jump(op::IF_GREATER, (0, 2), 0, otherwise);
        self.land(for_ever);
        self.put(op::LOAD_LONG, 1, 10, slot, 0);
    }

    /// Goes where what is in register 1 says.
    pub(super) fn goes_by(&mut self, key: FusedKey, outputs: &[u16], otherwise: Goal) {
        if let (FusedKey::Next(_), [only]) = (key, outputs) {
            return self.jump(op::JUMP, (0, 0), 0, Goal::Block(*only));
        }
        self.put(op::LOAD[4], 1, 1, place(graph_found::OUTPUT.at()), 0);
        for (number, output) in (0..).zip(outputs) {
            self.jump(op::IF_EQUAL_SHORT, (1, 0), number, Goal::Block(*output));
        }
        self.jump(op::JUMP, (0, 0), 0, otherwise);
    }

    /// Carries a sum over (RFC 1624, equation 3): register 5 has what was found.
    fn carry(&mut self, at: i16, of: usize) {
        self.put(op::LOAD[2], 3, 7, at, 0);
        self.number(op::XOR, 3, 0xffff);
        self.put(op::LOAD[2], 1, 5, place(of), 0);
        self.registers(op::ADD_REGISTER, 3, 1);
        self.fold(3);
    }

    /// The packet has the ends that were found for its flow.
    pub(super) fn readdress(&mut self) {
        self.has(TRANSPORT + 8, Goal::Ended);
        self.put(op::LOAD_LONG, 5, 10, FLOW, 0);
        self.carry(IP_SUM, graph_found::OF_IP.at());
        self.put(op::STORE[2], 7, 3, IP_SUM, 0);
        for word in 0..END_WORDS {
            self.put(op::LOAD[4], 1, 5, place(graph_found::BYTES.at()) + word * 4, 0);
            self.put(op::STORE[4], 7, 1, FROM + word * 4, 0);
        }
        self.put(op::LOAD[1], 1, 7, PROTOCOL, 0);
        let of_tcp = self.ahead(op::IF_EQUAL_SHORT, (1, 0), TCP);
        // Without a sum it stays so (RFC 768), and none becomes 0 by being carried over.
        self.put(op::LOAD[2], 1, 7, UDP_SUM, 0);
        let unsummed = self.ahead(op::IF_EQUAL_SHORT, (1, 0), 0);
        self.carry(UDP_SUM, graph_found::OF_TRANSPORT.at());
        let is_some = self.ahead(op::IF_OTHER_SHORT, (3, 0), 0);
        self.number(op::SET, 3, 0xffff);
        self.land(is_some);
        self.put(op::STORE[2], 7, 3, UDP_SUM, 0);
        let done = self.ahead(op::JUMP, (0, 0), 0);
        self.land(of_tcp);
        self.has(TRANSPORT + 20, Goal::Ended);
        self.carry(TCP_SUM, graph_found::OF_TRANSPORT.at());
        self.put(op::STORE[2], 7, 3, TCP_SUM, 0);
        self.land(unsummed);
        self.land(done);
    }

    /// So many bytes of what was found for where the packet goes next stand at a place.
    pub(super) fn put_found(&mut self, at: u16, bytes: u8) {
        self.has(at + u16::from(bytes), Goal::Ended);
        self.put(op::LOAD_LONG, 1, 10, STATION, 0);
        let (mut from, mut to, mut rest) = (place(graph_found::BYTES.at()), at as i16, i16::from(bytes));
        while rest > 0 {
            let width = if rest >= 4 { 4 } else { rest.min(2) };
            self.put(op::LOAD[width as usize], 3, 1, from, 0);
            self.put(op::STORE[width as usize], 7, 3, to, 0);
            (from, to, rest) = (from + width, to + width, rest - width);
        }
    }
}
