//! Rules in the syntax of Bowman's paper: headers with tests of their fields. Example:
//! `[ethernet (proto = ETHERTYPE_IP) | ip (src = 10.0.0.1) | udp (dport = 2001) | *]`.
//!
//! `*` at the end lets other headers follow; without it the last header that is named is the packet's last. Headers before the first one
//! that is named, and tests that the next header implies, may be left out.

use super::constants::{CONSTANTS, constant};
use super::pattern::{DEPTH_MAX, HostNames, Op, Pattern, Spot, Wanted};
use super::protocol::{Notation, Protocol, ProtocolField, ProtocolId};
use super::protocols::Protocols;
use super::token::{Mistake, Reader, Token, Words, nearest, number, shown};
use std::net::IpAddr;

/// Tests in one rule.
const WRITTEN_MAX: usize = 256;

/// What a rule's text is read with.
pub struct Vocabulary<'a> {
    /// What is taught.
    pub protocols: &'a Protocols,
    /// What every packet begins with.
    pub root: ProtocolId,
    /// Who knows hosts' addresses.
    pub names: &'a mut dyn HostNames,
}

/// What a value says of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// These bits are these.
    Bits(u128, u128),
    /// A number from this to that.
    Range(u64, u64),
}

/// A header that is named.
struct Named<'a> {
    id: ProtocolId,
    token: Token<'a>,
    tests: Vec<Written<'a>>,
}

/// A test as it is written.
struct Written<'a> {
    field: usize,
    at: Token<'a>,
    any: Vec<Said>,
    is_not: bool,
}

/// Reads a rule.
pub fn rule(text: &str, known: &mut Vocabulary<'_>) -> Result<Wanted, Mistake> {
    let mut reader = Reader::new(text, Words::Whole)?;
    reader.demand("[")?;
    let (mut headers, mut open) = (Vec::new(), false);
    loop {
        if reader.take("*") {
            open = true;
            break;
        }
        headers.push(header(&mut reader, known)?);
        if !reader.take("|") {
            break;
        }
    }
    reader.demand("]")?;
    if reader.peek().is_some() {
        return Err(reader.wrong("the end of the rule"));
    }
    if headers.iter().map(|header| header.tests.len()).sum::<usize>() > WRITTEN_MAX {
        return Err(Mistake::at(0, format!("a rule has at most {WRITTEN_MAX} tests")));
    }
    together(&headers, open, known)
}

fn header<'a>(reader: &mut Reader<'a>, known: &mut Vocabulary<'_>) -> Result<Named<'a>, Mistake> {
    let token = reader.word("the name of a protocol, or '*',")?;
    let Some(id) = known.protocols.id(token.text) else {
        return Err(Mistake::at(token.at, known.protocols.unknown(token.text)));
    };
    let mut tests = Vec::new();
    while reader.take("(") {
        if let Some(protocol) = known.protocols.one(id) {
            let protocol = protocol.clone();
            tests.push(test(reader, &protocol, known.names)?);
        }
        reader.demand(")")?;
    }
    Ok(Named { id, token, tests })
}

