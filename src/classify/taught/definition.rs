//! Definitions of protocols as text, in the language of Bowman (Merugu et al., INFOCOM 2000, III.B), extended by lengths that a
//! header says, bits, and what is behind a header. Example:
//!
//! ```text
//! (protocol ethernet (hdr_len 14) (next proto)
//!   (field dst offset 0 length 6 format mac)
//!   (field src offset 6 length 6 format mac)
//!   (field proto offset 12 length 2 format hex))
//! ```
//!
//! What a definition says of itself is checked here; what it says of others is `protocol.rs`'s.

use super::bits::Bits;
use super::protocol::{
    FIELDS_MAX, FOLLOWS_MAX, HEADER_MAX, Length, Must, NextHeader, Notation, PROTOCOLS_MAX, Protocol, ProtocolField,
};
use super::token::{Mistake, Reader, Token, Words, nearest};

const CLAUSES: [&str; 7] = ["hdr_len", "whole_len", "require", "sum", "next", "follows", "field"];
const NAME_MAX: usize = 32;

/// A length as it is written: field and factor, what is added, and the least.
struct Said<'a> {
    field: Option<(Token<'a>, u32)>,
    add: u32,
    least: Option<u32>,
    at: usize,
}

/// A condition: field and value.
type Condition<'a> = (Token<'a>, u64);

/// The clauses of one definition, before its fields are all known.
#[derive(Default)]
struct Clauses<'a> {
    header: Option<Said<'a>>,
    whole: Option<Said<'a>>,
    requires: Vec<Condition<'a>>,
    has_sum: bool,
    next: Option<(Token<'a>, Option<Condition<'a>>)>,
    follows: Vec<(String, u64)>,
    fields: Vec<(usize, ProtocolField)>,
}

/// The definitions of a text, each with the place of its name.
pub fn read(text: &str) -> Result<Vec<(usize, Protocol)>, Mistake> {
    let mut reader = Reader::new(text, Words::Whole)?;
    let mut found = Vec::new();
    while reader.peek().is_some() {
        if found.len() >= PROTOCOLS_MAX {
            return Err(Mistake::at(reader.at(), format!("at most {PROTOCOLS_MAX} protocols can be taught")));
        }
        reader.demand("(")?;
        reader.demand("protocol")?;
        let name = name(&mut reader, "the name of a protocol")?;
        let mut clauses = Clauses::default();
        while reader.take("(") {
            clause(&mut reader, &mut clauses)?;
            reader.demand(")")?;
        }
        reader.demand(")")?;
        found.push((name.at, clauses.protocol(name)?));
    }
    Ok(found)
}

/// A name: a letter, then letters, digits and underscores.
fn name<'a>(reader: &mut Reader<'a>, what: &str) -> Result<Token<'a>, Mistake> {
    let token = reader.word(what)?;
    let is_letter = token.text.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_name = is_letter && token.text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name && token.text.len() <= NAME_MAX {
        return Ok(token);
    }
    let rule = format!("{what} is a letter, and up to {} letters, digits and underscores", NAME_MAX - 1);
    Err(Mistake::at(token.at, rule))
}

fn clause<'a>(reader: &mut Reader<'a>, clauses: &mut Clauses<'a>) -> Result<(), Mistake> {
    let word = reader.word("a clause")?;
    let again = || Err(Mistake::at(word.at, format!("{} is said twice", word.text)));
    match word.text {
        "hdr_len" if clauses.header.is_some() => return again(),
        "whole_len" if clauses.whole.is_some() => return again(),
        "next" if clauses.next.is_some() => return again(),
        "hdr_len" => clauses.header = Some(length(reader)?),
        "whole_len" => clauses.whole = Some(length(reader)?),
        "require" => clauses.requires.push(condition(reader)?),
        "sum" => clauses.has_sum = true,
        "next" => {
            let field = name(reader, "the name of a field")?;
            let only_if = if reader.take("if") { Some(condition(reader)?) } else { None };
            clauses.next = Some((field, only_if));
        }
        "follows" => {
            let below = name(reader, "the name of a protocol")?;
            while reader.peek().is_some_and(|token| token.is_word) {
                let value = reader.number("the value at which it follows", u64::MAX)?;
                clauses.follows.push((below.text.to_owned(), value));
            }
            if clauses.follows.last().is_none_or(|(name, _)| name != below.text) {
                return Err(reader.wrong("the value at which it follows"));
            }
            if clauses.follows.len() > FOLLOWS_MAX {
                return Err(Mistake::at(word.at, format!("it follows at {FOLLOWS_MAX} values at most")));
            }
        }
        "field" => field(reader, clauses)?,
        other => {
            let near = nearest(other, CLAUSES.into_iter());
            return Err(Mistake::at(word.at, format!("there is no clause '{}'{near}", super::token::shown(other))));
        }
    }
    Ok(())
}

