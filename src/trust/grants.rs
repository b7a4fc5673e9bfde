//! Grants of a role to a new domain besides [`super::limits`]: processor, memory, threads, links, time and disk.
//!
//! Resources come from the credential and are not taken from the domain above (PLAN on OSKit §3.3.1), so each domain
//! has all that its role grants. The defaults are for code of anyone: it runs and is paid for, but owns no channel,
//! event, file or domain; roles for execution environments grant these. Each number has its unit in its name, or counts
//! things.

/// The heaviest weight.
pub const WEIGHT_MAX: u32 = 10_000;

/// The most urgent priority.
pub const PRIORITY_MAX: u8 = 7;

/// The longest deadline of a packet, in microseconds.
pub const DEADLINE_US_MAX: u32 = 10_000_000;

/// The longest that a thread may work at a time: an hour, in milliseconds.
pub const THREAD_MS_MAX: u32 = 3_600_000;

/// Bytes that one domain can be granted, in memory.
pub const MEMORY_BYTES_MAX: u64 = 1 << 40;

/// Channels of one domain, at most.
pub const CHANNELS_MAX: u16 = 4096;

/// Events of one domain that wait at the same time, at most.
pub const EVENTS_MAX: u32 = 1 << 20;

/// Files and directories of one name space, at most.
pub const FILES_MAX: u32 = 1 << 20;

/// Bytes of one name space, at most.
pub const FILE_BYTES_MAX: u64 = 1 << 40;

/// Threads of one domain, at most.
pub const THREADS_MAX: u16 = 1024;

/// Domains one node holds at the same time.
pub const DOMAINS_MAX: usize = 131_072;

/// Processes of one environment, at most.
pub const PROCESSES_MAX: u32 = 1 << 16;

/// Parts of graphs of one neighbour, at most.
pub const GRAPH_PARTS_MAX: u16 = 64;

/// Hundredths of one processor that one environment can be held to: those of 1,024.
pub const CPU_PERCENT_MAX: u32 = 102_400;

/// What a domain is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grants {
    /// Its share of the processor beside those of others, under fair queueing.
    pub weight: u32,
    /// Its urgency under fixed priorities, 0 to 7; more goes first.
    pub priority: u8,
    /// By when one of its packets has to be done, in microseconds from when it came; 0: it can wait.
    pub deadline_us: u32,
    /// Bytes it may hold, in packet buffers and in what it charges itself.
    pub memory_bytes: u64,
    /// Packets, events and exceptions of it that may be worked on at the same time.
    pub threads: u16,
    /// Milliseconds that one of its threads, in a process, may work on a packet, an event or an exception; then it is ended.
    pub thread_ms: u32,
    /// Channels it may own, of all kinds.
    pub channels: u16,
    /// Bytes a second that it may send over all its channels.
    pub bandwidth: u64,
    /// Events that may wait at the same time.
    pub events: u32,
    /// Domains it may create below it.
    pub domains: u32,
    /// Files and directories that it may make in its name space.
    pub files: u32,
    /// Bytes of those files.
    pub file_bytes: u64,
    /// Programs of it that may be in the kernel.
    pub kernel_programs: u16,
    /// Parts of graphs that one neighbour may have in it.
    pub graph_parts: u16,
    /// Processes that it may have, where it is one, and threads beyond `threads`.
    pub processes: u32,
    /// Hundredths of one processor that its processes may use; 0: as much as there is.
    pub cpu_percent: u32,
    /// Whether its processes are in the host's network.
    pub host_network: bool,
}

impl Default for Grants {
    /// What `anyone` gets.
    fn default() -> Grants {
        Grants {
            weight: 100,
            priority: 0,
            deadline_us: 0,
            memory_bytes: 1 << 20,
            threads: 1,
            thread_ms: 10_000,
            channels: 0,
            bandwidth: 0,
            events: 0,
            domains: 0,
            files: 0,
            file_bytes: 0,
            kernel_programs: 1,
            graph_parts: 0,
            processes: 16,
            cpu_percent: 100,
            host_network: false,
        }
    }
}

impl Grants {
    /// What the node's own domains have: everything it has itself.
    pub fn of_node() -> Grants {
        Grants {
            priority: PRIORITY_MAX,
            memory_bytes: MEMORY_BYTES_MAX,
            threads: THREADS_MAX,
            thread_ms: THREAD_MS_MAX,
            channels: CHANNELS_MAX,
            bandwidth: u64::MAX,
            events: EVENTS_MAX,
            domains: DOMAINS_MAX as u32,
            files: FILES_MAX,
            file_bytes: FILE_BYTES_MAX,
            kernel_programs: u16::MAX,
            graph_parts: GRAPH_PARTS_MAX,
            processes: PROCESSES_MAX,
            cpu_percent: 0,
            host_network: true,
            ..Grants::default()
        }
    }