fn test<'a>(reader: &mut Reader<'a>, protocol: &Protocol, names: &mut dyn HostNames) -> Result<Written<'a>, Mistake> {
    let at = reader.word("the name of a field")?;
    let field = protocol.field(at.text).ok_or_else(|| protocol.no_field(at.text, at.at))?;
    let mask = if reader.take("&") { Some(exact(reader, &protocol.fields[field], names)?) } else { None };
    let sign = reader.advance().filter(|token| ["=", "==", "!=", "<", "<=", ">", ">="].contains(&token.text));
    let Some(sign) = sign else {
        return Err(Mistake::at(at.at, format!("{} has no comparison: = != < <= > >=", at.text)));
    };
    let is_not = sign.text == "!=";
    let field_of = &protocol.fields[field];
    let most = field_of.bits.most();
    let any = match (mask, sign.text) {
        (Some(mask), "=" | "==" | "!=") => {
            let wanted = exact(reader, field_of, names)?;
            if wanted & !mask != 0 {
                return Err(Mistake::at(at.at, "this can never hold: the value has bits that the mask has not"));
            }
            vec![Said::Bits(mask, wanted)]
        }
        (Some(_), _) => return Err(Mistake::at(sign.at, format!("a masked field can be = or !=, not {}", sign.text))),
        (None, "=" | "==" | "!=") => value(reader, field_of, names)?,
        (None, order) => {
            let edge = exact(reader, field_of, names)?;
            let edge = u64::try_from(edge).map_err(|_| too_wide(&at))?;
            let range = match order {
                "<" => edge.checked_sub(1).map(|high| (0, high)),
                "<=" => Some((0, edge)),
                ">" => edge.checked_add(1).filter(|low| *low <= most).map(|low| (low, most)),
                _ => Some((edge, most)),
            };
            let Some((low, high)) = range else { return Err(Mistake::at(at.at, "this can never hold")) };
            vec![Said::Range(low, high)]
        }
    };
    if any.iter().any(|said| matches!(said, Said::Range(..))) && field_of.bits.count > 32 {
        return Err(too_wide(&at));
    }
    Ok(Written { field, at, any, is_not })
}

fn too_wide(at: &Token<'_>) -> Mistake {
    Mistake::at(
        at.at,
        format!(
            "{} has more than 32 bits: it can be compared with a value, a prefix or a mask, not with a range",
            at.text
        ),
    )
}

/// One value, without a range or a prefix.
fn exact(reader: &mut Reader<'_>, field: &ProtocolField, names: &mut dyn HostNames) -> Result<u128, Mistake> {
    let at = reader.at();
    let word = reader.word("a value")?;
    match single(word.text, field, names) {
        Some(value) if fits(value, field) => Ok(value),
        Some(_) => {
            Err(Mistake::at(at, format!("{} has {} bits, and {} has more", field.name, field.bits.count, word.text)))
        }
        None => Err(no_value(&word, field)),
    }
}

fn fits(value: u128, field: &ProtocolField) -> bool {
    field.bits.count >= 128 || value >> field.bits.count == 0
}

/// A number, a constant or an address.
fn single(word: &str, field: &ProtocolField, names: &mut dyn HostNames) -> Option<u128> {
    match field.notation {
        Notation::V4 => word.parse::<core::net::Ipv4Addr>().ok().map(|addr| u128::from(addr.to_bits())),
        Notation::V6 => word.parse::<core::net::Ipv6Addr>().ok().map(core::net::Ipv6Addr::to_bits),
        Notation::Mac => mac(word),
        Notation::Number | Notation::Hex => None,
    }
    .or_else(|| {
        let known = |word| number(word).or_else(|| constant(word));
        (field.bits.count <= 64).then(|| known(word).or_else(|| names.constant(word)))?.map(u128::from)
    })
}

/// `02:00:00:00:00:01`.
pub(super) fn mac(word: &str) -> Option<u128> {
    let bytes: Vec<_> =
        word.split(':').map(|byte| u8::from_str_radix(byte, 16).ok().filter(|_| byte.len() <= 2)).collect();
    if bytes.len() != 6 {
        return None;
    }
    bytes.into_iter().try_fold(0, |value, byte| Some(value << 8 | u128::from(byte?)))
}

/// The word is no value of the field: what would be.
fn no_value(word: &Token<'_>, field: &ProtocolField) -> Mistake {
    let what = match field.notation {
        Notation::Number | Notation::Hex => {
            let near = nearest(word.text, CONSTANTS.iter().map(|(name, _)| *name));
            format!("'{}' is no number and no known constant{near}", shown(word.text))
        }
        Notation::Mac => format!("'{}' is no address of Ethernet, such as 02:00:00:00:00:01", shown(word.text)),
        Notation::V4 => format!("'{}' is no address of IPv4, and no host of this name has one", shown(word.text)),
        Notation::V6 => format!("'{}' is no address of IPv6, and no host of this name has one", shown(word.text)),
    };
    Mistake::at(word.at, what)
}

