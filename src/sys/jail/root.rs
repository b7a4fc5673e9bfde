//! The root of a jail: an empty file system in memory, with the allowed files of the host bound into it, read-only.
//!
//! The host's root is left by pivot_root(2) and let go, so there is no way back to it. Of the kernel's file systems
//! there is at most a `/proc`, with the jail's own processes and nothing else.

use super::Paths;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, unmount,
};
use rustix::process::{chdir, pivot_root};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Where the new root is mounted before it is one; what is there otherwise is not hidden, since it is looked at from the old root.
const BASES: [&str; 4] = ["/tmp", "/run", "/mnt", "/proc"];

/// The old root in the new one, until it is let go.
const OLD: &str = "/.old";

/// Makes the root and enters it.
pub fn enter(paths: &Paths) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let base = BASES.into_iter().find(|base| Path::new(base).is_dir()).ok_or(io::ErrorKind::NotFound)?;
    // Directories and empty files only: what is bound there has its own.
    let options = c"mode=0755,size=1m,nr_inodes=4096";
    mount("tmpfs", base, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)?;
    let old = format!("{base}{OLD}");
    fs::create_dir(&old)?;
    pivot_root(base, old.as_str())?;
    chdir("/")?;
    let mut bound: Vec<PathBuf> = Vec::new();
    for path in &paths.read {
        show(path, &mut bound, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV)?;
    }
    for path in &paths.devices {
        show(path, &mut bound, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC)?;
    }
    if paths.processes {
        show_processes()?;
    }
    unmount(OLD, UnmountFlags::DETACH)?;
    fs::remove_dir(OLD)?;
    restrict(Path::new("/"), false, libc::MOUNT_ATTR_RDONLY)
}

/// Binds a path of the host, and makes links on the way to it as they are there. What is not there is left out.
fn show(path: &Path, bound: &mut Vec<PathBuf>, attributes: u64) -> io::Result<()> {
    let Some(real) = resolve(path)? else { return Ok(()) };
    if bound.iter().any(|above| real.starts_with(above)) {
        return Ok(());
    }
    let (from, to) = (below_old(&real), real.as_path());
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::metadata(&from)?.is_dir() {
        true => fs::create_dir_all(to)?,
        false => {
            rustix::fs::open(to, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o444))?;
        }
    }
    mount_bind_recursive(&from, to)?;
    restrict(to, true, attributes)?;
    bound.push(real);
    Ok(())
}

/// Where the jail's own processes are.
pub const PROCESSES: &str = "/proc";

/// Mounts a `/proc` of the jail's own processes. Where that is not allowed (containers that hide parts of theirs) there is none.
fn show_processes() -> io::Result<()> {
    fs::create_dir_all(PROCESSES)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    match mount("proc", PROCESSES, "proc", flags, c"subset=pid,hidepid=invisible") {
        Err(rustix::io::Errno::PERM) => Ok(fs::remove_dir(PROCESSES)?),
        other => Ok(other?),
    }
}

fn below_old(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}

/// Links followed on the way to one path.
const LINKS_MAX: usize = 40;

/// Where a path of the host leads, nothing if nowhere. Links are followed by hand, since they lead through the old root, and made here too.
fn resolve(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut left: Vec<_> = parts(path);
    let (mut real, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        match fs::symlink_metadata(below_old(&next)) {
            Ok(found) if found.is_symlink() => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(io::Error::other(format!("{}: too many links", path.display())));
                }
                let target = fs::read_link(below_old(&next))?;
                fs::create_dir_all(&real)?;
                match symlink(&target, &next) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !is_bound(&error) => {
                        return Err(error);
                    }
                    _ => {}
                }
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                left.extend(parts(&target));
            }
            Ok(_) => real = next,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok((real != Path::new("/")).then_some(real))
}

/// Whether a link could not be made because it is within what is bound already, so that it is there.
fn is_bound(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ReadOnlyFilesystem
}

/// The parts of a path, the last first, without those that mean nothing.
fn parts(path: &Path) -> Vec<std::ffi::OsString> {
    let plain = |part: std::path::Component<'_>| match part {
        std::path::Component::Normal(name) => Some(name.to_owned()),
        std::path::Component::ParentDir => Some("..".into()),
        _ => None,
    };
    let mut parts: Vec<_> = path.components().filter_map(plain).collect();
    parts.reverse();
    parts
}

/// Sets attributes of a mount, and of all below it.
fn restrict(path: &Path, below: bool, attributes: u64) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let wanted = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = if below { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: mount_setattr(2) reads the path, which ends with NUL, and a structure of the size given; both live for the call.
    let done = unsafe {
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, path.as_ptr(), flags, &wanted, size_of_val(&wanted))
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
