//! Messages under assembly under any sequence of calls: the table stays within its limits, counts its contents, and
//! gives a message only as its own source sent it.

use crate::frame::assembly::{Assemblies, AssemblyLimits, Misfit, PartialMessage};
use std::collections::{BTreeMap, BTreeSet};

/// A source, and the number of a message there.
type Key = (u8, u8);

/// What a source has sent at a place of a message.
fn sent((source, id): Key, at: usize) -> u8 {
    source.wrapping_mul(31) ^ id.wrapping_mul(7) ^ at as u8
}

/// What the table should hold: bytes counted, pieces that came, and until when.
struct Known {
    bytes: usize,
    here: BTreeSet<u8>,
    until: u64,
}

/// The bytes are the table's limits, then what happens, in five bytes each: time passes, a piece comes, or a message grows or is taken.
pub fn assembly(bytes: &[u8]) {
    let Some(([messages, room, within], steps)) = bytes.split_first_chunk::<3>() else { return };
    let limits = AssemblyLimits {
        messages: usize::from(messages % 9),
        bytes: usize::from(*room) * 4,
        within: 1 + u64::from(*within),
    };
    let mut table: Assemblies<Key, u8, (Key, PartialMessage)> = Assemblies::new(limits);
    let mut model: BTreeMap<Key, Known> = BTreeMap::new();
    let mut now = 0;
    for [what, who, index, count, length] in steps.as_chunks::<5>().0 {
        now += u64::from(what / 16);
        let key = (who % 5, who / 5 % 4);
        let mut gone = Vec::new();
        let mut lose = |(key, _): (Key, PartialMessage)| gone.push(key);
        match what % 4 {
            0 => table.expire(now, &mut lose),
            1 => {
                if let Some(at) = table.find(now, &key)
                    && table.grow(at, usize::from(*length), &mut lose).is_some()
                    && let Some(known) = model.get_mut(&key)
                {
                    known.bytes += usize::from(*length);
                }
            }
            _ => {
                let (count, total) = (*count.max(&1), usize::from(*length));
                let size = total.div_ceil(usize::from(count));
                let at = table.find(now, &key).or_else(|| {
                    let at = table.begin(
                        now,
                        (key, key.0),
                        total,
                        (key, PartialMessage::new(count, size, total)),
                        &mut lose,
                    );
                    assert_eq!(at.is_none(), total > limits.bytes || limits.messages == 0);
                    at
                });
                // What is late has gone before another of its name begins.
                gone.drain(..).for_each(|gone| assert!(model.remove(&gone).is_some()));
                let Some(at) = at else { continue };
                let until = now + limits.within;
                let known = model.entry(key).or_insert(Known { bytes: total, here: BTreeSet::new(), until });
                piece(&mut table, (at, key), *index, known);
            }
        }
        gone.iter().for_each(|gone| assert!(model.remove(gone).is_some(), "what goes was there, once"));
        model.retain(|key, _| table.find(0, key).is_some());
        assert!(table.len() <= limits.messages && table.held() <= limits.bytes);
        assert_eq!(table.len(), model.len());
        assert_eq!(table.held(), model.values().map(|known| known.bytes).sum::<usize>());
        assert_eq!(table.next_timer(), model.values().map(|known| known.until).min().unwrap_or(u64::MAX));
    }
}

/// A piece comes as its source has sent it, or with a byte too many.
fn piece(
    table: &mut Assemblies<Key, u8, (Key, PartialMessage)>,
    (at, key): (usize, Key),
    index: u8,
    known: &mut Known,
) {
    let (of, message) = table.get_mut(at).expect("a message that was found");
    assert_eq!(*of, key);
    let (count, total) = (message.pieces().count(), message.total());
    let size = total.div_ceil(usize::from(count));
    let start = usize::from(index) * size;
    let mut piece: Vec<u8> = (start..total.min(start + size)).map(|at| sent(key, at)).collect();
    let fits = index < count && start <= total;
    let came = message.put(index, &piece);
    assert_eq!(came, if fits { Ok(known.here.insert(index)) } else { Err(Misfit) });
    piece.push(0);
    assert_eq!(message.put(index, &piece), Err(Misfit));
    let whole = message.whole();
    assert_eq!(whole.is_some(), known.here.len() == usize::from(count));
    if let Some(whole) = whole {
        assert!(whole.iter().enumerate().all(|(at, byte)| *byte == sent(key, at)), "another's bytes");
        assert_eq!(whole.len(), total);
        assert!(table.take(at).is_some());
    }
}