/// One value in a word.
fn part(text: &str, word: &Token<'_>, field: &ProtocolField, names: &mut dyn HostNames) -> Result<u128, Mistake> {
    match single(text, field, names) {
        Some(value) if fits(value, field) => Ok(value),
        Some(_) => {
            Err(Mistake::at(word.at, format!("{} has {} bits: {text} does not fit", field.name, field.bits.count)))
        }
        None => Err(no_value(&Token { text, ..*word }, field)),
    }
}

/// What stands behind `=`: a value, `low..high`, `address/length`, or the name of a host.
fn value(reader: &mut Reader<'_>, field: &ProtocolField, names: &mut dyn HostNames) -> Result<Vec<Said>, Mistake> {
    let word = reader.word("a value")?;
    let all = u128::MAX >> (128 - u32::from(field.bits.count.clamp(1, 128)));
    if let Some((low, high)) = word.text.split_once("..") {
        let (low, high) = (part(low, &word, field, names)?, part(high, &word, field, names)?);
        return match (u64::try_from(low), u64::try_from(high)) {
            (Ok(low), Ok(high)) if low <= high => Ok(vec![Said::Range(low, high)]),
            (Ok(_), Ok(_)) => Err(Mistake::at(word.at, "the range ends before it begins")),
            _ => Err(Mistake::at(word.at, "addresses of IPv6 have prefixes, not ranges")),
        };
    }
    if let Some((addr, length)) = word.text.split_once('/') {
        let (addr, length) =
            (part(addr, &word, field, names)?, number(length).filter(|length| *length <= u64::from(field.bits.count)));
        let Some(length) = length else {
            return Err(Mistake::at(
                word.at,
                format!("a prefix of {} has at most {} bits", field.name, field.bits.count),
            ));
        };
        let mask = all & !all.checked_shr(length as u32).unwrap_or(0);
        let mask = if length == 0 { 0 } else { mask & all };
        if addr & !mask != 0 {
            return Err(Mistake::at(word.at, format!("{} has bits behind its first {length}", shown(word.text))));
        }
        return Ok(vec![Said::Bits(mask, addr)]);
    }
    if single(word.text, field, names).is_some() {
        return part(word.text, &word, field, names).map(|value| vec![Said::Bits(all, value)]);
    }
    let found: Vec<_> = match field.notation {
        Notation::V4 | Notation::V6 => {
            names.addresses(word.text).into_iter().filter_map(|addr| of(addr, field.notation)).collect()
        }
        _ => Vec::new(),
    };
    if found.is_empty() {
        Err(no_value(&word, field))
    } else {
        Ok(found.into_iter().map(|addr| Said::Bits(all, addr)).collect())
    }
}

/// An address, if it is of the family of a field.
pub(super) fn of(addr: IpAddr, notation: Notation) -> Option<u128> {
    match (addr, notation) {
        (IpAddr::V4(addr), Notation::V4) => Some(addr.to_bits().into()),
        (IpAddr::V6(addr), Notation::V6) => Some(addr.to_bits()),
        _ => None,
    }
}

/// Adds a test of a field to a pattern.
pub(super) fn add(pattern: &mut Pattern, header: usize, field: &ProtocolField, said: Said) {
    let header = header as u8;
    match said {
        Said::Bits(mask, value) => pattern.masked((header, field.bits, true), mask, value),
        Said::Range(low, high) => {
            let most = field.bits.most();
            let spot = Spot { header, bits: field.bits, inside: true };
            let op = Op::Range(low.min(most) as u32, high.min(most) as u32);
            pattern.tests.push((spot, op));
        }
    }
    pattern.cost += u32::from(field.cost);
}

