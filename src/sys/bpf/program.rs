//! BPF programs: loading, test runs, and links to their places in the kernel.

use super::again::again;
use super::call::{Types, call, command, descriptor, info, short, with_log, word};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What verified programs are licensed under.
const LICENSE: &core::ffi::CStr = c"Dual MIT/GPL";

/// `BPF_F_XDP_HAS_FRAGS`: the program knows that a frame may lie in several buffers, of which it sees the first.
const SEVERAL_BUFFERS: u32 = 1 << 5;

/// `BPF_F_SLEEPABLE`: the program runs where one may wait. The kernel wants it of [`Hook::Syscall`].
const MAY_SLEEP: u32 = 1 << 4;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

/// Where a program can stand: program type and attach type of linux/bpf.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// `BPF_PROG_TYPE_SCHED_CLS` at `BPF_TCX_INGRESS`.
    TcIngress,
    /// `BPF_PROG_TYPE_XDP` at `BPF_XDP`.
    Xdp,
    /// `BPF_PROG_TYPE_XDP` at `BPF_XDP_DEVMAP`: behind an entry of a map of interfaces.
    XdpEgress,
    /// What a socket sees.
    SocketFilter,
    /// `BPF_PROG_TYPE_RAW_TRACEPOINT`: what the kernel says of itself.
    RawTracepoint,
    /// `BPF_PROG_TYPE_SYSCALL`: nowhere; it runs when somebody who holds it has it run.
    Syscall,
}

impl Hook {
    fn numbers(self) -> (u32, u32) {
        match self {
            Hook::TcIngress => (3, 46),
            Hook::Xdp => (6, 37),
            Hook::XdpEgress => (6, 33),
            Hook::SocketFilter => (1, 0),
            Hook::RawTracepoint => (17, 0),
            Hook::Syscall => (31, 0),
        }
    }

    fn flags(self) -> u32 {
        match self {
            Hook::Xdp | Hook::XdpEgress => SEVERAL_BUFFERS,
            Hook::Syscall => MAY_SLEEP,
            _ => 0,
        }
    }
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    types: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    line_size: u32,
    lines: u64,
    line_count: u32,
    attach: [u32; 2],
    relocations: u32,
    maps: u64,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    returned: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_in_size: u32,
    context_out_size: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    rest: [u64; 4],
}

#[repr(C)]
#[derive(Default)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old: u32,
}

#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkDetach {
    link: u32,
}

#[repr(C)]
#[derive(Default)]
struct TracepointOpen {
    name: u64,
    program: u32,
    padding: u32,
    cookie: u64,
}

/// What the verifier is told of a program beside its instructions.
pub struct Functions<'a> {
    /// Where the types are.
    pub types: &'a Types,
    /// First instruction and type of every function, in the order of the instructions.
    pub list: &'a [[u32; 2]],
}

/// A program the kernel has verified.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// What the kernel says of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Its number.
    pub id: u32,
    /// A digest of its instructions, whatever maps they refer to.
    pub tag: [u8; 8],
    /// Instructions that the verifier has gone through.
    pub verified: u32,
}

/// An attached program; it is detached when this and all pins of it are gone.
#[derive(Debug)]
pub struct Link(OwnedFd);

/// In which way an XDP program stands at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the stack, on copies.
    Generic,
}

impl XdpMode {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            XdpMode::Native => "driver",
            XdpMode::Generic => "stack",
        }
    }
}

