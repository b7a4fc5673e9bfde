//! The rules of `IPClassifier` and `IPFilter` as tests: the cases of the one classifier ([`crate::classify::taught`]), in their order.
//!
//! Of a plain packet it is known where headers are: IP at [`IP_AT`] without options, and what is in it right behind. Rules that look
//! behind another header of variable length have no form.

use super::body::{FusedAt, FusedBody, FusedLabel, NoForm};
use crate::classify::taught::bits::Bits;
use crate::classify::taught::classifier::Classifier;
use crate::classify::taught::pattern::{Case, Op, Pattern, Spot};
use crate::classify::taught::protocol::{Length, Protocol};
use crate::contract::plan::{FusedTest, IP_AT, PLAIN};

/// Rules that are tried one behind the other, at most.
const RULES_MAX: usize = 64;

/// Where the number of the protocol in it is in an IPv4 header.
const PROTOCOL_AT: u16 = IP_AT + 9;

impl FusedBody<'_> {
    /// Takes a packet to where the first rule says that holds; one for which none does is dropped.
    pub fn rules(&mut self, rules: &Classifier<Option<u16>>, at: FusedAt) -> Result<FusedLabel, NoForm> {
        at.plain_ip()?;
        let mut all: Vec<_> = rules.owners().map(|(number, owner)| (number, *owner)).collect();
        if all.len() > RULES_MAX {
            return Err(NoForm::Because(format!("it has more than {RULES_MAX} rules")));
        }
        all.sort_by_key(|(number, _)| rules.cases(*number).map(|(order, _)| (order, *number)));
        let thrown = self.drop()?;
        let mut next = thrown;
        for (number, output) in all.into_iter().rev() {
            let found = match output {
                Some(output) => self.to(output, FusedAt { is_v4: true, ..at })?,
                None => thrown,
            };
            let cases: Vec<&Case> = rules.cases(number).into_iter().flat_map(|(_, cases)| cases).collect();
            for case in cases.into_iter().rev() {
                // Others of the same rule are tried before the next rule.
                next = self.case(rules, case, found, next)?;
            }
        }
        self.is_v4(at, next, thrown)
    }

    /// Whether a plain packet is one of IPv4.
    pub fn is_v4(&mut self, at: FusedAt, then: FusedLabel, otherwise: FusedLabel) -> Result<FusedLabel, NoForm> {
        if at.is_v4 {
            return Ok(then);
        }
        let test = FusedTest { at: IP_AT, width: 1, shift: 4, mask: 0xf, low: 4, high: 4, reach: 0 };
        self.test(test, then, otherwise)
    }

    fn case(
        &mut self,
        rules: &Classifier<Option<u16>>,
        case: &Case,
        then: FusedLabel,
        otherwise: FusedLabel,
    ) -> Result<FusedLabel, NoForm> {
        let mut label = then;
        for fails in case.fails.iter().rev() {
            label = self.pattern(rules, fails, otherwise, label)?;
        }
        self.pattern(rules, &case.holds, label, otherwise)
    }

    fn pattern(
        &mut self,
        rules: &Classifier<Option<u16>>,
        pattern: &Pattern,
        then: FusedLabel,
        otherwise: FusedLabel,
    ) -> Result<FusedLabel, NoForm> {
        let protocols = rules.protocols();
        let inner = match pattern.way.as_slice() {
            [_] => None,
            [ip, inner] => protocols.one(*inner).map(|known| (*ip, *inner, known.clone())),
            _ => return Err(deep()),
        };
        if pattern.ends {
            return Err(NoForm::Because("a rule of it asks what is not behind a header".to_owned()));
        }
        let mut label = then;
        for (spot, op) in pattern.tests.iter().rev() {
            let start = if spot.header == 0 { IP_AT } else { PLAIN };
            label = self.test(test_of(spot, *op, start)?, label, otherwise)?;
        }
        let Some((ip, inner, known)) = inner else { return Ok(label) };
        let least = least(&known)?;
        let values = (0..=255u64).filter(|value| protocols.inside(ip, *value) == Some(inner));
        let mut missing = otherwise;
        for value in values.collect::<Vec<_>>().into_iter().rev() {
            let value = value as u32;
            let reach = PLAIN + least;
            let test = FusedTest { at: PROTOCOL_AT, width: 1, shift: 0, mask: 0xff, low: value, high: value, reach };
            missing = self.test(test, label, missing)?;
        }
        Ok(missing)
    }
}

fn deep() -> NoForm {
    NoForm::Because("a rule of it looks behind a header whose length is known of each packet alone".to_owned())
}

/// Bytes that a header in an IP packet has at least; those of variable length are whole in plain packets.
fn least(known: &Protocol) -> Result<u16, NoForm> {
    let is_plain = matches!(known.name.as_str(), "udp" | "tcp");
    let Protocol { header: Length { field, least, .. }, whole, requires, has_sum, .. } = known;
    let is_fixed = field.is_none() && whole.is_none() && requires.is_empty() && !has_sum;
    if is_plain || is_fixed { u16::try_from(*least).map_err(|_| deep()) } else { Err(deep()) }
}

fn test_of(spot: &Spot, op: Op, start: u16) -> Result<FusedTest, NoForm> {
    let Bits { byte, bit, count } = spot.bits;
    let end = start as usize + spot.bits.end();
    let bytes = spot.bits.end() - byte as usize;
    let width = match bytes {
        0 | 1 => 1,
        2 => 2,
        3 | 4 => 4,
        _ => return Err(NoForm::Because("a rule of it tests bits that lie in five bytes".to_owned())),
    };
    let at = u16::try_from(end - width).map_err(|_| deep())?;
    // Bits behind those of the spot, in its last byte.
    let shift = (bytes * 8) as u32 - u32::from(bit) - u32::from(count);
    let most = spot.bits.most() as u32;
    let (mask, low, high) = match op {
        Op::Range(low, high) => (most, low, high),
        Op::Mask(mask, wanted) => (mask & most, wanted, wanted),
    };
    let reach = if spot.inside { 0 } else { end as u16 };
    Ok(FusedTest { at, width: width as u8, shift: shift as u8, mask, low, high, reach })
}
