//! An output for each pattern of bytes.

use crate::frame::FRAME;
use crate::frame::Frame;
use crate::graph::arguments::{Arguments, words_of};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `Classifier`.
pub const CLASS: EngineClass = EngineClass {
    name: "Classifier",
    doc: "Sends packets to the output of the first pattern that holds. Classifier(OFFSET/BYTES%MASK ..., ...): \
          BYTES in hexadecimal with ? for any digit, ! for not; - holds for all",
    make: Make::with("1/-", "h/h", "x/x", make),
};

fn make(args: &mut Arguments<'_>) -> Option<Box<dyn Engine>> {
    let (mut patterns, mut wrong) = (Vec::new(), false);
    for argument in args.rest() {
        match words_of(argument).into_iter().map(Clause::read).collect::<Option<Vec<_>>>() {
            Some(clauses) if !clauses.is_empty() => {
                wrong |= !args.leads(argument, patterns.len() as u16);
                patterns.push(clauses);
            }
            _ => {
                args.say(argument, format!("'{}' is no pattern", argument.text), "as 12/0800, or - for all");
                wrong = true;
            }
        }
    }
    (!wrong).then(|| Box::new(BytesClassifier(patterns)) as Box<dyn Engine>)
}

/// Bytes at a place, under a mask.
struct Clause {
    offset: usize,
    value: Vec<u8>,
    mask: Vec<u8>,
    /// Whether it holds where the bytes are others.
    not: bool,
}

impl Clause {
    fn read(word: &str) -> Option<Clause> {
        if word == "-" {
            return Some(Clause { offset: 0, value: Vec::new(), mask: Vec::new(), not: false });
        }
        let (not, word) = word.strip_prefix('!').map_or((false, word), |word| (true, word));
        let (offset, digits) = word.split_once('/')?;
        let (digits, masked) = digits.split_once('%').map_or((digits, None), |(digits, mask)| (digits, Some(mask)));
        let offset = offset.parse().ok().filter(|offset| *offset < FRAME)?;
        let plain: String = digits.chars().map(|digit| if digit == '?' { '0' } else { digit }).collect();
        let known: String = digits.chars().map(|digit| if digit == '?' { '0' } else { 'f' }).collect();
        let (value, mut mask) = (hex::decode(plain).ok()?, hex::decode(known).ok()?);
        if let Some(masked) = masked {
            let given = hex::decode(masked).ok().filter(|given| given.len() == mask.len())?;
            mask.iter_mut().zip(given).for_each(|(mask, given)| *mask &= given);
        }
        (!value.is_empty()).then_some(Clause { offset, value, mask, not })
    }

    #[inline]
    fn holds(&self, bytes: &[u8]) -> bool {
        let there = bytes.get(self.offset..self.offset + self.value.len()).is_some_and(|bytes| {
            bytes.iter().zip(&self.value).zip(&self.mask).all(|((byte, value), mask)| (byte ^ value) & mask == 0)
        });
        there != self.not
    }
}

/// Of each output, what must hold.
struct BytesClassifier(Vec<Vec<Clause>>);

impl Engine for BytesClassifier {
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let bytes = frame.bytes();
        match self.0.iter().position(|clauses| clauses.iter().all(|clause| clause.holds(bytes))) {
            Some(output) => Pushed::To(output as u16, frame),
            None => Pushed::thrown(frame),
        }
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        let mut next = body.drop()?;
        for (output, clauses) in self.0.iter().enumerate().rev() {
            let otherwise = next;
            let mut label = body.to(output as u16, at)?;
            for clause in clauses.iter().rev().filter(|clause| !clause.value.is_empty()) {
                let place = at.first.saturating_add(clause.offset as u16);
                let (then, fails) = if clause.not { (otherwise, label) } else { (label, otherwise) };
                label = body.bytes_are(place, (&clause.value, &clause.mask), then, fails)?;
            }
            next = label;
        }
        Ok(next)
    }
}