/// The way of the headers that are named, and before them those that are not.
fn way(headers: &[Named<'_>], known: &Vocabulary<'_>) -> Result<Vec<ProtocolId>, Mistake> {
    let protocols = known.protocols;
    let name = |id: ProtocolId| protocols.one(id).map_or("?", |protocol| &protocol.name);
    let Some(first) = headers.first() else { return Ok(vec![known.root]) };
    let Some(mut way) = protocols.way(known.root, first.id) else {
        let what = format!("{} is behind {} in no packet: it needs (follows …)", name(first.id), name(known.root));
        return Err(Mistake::at(first.token.at, what));
    };
    for (outer, inner) in headers.iter().zip(&headers[1..]) {
        let between = protocols.way(outer.id, inner.id).filter(|way| way.len() > 1);
        match between {
            Some(way) if way.len() == 2 => {}
            Some(way) => {
                let names: Vec<_> = way.iter().map(|id| name(*id)).collect();
                let what =
                    format!("{} is not right behind {}: write {}", name(inner.id), name(outer.id), names.join(" | "));
                return Err(Mistake::at(inner.token.at, what));
            }
            None => {
                let what = format!(
                    "{} does not follow {}: its definition needs (follows {} …)",
                    name(inner.id),
                    name(outer.id),
                    name(outer.id)
                );
                return Err(Mistake::at(inner.token.at, what));
            }
        }
        way.push(inner.id);
    }
    if way.len() > DEPTH_MAX {
        return Err(Mistake::at(
            first.token.at,
            format!("a rule has at most {DEPTH_MAX} headers, this one has {}", way.len()),
        ));
    }
    Ok(way)
}

fn together(headers: &[Named<'_>], open: bool, known: &Vocabulary<'_>) -> Result<Wanted, Mistake> {
    let way = way(headers, known)?;
    let left_out = way.len() - headers.len().max(1);
    let ends = !open;
    let mut all = vec![Wanted::One(Pattern { way: way.clone(), ends, ..Pattern::default() })];
    for (at, header) in headers.iter().enumerate() {
        let Some(protocol) = known.protocols.one(header.id) else { continue };
        let inner = headers.get(at + 1).and_then(|inner| known.protocols.one(inner.id));
        for written in &header.tests {
            let place = left_out + at;
            let implied = implied(protocol, inner.map(|inner| &**inner), written)?;
            let one = |said: &Said| {
                let mut pattern = Pattern { way: way[..=place].to_vec(), ..Pattern::default() };
                match implied {
                    true => pattern.cost = protocol.fields[written.field].cost.into(),
                    false => add(&mut pattern, place, &protocol.fields[written.field], *said),
                }
                Wanted::One(pattern)
            };
            let mut any: Vec<_> = written.any.iter().map(one).collect();
            let wanted = if any.len() == 1 { any.remove(0) } else { Wanted::Any(any) };
            all.push(if written.is_not { Wanted::Not(Box::new(wanted)) } else { wanted });
        }
    }
    Ok(Wanted::All(all))
}

/// Whether a test is implied by the header behind, or by what makes it this header. It may contradict them as well.
fn implied(protocol: &Protocol, inner: Option<&Protocol>, written: &Written<'_>) -> Result<bool, Mistake> {
    let field = &protocol.fields[written.field];
    let all = u128::MAX >> (128 - u32::from(field.bits.count));
    let [Said::Bits(mask, value)] = written.any[..] else { return Ok(false) };
    if mask != all || written.is_not {
        return Ok(false);
    }
    let never = |why: String| Err(Mistake::at(written.at.at, format!("this can never hold: {why}")));
    if let Some(must) = protocol.requires.iter().find(|must| must.field == written.field) {
        let name = &field.name;
        return if u128::from(must.value) == value {
            Ok(true)
        } else {
            never(format!("{} requires {name} = {}", protocol.name, must.value))
        };
    }
    let Some(inner) = inner.filter(|_| protocol.next.is_some_and(|next| next.field == written.field)) else {
        return Ok(false);
    };
    let values: Vec<_> = inner
        .follows
        .iter()
        .filter(|(below, _)| *below == protocol.name)
        .map(|(_, value)| u128::from(*value))
        .collect();
    if !values.contains(&value) {
        return never(format!("{} follows {} at {values:?}", inner.name, protocol.name));
    }
    Ok(values.len() == 1)
}
