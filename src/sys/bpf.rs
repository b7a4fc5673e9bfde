//! The bpf(2) system call, as far as the guard needs it: load instructions, attach them to tcx.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// `BPF_PROG_LOAD` of `enum bpf_cmd`.
const PROG_LOAD: libc::c_long = 5;

/// `BPF_LINK_CREATE` of `enum bpf_cmd`.
const LINK_CREATE: libc::c_long = 28;

/// `BPF_PROG_TYPE_SCHED_CLS` of `enum bpf_prog_type`.
const SCHED_CLS: u32 = 3;

/// `BPF_TCX_INGRESS` of `enum bpf_attach_type`.
const TCX_INGRESS: u32 = 46;

/// Octets of verifier log kept for an error.
const LOG: usize = 64 << 10;

/// `union bpf_attr` for `BPF_PROG_LOAD`, up to the log.
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
}

/// `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    rest: [u64; 4],
}

/// A program the kernel has verified.
pub struct Program(OwnedFd);

/// An attached program; it is detached when this goes.
pub struct Link {
    _fd: OwnedFd,
}

impl Program {
    /// Loads a tc program. An error carries the verifier's log.
    pub fn load_tc(name: &str, code: &[u8]) -> io::Result<Program> {
        let mut log = vec![0u8; LOG];
        let mut attr = ProgLoad {
            kind: SCHED_CLS,
            instructions: (code.len() / 8) as u32,
            code: code.as_ptr() as u64,
            license: c"Dual MIT/GPL".as_ptr() as u64,
            log_level: 1,
            log_size: LOG as u32,
            log: log.as_mut_ptr() as u64,
            attach_type: TCX_INGRESS,
            ..ProgLoad::default()
        };
        for (place, octet) in attr.name.iter_mut().take(15).zip(name.bytes()) {
            *place = octet;
        }
        // SAFETY: the attribute's pointers are to `code`, a C string and `log`, which all outlive the
        // call and have the lengths given beside them.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, PROG_LOAD, &raw const attr, size_of::<ProgLoad>()) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            let text = String::from_utf8_lossy(&log);
            let text = text.trim_end_matches('\0').trim();
            return Err(io::Error::new(
                error.kind(),
                format!("{error}{}{text}", if text.is_empty() { "" } else { ": " }),
            ));
        }
        // SAFETY: the kernel has just made the descriptor for us.
        Ok(Program(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Attaches the program to what comes in by an interface, behind programs already there.
    pub fn attach_ingress(&self, interface: u32) -> io::Result<Link> {
        let attr = LinkCreate {
            program: self.0.as_fd().as_raw_fd() as u32,
            target: interface,
            attach_type: TCX_INGRESS,
            ..LinkCreate::default()
        };
        // SAFETY: the attribute holds numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, LINK_CREATE, &raw const attr, size_of::<LinkCreate>()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made the descriptor for us.
        Ok(Link { _fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }
}
