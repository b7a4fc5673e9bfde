//! What work for an evaluation costs in steps.
//!
//! Work of the node that is in proportion to something that a program chooses is paid in steps, before it is done and also if nothing
//! comes of it: a step for each byte of code that is compiled or worked through to find what travels with a chunk, for [`WRITTEN`] bytes
//! that are copied, written or hashed, for [`READ`] that values are made of, for [`LOOKED_AT`] entries of a table. So the steps that an
//! evaluation has bound what it can have the node do.

use super::State;
use super::evaluate::{At, raise};
use super::{ANYONE, PlanOs};
use plan::eval::{self, spend};
use plan::name::Name;
use plan::packet::{Header, encode_with, slices_for};
use plan::program::Slice;
use plan::value::Chunk;

/// Steps that compiling a byte of a code is charged as, when its packet comes: about the nanoseconds that it takes.
const COMPILE_STEPS: u64 = 16;

/// Bytes that are copied, written or hashed for one step.
const WRITTEN: usize = 64;

/// Bytes that values are made of for one step.
const READ: usize = 16;

/// Entries of a table that are looked at for one step.
const LOOKED_AT: usize = 16;

/// Steps of copying, writing or hashing so many bytes.
pub(super) fn writing(bytes: usize) -> u32 {
    u32::try_from(bytes / WRITTEN).unwrap_or(u32::MAX)
}

/// Entries that the library may look at for what gives way to another code.
const GIVING_WAY: usize = 512;

/// Steps of making values of so many bytes.
pub(super) fn reading(bytes: usize) -> u32 {
    u32::try_from(bytes / READ).unwrap_or(u32::MAX)
}

/// Steps of looking at so many entries.
pub(super) fn looking(entries: usize) -> u32 {
    u32::try_from(entries.div_ceil(LOOKED_AT)).unwrap_or(u32::MAX)
}

impl State {
    /// So many bytes of codes were compiled that nobody has paid for yet: they are anyone's.
    pub(super) fn charge_compiling(&mut self, env: &mut dyn PlanOs, bytes: usize) {
        if bytes > 0 {
            self.account.compiled += bytes as u64;
            env.charge(ANYONE, bytes as u64 * COMPILE_STEPS, 0);
        }
    }
}

impl At<'_> {
    /// The codes that travel with a chunk. Those that have to be made first are paid for.
    pub(super) fn codes_of<'c>(&mut self, chunk: &'c Chunk, steps: &mut u32) -> eval::Result<Vec<&'c Slice>> {
        let codes = slices_for(chunk, &mut |bytes| self.account_for_slice(bytes, steps))?;
        codes.ok_or(raise(const { Name::known("TooBig") }))
    }

    /// Spends the steps of putting codes into a packet, and of keeping those for the next node that are not here.
    pub(super) fn spend_for_codes(&mut self, leaves: bool, codes: &[&Slice], steps: &mut u32) -> eval::Result<()> {
        for slice in codes {
            let kept = leaves && !self.library.has(&slice.digest);
            let times = if kept { 2 } else { 1 };
            spend(steps, writing(times * slice.bytes.len()) + if kept { looking(GIVING_WAY) } else { 0 })?;
        }
        Ok(())
    }

    pub(super) fn account_for_slice(&mut self, bytes: u32, steps: &mut u32) -> eval::Result<()> {
        spend(steps, bytes)?;
        self.state.account.sliced += u64::from(bytes);
        Ok(())
    }

    /// The bytes of a packet, whose codes are whole.
    pub(super) fn bytes(&mut self, header: &Header, chunk: &Chunk, steps: &mut u32) -> eval::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write(header, chunk, steps, &mut out)?;
        Ok(out)
    }

    /// Adds the bytes of a packet, whose codes are whole.
    pub(super) fn write(
        &mut self,
        header: &Header,
        chunk: &Chunk,
        steps: &mut u32,
        out: &mut Vec<u8>,
    ) -> eval::Result<()> {
        let codes = self.codes_of(chunk, steps)?;
        let bytes: usize = codes.iter().map(|slice| slice.bytes.len()).sum();
        spend(steps, writing(bytes + 16 * chunk.extent().weight as usize))?;
        let fits = encode_with(header, chunk, &codes, out);
        if fits { Ok(()) } else { Err(raise(const { Name::known("TooBig") })) }
    }
}
