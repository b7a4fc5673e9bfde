//! Programs from bytes: the same bytes give the same program, fewer give a smaller one.

pub mod source;
pub mod untyped;

/// Bytes as a row of choices; when they run out, the first choice is made.
pub struct Choices<'a>(std::slice::Iter<'a, u8>);

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices(bytes.iter())
    }

    /// A number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        let byte = self.0.next().copied().unwrap_or(0);
        usize::from(byte) % count.max(1)
    }

    pub fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    /// One of these.
    pub fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    pub fn is_done(&self) -> bool {
        self.0.as_slice().is_empty()
    }
}
