//! What the code of a domain wishes for, in both halves.

use crate::core::share::SharedAccount;
use crate::core::wish::{WishBoard, WishWords};
use std::sync::Arc;

/// Where the code of a domain wishes that graphs become others.
#[derive(Clone, Debug, Default)]
pub struct CodeWishes {
    /// In the user half; all workers have it in common.
    pub here: Option<Arc<WishBoard>>,
    /// In the kernel half, if it runs there.
    pub kernel: Option<Arc<dyn SharedAccount>>,
}

impl CodeWishes {
    fn each(&self) -> impl Iterator<Item = &dyn WishWords> {
        let here = self.here.as_deref().map(|here| here as &dyn WishWords);
        here.into_iter().chain(self.kernel.as_deref().and_then(SharedAccount::wishes))
    }

    /// Takes the edits that are wished for in either half, as bits.
    pub fn take(&self) -> u64 {
        self.each().fold(0, |all, words| all | words.take())
    }

    /// Takes how many were refused as the role does not have them, and how many beyond the changes that it has.
    pub fn take_counts(&self) -> [u64; 2] {
        self.each().map(WishWords::take_counts).fold([0, 0], |[a, b], [c, d]| [a + c, b + d])
    }

    /// Says in both which edits there are, and which of these may be wished for now.
    pub fn tell(&self, edits: u64, open: u64) {
        self.each().for_each(|words| words.tell(edits, open));
    }
}