    /// Every number that bounds something, by its name.
    pub fn numbers(&self) -> [(&'static str, u64); 14] {
        [
            ("weight", self.weight.into()),
            ("priority", self.priority.into()),
            ("memory_bytes", self.memory_bytes),
            ("threads", self.threads.into()),
            ("thread_ms", self.thread_ms.into()),
            ("channels", self.channels.into()),
            ("bandwidth", self.bandwidth),
            ("events", self.events.into()),
            ("domains", self.domains.into()),
            ("files", self.files.into()),
            ("file_bytes", self.file_bytes),
            ("kernel_programs", self.kernel_programs.into()),
            ("graph_parts", self.graph_parts.into()),
            ("processes", self.processes.into()),
        ]
    }

    /// Says which number is more than a node has at all, or means nothing.
    pub fn check(&self) -> Result<(), String> {
        let most = Grants { weight: WEIGHT_MAX, ..Grants::of_node() };
        for ((name, given), (_, most)) in self.numbers().into_iter().zip(most.numbers()) {
            if given > most {
                return Err(format!("grants.{name}: {given} are more than a node holds, which is {most}"));
            }
        }
        if self.deadline_us > DEADLINE_US_MAX {
            return Err(format!("grants.deadline_us: {} are more than {DEADLINE_US_MAX}", self.deadline_us));
        }
        if self.cpu_percent > CPU_PERCENT_MAX {
            return Err(format!("grants.cpu_percent: {} are more than {CPU_PERCENT_MAX}", self.cpu_percent));
        }
        for (name, given) in [("weight", self.weight), ("threads", self.threads.into()), ("thread_ms", self.thread_ms)]
        {
            if given == 0 {
                return Err(format!("grants.{name}: 0 would let nothing run; the least is 1"));
            }
        }
        Ok(())
    }

    /// The first number in which these are more than others, with both; an earlier deadline is more than a later one.
    pub fn exceed(&self, others: &Grants) -> Option<(&'static str, u64, u64)> {
        // As numbers of a kind where more is more.
        let haste = |deadline_us: u32| if deadline_us == 0 { 0 } else { u64::from(u32::MAX - deadline_us) };
        if haste(self.deadline_us) > haste(others.deadline_us) {
            return Some(("deadline_us", self.deadline_us.into(), others.deadline_us.into()));
        }
        // 0 is all there is.
        let share = |percent: u32| if percent == 0 { u64::MAX } else { percent.into() };
        if share(self.cpu_percent) > share(others.cpu_percent) {
            return Some(("cpu_percent", self.cpu_percent.into(), others.cpu_percent.into()));
        }
        if self.host_network && !others.host_network {
            return Some(("host_network", 1, 0));
        }
        let mut pairs = self.numbers().into_iter().zip(others.numbers());
        pairs.find(|((_, own), (_, other))| own > other).map(|((name, own), (_, other))| (name, own, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_within_what_a_node_has() {
        let good = Grants::default();
        assert_eq!((good.check(), Grants::of_node().check()), (Ok(()), Ok(())));
        for (bad, part) in [
            (Grants { weight: 0, ..good }, "grants.weight: 0 would let nothing run"),
            (Grants { weight: WEIGHT_MAX + 1, ..good }, "grants.weight: 10001 are more than"),
            (Grants { priority: 8, ..good }, "grants.priority: 8 are more than a node holds, which is 7"),
            (Grants { deadline_us: u32::MAX, ..good }, "grants.deadline_us"),
            (Grants { threads: 0, ..good }, "grants.threads: 0"),
            (Grants { threads: 1025, ..good }, "grants.threads: 1025"),
            (Grants { thread_ms: 0, ..good }, "grants.thread_ms: 0"),
            (Grants { memory_bytes: u64::MAX, ..good }, "grants.memory_bytes"),
            (Grants { channels: u16::MAX, ..good }, "grants.channels"),
            (Grants { events: u32::MAX, ..good }, "grants.events"),
            (Grants { domains: u32::MAX, ..good }, "grants.domains"),
            (Grants { files: u32::MAX, ..good }, "grants.files"),
            (Grants { file_bytes: u64::MAX, ..good }, "grants.file_bytes"),
            (Grants { graph_parts: 65, ..good }, "grants.graph_parts: 65 are more than a node holds, which is 64"),
        ] {
            let why = bad.check().unwrap_err();
            assert!(why.contains(part), "{why:?} and not {part:?}");
        }
    }

    #[test]
    fn what_is_more_is_named() {
        let own = Grants { deadline_us: 500, channels: 2, ..Grants::default() };
        assert_eq!(own.exceed(&own), None);
        assert_eq!(Grants { channels: 3, ..own }.exceed(&own), Some(("channels", 3, 2)));
        assert_eq!(Grants { deadline_us: 400, ..own }.exceed(&own), Some(("deadline_us", 400, 500)));
        assert_eq!(Grants { deadline_us: 0, ..own }.exceed(&own), None, "one that can wait asks for less");
        assert_eq!(own.exceed(&Grants::default()), Some(("deadline_us", 500, 0)));
        assert_eq!(Grants { kernel_programs: 2, ..own }.exceed(&own), Some(("kernel_programs", 2, 1)));
        assert_eq!(Grants::default().exceed(&Grants::of_node()), None);
    }

    #[test]
    fn what_a_table_does_not_say_is_as_for_anyone() {
        let grants: Grants = toml::from_str("channels = 4\nbandwidth = 1_000_000").unwrap();
        assert_eq!(grants, Grants { channels: 4, bandwidth: 1_000_000, ..Grants::default() });
        assert!(toml::from_str::<Grants>("chanels = 4").unwrap_err().to_string().contains("unknown field `chanels`"));
        assert!(toml::from_str::<Grants>("threads = -1").is_err());
    }
}
