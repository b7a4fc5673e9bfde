//! The outline of a packet that is only passed on: its routing function, and the codes that it carries.
//!
//! A code travels whole or as its digest; a node on the way may have to turn one into the other, since what the next
//! node holds differs from what this one does. Nothing behind the codes is looked at, and nothing else changes.

use super::encode::tag;
use super::header::{BY_DIGEST, FLAGS};
use super::{CODES_MAX, DecodeError, FIXED, PACKET_MAX, View};
use crate::code::{CODE_MAX, CodeError, Reader, Writer};
use crate::name::Name;
use crate::program::Digest;
use core::ops::Range;

/// The front of a packet: its header and its codes. The bytes behind them were not looked at.
#[derive(Debug)]
pub struct Outline<'a> {
    bytes: &'a [u8],
    view: View<'a>,
    /// The routing function's name.
    pub routing: Name,
    /// The handler's name.
    pub handler: Name,
    /// Where the codes are.
    codes: Range<usize>,
    count: usize,
}

/// An outline without the bytes of its packet, whose fixed part may change meanwhile.
#[derive(Clone, Debug)]
pub struct Front {
    routing: Name,
    handler: Name,
    codes: Range<usize>,
    count: usize,
}

/// A code, as it stands in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code<'a> {
    /// Its bytes.
    Whole(&'a [u8]),
    /// Its name.
    Digest(Digest),
}

impl<'a> Outline<'a> {
    /// Reads the front of a packet.
    pub fn read(bytes: &'a [u8]) -> Result<Outline<'a>, DecodeError> {
        if bytes.len() > PACKET_MAX {
            return Err(DecodeError::TooLong);
        }
        let view = View::new_checked(bytes).ok_or(DecodeError::Header)?;
        let mut reader = Reader::new(bytes.get(FIXED..).unwrap_or(&[]));
        let (routing, handler) = (reader.name()?, reader.name()?);
        let count: usize = reader.small()?;
        if count > CODES_MAX {
            return Err(DecodeError::Codes);
        }
        let start = bytes.len() - reader.left();
        for _ in 0..count {
            code(&mut reader, view.by_digest())?;
        }
        let end = bytes.len() - reader.left();
        Ok(Outline { bytes, view, routing, handler, codes: start..end, count })
    }

    /// The same without the bytes.
    pub fn front(self) -> Front {
        let Outline { routing, handler, codes, count, .. } = self;
        Front { routing, handler, codes, count }
    }

    /// The outline of the packet whose front was read before.
    pub fn again(bytes: &'a [u8], front: Front) -> Option<Outline<'a>> {
        let Front { routing, handler, codes, count } = front;
        let view = View::again(bytes)?;
        (codes.end <= bytes.len()).then_some(Outline { bytes, view, routing, handler, codes, count })
    }

    /// The fixed part.
    pub fn view(&self) -> View<'a> {
        self.view
    }

    /// The service that the packet's chunk calls; nothing if it calls a function, or is none.
    pub fn service(&self) -> Option<Name> {
        let mut reader = Reader::new(self.bytes.get(self.codes.end..)?);
        let code: usize = reader.small().ok()?;
        if code == 0 { reader.name().ok() } else { None }
    }

    /// The first argument of that service, if it is a blob.
    pub fn first_blob(&self) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.bytes.get(self.codes.end..)?);
        let code: usize = reader.small().ok()?;
        if code != 0 {
            return None;
        }
        reader.name().ok()?;
        let count: usize = reader.small().ok()?;
        if count > 0 && reader.byte().ok()? == tag::BLOB { reader.bytes().ok() } else { None }
    }

    /// The codes, in their order.
    pub fn codes(&self) -> impl Iterator<Item = Code<'a>> + use<'a> {
        let mut reader = Reader::new(self.bytes.get(self.codes.clone()).unwrap_or(&[]));
        let by_digest = self.view.by_digest();
        (0..self.count).map_while(move |_| code(&mut reader, by_digest).ok())
    }

    /// Adds the packet with its codes whole to `out`; a code that `find` does not have is the error.
    pub fn expand<'o>(
        &self,
        mut find: impl FnMut(&Digest) -> Option<&'o [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        self.rewrite(false, out, |code, writer| match code {
            Code::Whole(bytes) => {
                writer.bytes(bytes);
                Ok(())
            }
            Code::Digest(digest) => {
                writer.bytes(find(&digest).ok_or(DecodeError::Absent(digest))?);
                Ok(())
            }
        })
    }

    /// Adds the packet with its codes by digest to `out`.
    pub fn contract(&self, mut name: impl FnMut(&[u8]) -> Digest, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        self.rewrite(true, out, |code, writer| {
            let digest = match code {
                Code::Whole(bytes) => name(bytes),
                Code::Digest(digest) => digest,
            };
            writer.out.extend_from_slice(&digest.0);
            Ok(())
        })
    }

    fn rewrite(
        &self,
        by_digest: bool,
        out: &mut Vec<u8>,
        mut put: impl FnMut(Code<'a>, &mut Writer) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let start = out.len();
        out.extend_from_slice(self.bytes.get(..self.codes.start).unwrap_or(&[]));
        if let Some(flags) = out.get_mut(start + FLAGS) {
            *flags = if by_digest { *flags | BY_DIGEST } else { *flags & !BY_DIGEST };
        }
        let mut writer = Writer::after(std::mem::take(out));
        let put = self.codes().try_for_each(|code| put(code, &mut writer));
        *out = writer.out;
        out.extend_from_slice(self.bytes.get(self.codes.end..).unwrap_or(&[]));
        let fits = out.len() - start <= PACKET_MAX;
        let done = put.and(if fits { Ok(()) } else { Err(DecodeError::TooLong) });
        if done.is_err() {
            out.truncate(start);
        }
        done
    }
}

fn code<'a>(reader: &mut Reader<'a>, by_digest: bool) -> Result<Code<'a>, DecodeError> {
    if by_digest {
        return Ok(Code::Digest(Digest(reader.array()?)));
    }
    let bytes = reader.bytes()?;
    if bytes.len() > CODE_MAX {
        return Err(DecodeError::Code(CodeError::Limit));
    }
    Ok(Code::Whole(bytes))
}
