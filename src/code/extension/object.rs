//! Shared objects that are offered as extensions, as far as they are read without being loaded: head, manifest, and what they export.

use super::manifest::ExtensionManifest;
use crate::code::check;
use object::LittleEndian;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::env::consts::ARCH;

/// The section with the manifest, of the header's `AN_EXTENSION`.
const SECTION: &str = "anode.extension";

/// What stands before the names of functions, so that they are none of the C library's.
pub(super) const CALL: &str = "an_call_";

/// Bytes of the file, at most.
const OBJECT_MAX: usize = 256 << 10;

/// Reads what an object is, and checks that it exports what its manifest says. Nothing of it is run.
pub fn manifest_of(bytes: &[u8]) -> Result<ExtensionManifest, String> {
    if bytes.len() > OBJECT_MAX {
        return Err(format!("a shared object has at most {OBJECT_MAX} bytes, and this one {}", bytes.len()));
    }
    if check::native(bytes, ARCH).is_err() {
        return Err(format!("not a shared object (ELF, 64 bits) for {ARCH}: cc -shared -fPIC makes one there"));
    }
    let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(|error| format!("no shared object: {error}"))?;
    let text = file.section_by_name(SECTION).and_then(|section| section.data().ok()).map(until_nul);
    let text =
        text.ok_or_else(|| format!("the object has no section '{SECTION}', which says what it is: AN_EXTENSION"))?;
    let text = core::str::from_utf8(text).map_err(|_| format!("the section '{SECTION}' is no text"))?;
    let manifest: ExtensionManifest = text.parse()?;
    let exports: Vec<&str> = file.dynamic_symbols().filter_map(|symbol| symbol.name().ok()).collect();
    let functions = manifest.functions().map(|name| format!("{CALL}{name}"));
    let mut wanted = functions.chain(["an_buffer", "an_given", "an_given_bytes"].map(str::to_owned));
    let missing = wanted.find(|name| !exports.contains(&name.as_str()));
    drop(wanted);
    match missing {
        Some(missing) => Err(format!("{}: the object exports no {missing}: anode/extension.h", manifest.name)),
        None => Ok(manifest),
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
