//! Faults of a frame, field by field.

use super::dice::Dice;
use super::draft::Draft;
use anode::wire::Addr;

/// Sets a field of Ethernet, IP, or a UDP port, and says which.
pub fn outer_field(dice: &mut Dice, draft: &mut Draft) -> &'static str {
    match dice.below(13) {
        0 => {
            let any = *dice.bytes(6).first_chunk().unwrap();
            draft.to_mac = *dice.pick(&[[0xff; 6], any, draft.from_mac, [1, 0, 0x5e, 0, 0, 1]]);
            ", to another link address"
        }
        1 => {
            draft.tags = (0..1 + dice.below(2)).map(|_| (*dice.pick(&[0x8100, 0x88a8]), 5)).collect();
            ", tagged"
        }
        2 => {
            draft.ethertype = Some(*dice.pick(&[0x0800, 0x86dd, 0x0806, 0x88b5, 0x88b6, 0x1234]));
            ", another Ethernet type"
        }
        3 => {
            draft.version = dice.below(16) as u8;
            ", another IP version"
        }
        4 => {
            let words = 1 + dice.below(10);
            draft.options = if draft.form.is_v4() { vec![1; words * 4] } else { vec![0, 0, 1, 4, 0, 0, 0, 0] };
            draft.extension = (!draft.form.is_v4()).then(|| *dice.pick(&[0, 43, 44, 60, 51]));
            ", IP options"
        }
        5 => {
            let offset = dice.below(65536) as u16;
            draft.fragment = *dice.pick(&[0x2000, 0x8000, 0xc000, 1, offset, 0]);
            ", another fragment word"
        }
        6 => {
            draft.hops = *dice.pick(&[0, 1, 2, 255]);
            ", another time to live"
        }
        7 => {
            draft.protocol = Some(*dice.pick(&[17, 107, 6, 1, 58, 41, 0, 255]));
            ", another protocol"
        }
        8 => {
            draft.sum_lie = *dice.pick(&[1, 0x8000, 0xffff]);
            ", a wrong header checksum"
        }
        9 => {
            draft.ip_source = Some(dice.any_addr());
            ", another IP source"
        }
        10 => {
            draft.ip_destination = Some(dice.any_addr());
            ", another IP destination"
        }
        11 => {
            draft.ports = (*dice.pick(&[0, 1, 3322, 40000]), *dice.pick(&[3322, 3322, 3322, 3323, 53]));
            ", other UDP ports"
        }
        _ => {
            let last = dice.below(256) as u8;
            let mapped = Addr::v4([10, 0, 9, last]);
            (draft.ip_source, draft.ip_destination) = (Some(mapped), Some(mapped));
            draft.header.destination = mapped;
            ", mapped addresses"
        }
    }
}

/// Sets a field of UDP, ANEP or the capsule, and says which.
pub fn inner_field(dice: &mut Dice, draft: &mut Draft) -> &'static str {
    match dice.below(14) {
        0 => {
            draft.udp_sum = Some(dice.below(65536) as u16);
            ", a UDP checksum"
        }
        1 => {
            draft.lies[dice.below(4)] = *dice.pick(&[-100, -8, -4, -1, 1, 2, 4, 8, 100, 30000]);
            ", a length that lies"
        }
        2 => {
            draft.anep_version = dice.below(4) as u8;
            ", another ANEP version"
        }
        3 => {
            draft.anep_flags = *dice.pick(&[0x80, 0x40, 1, 0xff]);
            ", ANEP flags"
        }
        4 => {
            draft.anep_type = *dice.pick(&[0x0ac1, 0x0ac0, 1, 0, 0x4ac0, 0xffff]);
            ", another ANEP type"
        }
        5 => {
            let kinds = [0x0001u16, 0x0002, 0x0003, 0x0004, 0x0077, 0x4077, 0x8001, 0xc001];
            for _ in 0..1 + dice.below(3) {
                draft.anep_options.extend(dice.pick(&kinds).to_be_bytes());
                draft.anep_options.extend([0, 2, 0, 0, 0, dice.below(3) as u8]);
            }
            ", ANEP options"
        }
        6 => {
            draft.capsule_version = dice.below(4) as u8;
            ", another capsule version"
        }
        7 => {
            draft.capsule_flags = 1 << dice.below(8);
            ", capsule flags"
        }
        8 => {
            let at = dice.below(32);
            draft.header.code.0[at] ^= 1 << dice.below(8);
            ", another code name"
        }
        9 => {
            draft.slack = 1 + dice.below(40);
            ", bytes behind the ANEP packet"
        }
        10 => {
            draft.trailer = 1 + dice.below(40);
            ", bytes behind the IP packet"
        }
        11 => {
            draft.flow_label = dice.below(1 << 20) as u32;
            draft.identification = dice.below(1 << 16) as u16;
            ", a flow label"
        }
        12 => {
            draft.header.destination = dice.any_addr();
            draft.ip_destination = Some(dice.any_addr());
            ", two destinations"
        }
        _ => {
            let length = draft.payload.len();
            draft.payload = dice.bytes(length);
            ", any payload"
        }
    }
}
