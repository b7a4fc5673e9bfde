//! The end of a child, as a value: exit status, signal, or limit.

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With its work done.
    Done,
    /// It had its time of the CPU.
    Cpu,
    /// It wanted more memory.
    Memory,
    /// It wrote more than it may.
    File,
    /// It took too long.
    Wall,
    /// Something else went wrong: the signal, or the negative exit status.
    Broken(i32),
}

/// A child that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub end: End,
    /// Microseconds of the CPU that it used.
    pub cpu_us: u64,
    /// Kibibytes of memory that it had at most, with what it shares with this process.
    pub peak_kib: u64,
}
