//! What the table of policies (`policies`) knows of each. Example: `wfq` keeps flows by shares and heeds `weight`.

/// What is known of a policy.
pub(super) struct Class {
    pub name: &'static str,
    /// Who runs next, and what of a role says so: the row of docs/nodeos.md.
    pub runs: &'static str,
    pub grants: &'static [&'static str],
    pub uses: Uses,
}

/// What a policy keeps flows by: so much of [`Queues`] is made for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uses {
    /// Whether packets wait; else each runs when it comes, and there are no queues.
    pub waits: bool,
    /// Levels, from the first on.
    pub levels: usize,
    /// Virtual time: flows have shares.
    pub shares: bool,
    /// A virtual time of their own for flows that nobody robs: those with a priority.
    pub immune: bool,
    /// Deadlines.
    pub deadlines: bool,
}

/// Packets wait, and nothing says which is next.
pub(super) const WAITS: Uses = Uses { waits: true, levels: 0, shares: false, immune: false, deadlines: false };