impl Program {
    /// Loads a program for a hook, whose instructions refer to `maps` by index. An error carries the verifier's log.
    pub fn load(
        hook: Hook,
        name: &str,
        code: &[u8],
        maps: &[BorrowedFd<'_>],
        functions: Option<Functions<'_>>,
    ) -> io::Result<Program> {
        let (kind, attach_type) = hook.numbers();
        let maps: Vec<i32> = maps.iter().map(AsRawFd::as_raw_fd).collect();
        let (types, list) = functions.map_or((0, &[][..]), |told| (told.types.0.as_raw_fd(), told.list));
        let mut attr = ProgLoad {
            kind,
            instructions: (code.len() / 8) as u32,
            code: code.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            flags: hook.flags(),
            name: short(name),
            attach_type,
            types: types as u32,
            function_size: if list.is_empty() { 0 } else { 8 },
            functions: if list.is_empty() { 0 } else { list.as_ptr() as u64 },
            function_count: list.len() as u32,
            maps: maps.as_ptr() as u64,
            ..ProgLoad::default()
        };
        // SAFETY: the attribute's addresses are of `code`, `maps`, a C string and `list`, which outlive the call and have
        // the lengths given beside them; the kernel reads of `maps` what the instructions refer to, and checks that
        // those are maps.
        let loaded = again(|| unsafe { call(command::PROG_LOAD, &mut attr) }).or_else(|_| {
            // Once more for the reason.
            with_log(|log| {
                attr.log = log.as_mut_ptr() as u64;
                attr.log_size = log.len() as u32;
                attr.log_level = 1;
                // SAFETY: as before, and `log` outlives the call too.
                again(|| unsafe { call(command::PROG_LOAD, &mut attr) })
            })
        })?;
        Ok(Program(descriptor(loaded)))
    }

    /// Takes one that is there already.
    pub fn adopt(fd: OwnedFd) -> Program {
        Program(fd)
    }

    /// Any program of this host, by its number (CAP_SYS_ADMIN).
    pub fn by_id(id: u32) -> io::Result<Program> {
        let mut attr = ById { id, ..ById::default() };
        // SAFETY: the attribute holds no addresses.
        unsafe { call(command::PROG_BY_ID, &mut attr) }.map(|fd| Program(descriptor(fd)))
    }

    /// What it is called in the kernel.
    pub fn name(&self) -> io::Result<String> {
        let info: [u8; 80] = info(&self.0)?;
        let name = info[64..].split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// What the kernel says of it.
    pub fn info(&self) -> io::Result<ProgramInfo> {
        let info: [u8; 232] = info(&self.0)?;
        let mut tag = [0; 8];
        tag.copy_from_slice(&info[8..16]);
        Ok(ProgramInfo { id: word(&info, 4), tag, verified: word(&info, 216) })
    }

    /// Attaches a tc program to what comes in by an interface, behind programs already there.
    pub fn attach_ingress(&self, interface: u32) -> io::Result<Link> {
        self.attach(interface, Hook::TcIngress.numbers().1, 0)
    }

    /// Attaches an XDP program to an interface; an error if another one is there.
    pub fn attach_xdp(&self, interface: u32, mode: XdpMode) -> io::Result<Link> {
        let flags = match mode {
            XdpMode::Generic => 1 << 1,
            XdpMode::Native => 1 << 2,
        };
        self.attach(interface, Hook::Xdp.numbers().1, flags)
    }

    /// Attaches a program to a tracepoint of the kernel (CAP_PERFMON).
    pub fn attach_tracepoint(&self, name: &core::ffi::CStr) -> io::Result<Link> {
        let program = self.0.as_raw_fd() as u32;
        let mut attr = TracepointOpen { name: name.as_ptr() as u64, program, ..TracepointOpen::default() };
        // SAFETY: the address is of a C string, which outlives the call.
        let fd = unsafe { call(command::TRACEPOINT_OPEN, &mut attr)? };
        Ok(Link(descriptor(fd)))
    }

    fn attach(&self, interface: u32, attach_type: u32, flags: u32) -> io::Result<Link> {
        let program = self.0.as_raw_fd() as u32;
        let mut attr = LinkCreate { program, target: interface, attach_type, flags, ..LinkCreate::default() };
        // SAFETY: the attribute holds no addresses.
        let fd = unsafe { call(command::LINK_CREATE, &mut attr)? };
        Ok(Link(descriptor(fd)))
    }

    /// Runs an XDP program on bytes, at least 14 and for no interface, which it may change; gives what it returned.
    pub fn run_on(&self, bytes: &mut [u8]) -> io::Result<u32> {
        let (length, at) = (bytes.len() as u32, bytes.as_mut_ptr() as u64);
        let mut attr = TestRun {
            program: self.0.as_raw_fd() as u32,
            size_in: length,
            size_out: length,
            data_in: at,
            data_out: at,
            repeat: 1,
            ..TestRun::default()
        };
        // SAFETY: both addresses are of `bytes`, which the kernel reads before it writes, and which outlive the call and have the
        // length given.
        unsafe { call(command::TEST_RUN, &mut attr)? };
        Ok(attr.returned)
    }

    /// Runs a [`Hook::Syscall`] program with a context, which it may change; gives what it returned. Whoever holds the program may.
    pub fn run_with(&self, context: &mut [u8]) -> io::Result<u32> {
        let mut attr = TestRun {
            program: self.0.as_raw_fd() as u32,
            context_in_size: context.len() as u32,
            context_in: context.as_mut_ptr() as u64,
            ..TestRun::default()
        };
        // SAFETY: the address is of `context`, which the kernel reads and then writes, and which outlives the call and has the
        // length given.
        unsafe { call(command::TEST_RUN, &mut attr)? };
        Ok(attr.returned)
    }

    /// Runs an XDP program on a packet that came in by `interface`, and does what it says: the packet leaves, or goes on
    /// into the stack.
    pub fn live_run(&self, packet: &[u8], interface: u32) -> io::Result<()> {
        let context = [0, packet.len() as u32, 0, interface, 0, 0];
        let mut attr = TestRun {
            program: self.0.as_raw_fd() as u32,
            size_in: packet.len() as u32,
            data_in: packet.as_ptr() as u64,
            repeat: 1,
            context_in_size: size_of_val(&context) as u32,
            context_in: context.as_ptr() as u64,
            flags: LIVE_FRAMES,
            batch: 1,
            ..TestRun::default()
        };
        // SAFETY: the addresses are of `packet` and `context`, which outlive the call and have the lengths given.
        unsafe { call(command::TEST_RUN, &mut attr) }.map(drop)
    }

    /// Runs an XDP program on a packet that came in by `interface`; gives what it returned and left
    /// of the packet.
    pub fn test_run(&self, packet: &[u8], interface: u32) -> io::Result<(u32, Vec<u8>)> {
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
        let context = [0, packet.len() as u32, 0, interface, 0, 0];
        let mut out = vec![0u8; packet.len() + 512];
        let mut attr = TestRun {
            program: self.0.as_raw_fd() as u32,
            size_in: packet.len() as u32,
            size_out: out.len() as u32,
            data_in: packet.as_ptr() as u64,
            data_out: out.as_mut_ptr() as u64,
            repeat: 1,
            context_in_size: size_of_val(&context) as u32,
            context_in: context.as_ptr() as u64,
            ..TestRun::default()
        };
        // SAFETY: the addresses are of `packet`, `out` and `context`, which outlive the call and have the
        // lengths given.
        unsafe { call(command::TEST_RUN, &mut attr)? };
        out.truncate(attr.size_out as usize);
        Ok((attr.returned, out))
    }
}

impl Link {
    /// Takes one that is there already.
    pub fn adopt(fd: OwnedFd) -> Link {
        Link(fd)
    }

    /// The same link once more.
    pub fn try_clone(&self) -> io::Result<Link> {
        self.0.try_clone().map(Link)
    }

    /// The interface an XDP program stands at, 0 if it is gone, and the program's number.
    pub fn target(&self) -> io::Result<(u32, u32)> {
        let info: [u8; 32] = info(&self.0)?;
        Ok((word(&info, 16), word(&info, 8)))
    }

    /// Lets its place go, whoever has the link open.
    pub fn detach(&self) -> io::Result<()> {
        let mut attr = LinkDetach { link: self.0.as_raw_fd() as u32 };
        // SAFETY: the attribute holds no addresses.
        unsafe { call(command::LINK_DETACH, &mut attr) }.map(drop)
    }

    /// Puts another program in the place of the one that stands there; no packet sees neither.
    pub fn update(&self, program: &Program) -> io::Result<()> {
        let (link, program) = (self.0.as_raw_fd() as u32, program.0.as_raw_fd() as u32);
        let mut attr = LinkUpdate { link, program, ..LinkUpdate::default() };
        // SAFETY: the attribute holds no addresses.
        unsafe { call(command::LINK_UPDATE, &mut attr) }.map(drop)
    }
}

impl From<Program> for OwnedFd {
    fn from(program: Program) -> OwnedFd {
        program.0
    }
}

impl From<Link> for OwnedFd {
    fn from(link: Link) -> OwnedFd {
        link.0
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
