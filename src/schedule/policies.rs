//! The table of policies: their names, and what a flow has under each. Example: `scheduler = "wfq"` in a configuration.
//!
//! A new scheduler is one file in `policies` and one row of the table below. The file says where a flow waits (`place`)
//! and which is next (`next`), over what [`super::queues`] keeps; the row makes it known to configurations, messages,
//! benchmarks and tests. `policies/tests.rs` is one more. Calls are dispatched by the table's `match`, none through a pointer.

use super::class::Class;
use super::queues::{Flow, Place, Queues};

/// Makes all of the table that others see of it.
macro_rules! policies {
    ($($(#[$when:meta])? $policy:ident = $file:ident,)+) => {
        $($(#[$when])? mod $file;)+

        /// How the CPU is divided among domains.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
        #[serde(try_from = "String")]
        pub enum Policy {
            $(
                $(#[$when])?
                #[doc = concat!("The policy of `", stringify!($file), "`.")]
                $policy,
            )+
        }

        impl Policy {
            /// All of them.
            pub const ALL: [Policy; [$($(#[$when])? stringify!($policy)),+].len()] = [$($(#[$when])? Policy::$policy),+];

            #[inline(always)]
            pub(super) const fn class(self) -> &'static Class {
                match self {
                    $($(#[$when])? Policy::$policy => &$file::CLASS,)+
                }
            }

            /// Where a flow waits that has work.
            #[inline(always)]
            pub(super) fn place(self, flow: &Flow) -> Place {
                match self {
                    $($(#[$when])? Policy::$policy => $file::place(flow),)+
                }
            }

            /// The flow whose turn it is.
            #[inline(always)]
            pub(super) fn next(self, queues: &mut Queues, now: u64) -> Option<u32> {
                match self {
                    $($(#[$when])? Policy::$policy => $file::next(queues, now),)+
                }
            }
        }
    };
}

policies! {
    Fifo = fifo,
    Priority = priority,
    Wfq = wfq,
    Edf = edf,
    Bert = bert,
    #[cfg(test)] Meek = tests,
}

impl Policy {
    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        self.class().name
    }

    /// Whether packets wait for their domain's turn; else each runs when it comes.
    pub fn waits(self) -> bool {
        self.class().uses.waits
    }

    /// Its row in the table of docs/nodeos.md.
    pub fn row(self) -> String {
        let Class { name, runs, grants, .. } = self.class();
        let grants: Vec<_> = grants.iter().map(|grant| format!("`{grant}`")).collect();
        format!("| `{name}` | {runs} | {} |\n", if grants.is_empty() { "–".into() } else { grants.join(", ") })
    }
}

#[expect(clippy::derivable_impls, reason = "a row of the table says no more than a name and a file")]
impl Default for Policy {
    fn default() -> Policy {
        Policy::Wfq
    }
}

impl core::str::FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let known = Policy::ALL.into_iter().find(|policy| policy.name() == text);
        known.ok_or_else(|| format!("'{text}' is no scheduler: {}", Policy::ALL.map(Policy::name).join(", ")))
    }
}

impl TryFrom<String> for Policy {
    type Error = String;

    fn try_from(text: String) -> Result<Policy, String> {
        text.parse()
    }
}

/// By its name.
impl serde::Serialize for Policy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The largest weight.
pub const WEIGHT_MAX: u32 = 10_000;

/// The longest deadline: ten seconds. Deadlines further away than one second are not told apart.
pub const DEADLINE_NS_MAX: u64 = 10_000_000_000;

/// What a flow gets of the CPU; each policy looks at its own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Share {
    /// Its part of the CPU relative to the others', 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// Higher runs first. For `bert`, what is not 0 is important: with a deadline it may steal, without nobody steals from it.
    pub priority: u8,
    /// One packet in each of these runs at the latest so long after it came; 0: no deadline. At most [`DEADLINE_NS_MAX`].
    pub deadline_ns: u64,
}

impl Default for Share {
    fn default() -> Share {
        Share { weight: 100, priority: 0, deadline_ns: 0 }
    }
}

impl Share {
    /// Says which number is outside what a scheduler takes; it is clamped otherwise.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=WEIGHT_MAX).contains(&self.weight) {
            return Err(format!("weight = {}: from 1 to {WEIGHT_MAX}", self.weight));
        }
        if self.deadline_ns > DEADLINE_NS_MAX {
            return Err(format!("deadline_ns = {}: at most {DEADLINE_NS_MAX}", self.deadline_ns));
        }
        Ok(())
    }
}