fn condition<'a>(reader: &mut Reader<'a>) -> Result<Condition<'a>, Mistake> {
    let field = name(reader, "the name of a field")?;
    reader.demand("=")?;
    Ok((field, reader.number("the value", u64::MAX)?))
}

/// `14`, `ihl * 4 min 20`, or `payload + 40`.
fn length<'a>(reader: &mut Reader<'a>) -> Result<Said<'a>, Mistake> {
    let at = reader.at();
    let number = |reader: &mut Reader<'a>, what: &str| Ok(reader.number(what, HEADER_MAX)? as u32);
    let mut said = Said { field: None, add: 0, least: None, at };
    let is_number = reader.peek().is_some_and(|token| token.text.starts_with(|c: char| c.is_ascii_digit()));
    if is_number {
        said.add = number(reader, "a length")?;
        return Ok(said);
    }
    let field = name(reader, "a number, or the name of a field,")?;
    let times = if reader.take("*") { number(reader, "the factor")? } else { 1 };
    said.field = Some((field, times));
    if reader.take("+") {
        said.add = number(reader, "what is added")?;
    }
    if reader.take("min") {
        said.least = Some(number(reader, "the least length")?);
    }
    Ok(said)
}

/// `src offset 6 length 6 format mac cost 2 flow`, `ihl offset 0 bit 4 bits 4`.
fn field<'a>(reader: &mut Reader<'a>, clauses: &mut Clauses<'a>) -> Result<(), Mistake> {
    let called = name(reader, "the name of a field")?;
    let (name, at) = (called.text.to_owned(), called.at);
    if clauses.fields.iter().any(|(_, field)| field.name == name) {
        return Err(Mistake::at(at, format!("there are two fields {name}")));
    }
    if clauses.fields.len() >= FIELDS_MAX {
        return Err(Mistake::at(at, format!("a protocol has at most {FIELDS_MAX} fields")));
    }
    reader.demand("offset")?;
    let byte = reader.number("the offset in bytes", HEADER_MAX)? as u32;
    let bits = if reader.take("bit") {
        let bit = reader.number("the first bit", 7)? as u8;
        reader.demand("bits")?;
        let count = reader.number("the number of bits", 64 - u64::from(bit))? as u8;
        Bits { byte, bit, count }
    } else {
        reader.demand("length")?;
        let length = reader.number("the length in bytes", 16)? as u8;
        Bits::bytes(byte, length)
    };
    if bits.count == 0 {
        return Err(Mistake::at(at, format!("field {name} has no bits")));
    }
    let mut field = ProtocolField { name, bits, cost: 1, notation: Notation::Number, flow: false };
    loop {
        if reader.take("format") {
            field.notation = notation(reader, bits)?;
        } else if reader.take("cost") {
            field.cost = reader.number("the cost", 1000)? as u16;
        } else if reader.take("flow") {
            field.flow = true;
        } else {
            break;
        }
    }
    if bits.count > 64 && field.notation != Notation::V6 {
        return Err(Mistake::at(
            at,
            format!("field {} has more than 64 bits, which only addresses of IPv6 have", field.name),
        ));
    }
    clauses.fields.push((at, field));
    Ok(())
}

