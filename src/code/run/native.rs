//! The native run-time: shared objects of trusted roles.
//!
//! The loader's thread loads the object once, from a sealed copy in memory. The worker calls it with a copy of context
//! and window, as with wasm. It resolves nothing against the node: its calls go through a table handed over when it is
//! loaded (`native_calls`). Nothing bounds it: no fuel, no memory limit, and a fault in it is the node's. So the role
//! alone decides, and whoever grants it answers for the code. `docs/bundle.md` §7.

#![allow(unsafe_code)]

use super::lent::Lent;
use super::native_calls;
use super::scope::Scope;
use super::{Outcome, Verdict};
use crate::abi::{self, ADDRESSES, CONTEXT, WINDOW_MAX};
use crate::code::check;
use crate::core::reason::Reason;
use crate::sys::shared_object::SharedObject;
use crate::trust::Role;
use crate::wire::{Digest, capsule};
use core::ffi::{CStr, c_void};
use core::ptr::NonNull;
use std::sync::Arc;

/// Bytes of the largest window.
const WINDOW: usize = ADDRESSES + WINDOW_MAX as usize;

/// Bytes of the names of calls, at most.
const NAMES_MAX: usize = 1024;

// SAFETY of a call: context and window are at these addresses, and the object that it belongs to is loaded.
type Entry = unsafe extern "C" fn(*mut [u8; CONTEXT], *mut u8) -> i32;

// SAFETY of a call: there are as many addresses as the object has names.
type Init = unsafe extern "C" fn(*const *const c_void);

/// A loaded representation.
#[derive(Clone)]
pub struct NativeLibrary {
    name: Digest,
    window: usize,
    symbols: Arc<[&'static str]>,
    entry: Entry,
    /// The code of `entry`, as long as somebody has it.
    object: Arc<SharedObject>,
}

impl NativeLibrary {
    /// Checks and loads a representation whose window shows `window` bytes of payload. Its signer is trusted with the node.
    pub fn load(bytes: &[u8], window: u32) -> Result<NativeLibrary, String> {
        check::native(bytes, std::env::consts::ARCH).map_err(|refusal| refusal.to_string())?;
        let object = SharedObject::open(bytes).map_err(|error| format!("native: it cannot be loaded: {error}"))?;
        let find = |name: &CStr| {
            let missing =
                || format!("native: it does not export {}; build with: anode code build", name.to_string_lossy());
            object.symbol(name).ok_or_else(missing)
        };
        let (entry, init, names) = (find(c"capsule")?, find(c"an_init")?, find(c"an_symbols")?);
        let shows: NonNull<u32> = find(c"an_window_size")?.cast();
        // SAFETY: docs/bundle.md §7 says that the symbol is a 32-bit number; whoever signed the object is trusted to follow it.
        let shows = unsafe { shows.read_unaligned() };
        if shows != window {
            return Err(format!("native: its window shows {shows} bytes, the manifest says {window}"));
        }
        // SAFETY: by the same rule `an_symbols` is names that end with NUL each, and an empty one.
        let symbols = unsafe { names_at(names.cast()) }?;
        let calls = symbols.iter().filter_map(|name| native_calls::address(name)).collect::<Vec<_>>();
        // SAFETY: by the same rule `an_init` takes as many addresses as `an_symbols` has names, and copies them; `names_at` has made sure
        // that each has one.
        unsafe { core::mem::transmute::<*mut c_void, Init>(init.as_ptr())(calls.as_ptr()) };
        // SAFETY: by the same rule `capsule` is a function of this type.
        let entry = unsafe { core::mem::transmute::<*mut c_void, Entry>(entry.as_ptr()) };
        let object = Arc::new(object);
        Ok(NativeLibrary { name: Digest::of(bytes), window: window as usize, symbols: symbols.into(), entry, object })
    }

    /// The digest of the representation.
    pub fn name(&self) -> Digest {
        self.name
    }

    /// Payload bytes in its window.
    pub fn window(&self) -> usize {
        self.window
    }

    /// Whether a role includes native code and the calls of this one.
    pub fn suits(&self, role: &Role) -> Result<(), String> {
        if !role.representations.has(crate::code::bundle::Kind::Native) {
            return Err(format!("the role {} does not include native code", role.name));
        }
        role.check_symbols(self.symbols.iter().copied()).map_err(|error| format!("native: {error}"))
    }

    pub(super) fn instantiate(&self) -> Instance {
        let area = Box::new(Area { context: [0; CONTEXT], window: [0; WINDOW] });
        Instance { entry: self.entry, length: 32 + self.window, area, _object: self.object.clone() }
    }
}

/// The names at an address, each of which is a call.
///
/// # Safety
/// There are names that end with NUL each, and then an empty one.
unsafe fn names_at(mut at: NonNull<u8>) -> Result<Vec<&'static str>, String> {
    let mut found = Vec::new();
    let mut bytes = 0;
    loop {
        // SAFETY: the caller says that there is a string.
        let name = unsafe { CStr::from_ptr(at.as_ptr().cast()) };
        let length = name.count_bytes() + 1;
        bytes += length;
        if length == 1 || bytes > NAMES_MAX {
            return Ok(found);
        }
        let known = name.to_str().ok().and_then(abi::symbol);
        let known = known.ok_or_else(|| format!("native: it calls '{}', which no node has", name.to_string_lossy()))?;
        found.push(known.name);
        // SAFETY: the caller says that another name, if only the empty one, stands behind this one.
        at = unsafe { at.add(length) };
    }
}

/// What the code is given: context and window, at addresses that suit any of its types.
#[repr(C, align(16))]
struct Area {
    context: [u8; CONTEXT],
    window: [u8; WINDOW],
}

/// Code ready for packets.
pub(super) struct Instance {
    entry: Entry,
    /// Bytes of its window.
    length: usize,
    area: Box<Area>,
    _object: Arc<SharedObject>,
}

impl Instance {
    /// Runs the code on the packet of `scope`.
    pub(super) fn run(&mut self, scope: &mut Scope<'_>) -> Outcome {
        let Area { context, window } = &mut *self.area;
        let window = &mut window[..self.length];
        let packet = &*scope.packet;
        if packet.window().len() != window.len() {
            return Outcome { verdict: Err(Reason::Window), steps: 0 };
        }
        packet.write_context(context);
        window.copy_from_slice(packet.window());
        let lent = Lent::new(scope, window);
        // SAFETY: `entry` is what the trusted signer says it is, and its object is held by `self`. Context and window live in `self.area`;
        // until the call returns they are reached through these addresses only, by the code and by its calls.
        let code = unsafe { (self.entry)(context, lent.window()) };
        drop(lent);
        let verdict = Verdict::from_code(code);
        if matches!(verdict, Ok(Verdict::Forward | Verdict::Deliver(_))) {
            let end = capsule::LOCKED + self.length;
            scope.packet.frame.bytes_mut()[capsule::LOCKED..end].copy_from_slice(&self.area.window[..self.length]);
        }
        // Nobody counts the steps of the processor's own code.
        Outcome { verdict, steps: 0 }
    }
}