fn notation(reader: &mut Reader<'_>, bits: Bits) -> Result<Notation, Mistake> {
    const KNOWN: [(&str, Notation, u8); 5] = [
        ("number", Notation::Number, 0),
        ("hex", Notation::Hex, 0),
        ("mac", Notation::Mac, 48),
        ("ip", Notation::V4, 32),
        ("ip6", Notation::V6, 128),
    ];
    let word = reader.word("a format")?;
    let Some((name, notation, count)) = KNOWN.into_iter().find(|(name, ..)| *name == word.text) else {
        let names = KNOWN.map(|(name, ..)| name);
        return Err(Mistake::at(word.at, format!("a format is one of {}", names.join(", "))));
    };
    if count != 0 && count != bits.count {
        return Err(Mistake::at(word.at, format!("what has the format {name} has {count} bits, not {}", bits.count)));
    }
    Ok(notation)
}

impl Clauses<'_> {
    fn protocol(self, name: Token<'_>) -> Result<Protocol, Mistake> {
        let fields: Vec<_> = self.fields.iter().map(|(_, field)| field.clone()).collect();
        let mut protocol = Protocol {
            name: name.text.to_owned(),
            header: Length { field: None, add: 0, least: 0 },
            whole: None,
            requires: Vec::new(),
            has_sum: self.has_sum,
            next: None,
            follows: self.follows,
            fields,
            usual: None,
        };
        let Some(header) = self.header else {
            return Err(Mistake::at(name.at, format!("{} has no hdr_len: how long is its header?", name.text)));
        };
        let at = header.at;
        protocol.header = resolve(&protocol, &header)?;
        let least = protocol.header.least as usize;
        if least == 0 {
            return Err(Mistake::at(at, "a header has at least one byte: say `min 1`, or how many it has"));
        }
        for (at, field) in &self.fields {
            if field.bits.end() > least {
                let what = format!(
                    "field {} reads beyond the header: it ends at byte {}, and a header may have only {least}",
                    field.name,
                    field.bits.end()
                );
                return Err(Mistake::at(*at, what));
            }
        }
        if let Some(whole) = &self.whole {
            protocol.whole = Some(resolve(&protocol, whole)?);
        }
        protocol.requires =
            self.requires.iter().map(|condition| must(&protocol, condition)).collect::<Result<_, _>>()?;
        let twice = |at: &usize| protocol.requires[..*at].iter().any(|must| must.field == protocol.requires[*at].field);
        if let Some(at) = (0..protocol.requires.len()).find(twice) {
            let (field, _) = self.requires[at];
            return Err(Mistake::at(field.at, format!("{} is required twice", field.text)));
        }
        if let Some((field, only_if)) = &self.next {
            let (number, bits) = named(&protocol, field)?;
            let only_if = only_if.as_ref().map(|condition| must(&protocol, condition)).transpose()?;
            protocol.next = Some(NextHeader { field: number, bits, only_if });
        }
        protocol.usual = protocol.usual_form();
        Ok(protocol)
    }
}

/// A field by its name, of at most 64 bits.
fn named(protocol: &Protocol, token: &Token<'_>) -> Result<(usize, Bits), Mistake> {
    let number = protocol.field(token.text).ok_or_else(|| protocol.no_field(token.text, token.at))?;
    let bits = protocol.fields[number].bits;
    if bits.count > 64 {
        return Err(Mistake::at(token.at, format!("{} has more than 64 bits", token.text)));
    }
    Ok((number, bits))
}

fn must(protocol: &Protocol, (token, value): &Condition<'_>) -> Result<Must, Mistake> {
    let (field, bits) = named(protocol, token)?;
    if !bits.holds(*value) {
        return Err(Mistake::at(token.at, format!("{} can never be {value}: it has {} bits", token.text, bits.count)));
    }
    Ok(Must { field, bits, value: *value })
}

fn resolve(protocol: &Protocol, said: &Said<'_>) -> Result<Length, Mistake> {
    let Some((token, times)) = &said.field else {
        return Ok(Length { field: None, add: said.add, least: said.add });
    };
    let (_, bits) = named(protocol, token)?;
    if *times == 0 {
        return Err(Mistake::at(said.at, "a field times 0 says no length"));
    }
    let most = bits.most().saturating_mul(u64::from(*times)).saturating_add(u64::from(said.add));
    let least = said.least.unwrap_or(said.add);
    if u64::from(least) > most {
        return Err(Mistake::at(said.at, format!("this length is at most {most}, and never {least}")));
    }
    Ok(Length { field: Some((bits, *times)), add: said.add, least })
}
