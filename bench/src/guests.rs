//! The measured capsules: built from C by clang when the benchmark starts, or generated.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use super::Error;
use super::line::{EGRESS, INGRESS, IP_UDP, OTHER_HOP};
use super::place::Scratch;
use anode::code::author::{self, AuthorOptions};
use anode::code::bundle::{Bundle, Insn, Kind, Program};
use anode::trust::{Credential, CredentialRefusal, CredentialSet, PrincipalKey, Restrictions, Terms};
use anode::wire::{Addr, anep, capsule};

/// Bytes of a generated module.
pub(crate) const MODULE: usize = 2048;

/// The application port of capsules that are delivered.
pub(crate) const APP_PORT: u16 = 7;

/// Bundles to be measured.
pub(crate) struct Guests {
    /// Goes on to its destination.
    pub(crate) forward: Bundle,
    /// Goes there and back.
    pub(crate) ping: Bundle,
    /// The first one as native code alone, signed by [`signer`].
    pub(crate) native: Bundle,
}

/// Who signs code that is measured in a role.
pub(crate) fn signer() -> PrincipalKey {
    PrincipalKey::from_seed([0x5a; 32])
}

impl Guests {
    /// Compiles them.
    pub(crate) fn build() -> Result<Guests, Error> {
        let source = include_str!("../../tests/guests/forward.c");
        let forward = compile("forward", source, &AuthorOptions::default())?;
        let ping = compile("ping", include_str!("../../tests/guests/ping.c"), &AuthorOptions::default())?;
        let native = AuthorOptions { key: Some(signer()), only: Some(Kind::Native), ..AuthorOptions::default() };
        let native = granted(compile("forward", source, &native)?)?;
        Ok(Guests { forward, ping, native })
    }

    /// The forwarding code under so many names, signed and granted the role `bench` by [`signer`].
    pub(crate) fn forwards(&self, count: u16) -> Result<Vec<Bundle>, Error> {
        let kinds = [Kind::Wasm, Kind::Bpf];
        let representation = |kind: &Kind| Some((*kind, self.forward.representation(*kind)?.clone()));
        let representations: Vec<(Kind, Arc<[u8]>)> = kinds.iter().filter_map(representation).collect();
        let window = self.forward.manifest().window();
        let another =
            |number: u16| Bundle::build(&format!("forward-{number}"), window, &representations, Some(&signer()));
        let named = |number: u16| another(number).map_err(|error| Error::Guest(error.to_string())).and_then(granted);
        (0..count).map(named).collect()
    }

    /// An ANEP packet with a forward capsule from the one end of a place to the other, as the payload of an IP packet of `ip_length`.
    pub(crate) fn packet(&self, ip_length: usize) -> Vec<u8> {
        packet(&self.forward, ip_length - IP_UDP)
    }

    /// The same to the other next hop.
    pub(crate) fn packet_to_other(&self, ip_length: usize) -> Vec<u8> {
        packet_to(&self.forward, Addr::from(std::net::IpAddr::V4(OTHER_HOP)), ip_length - IP_UDP)
    }
}

/// A node's configuration for code that is loaded into the kernel in this form.
pub(crate) fn with_role(form: &str) -> String {
    let root = signer().id();
    format!("routes = \"kernel\"\n[[role]]\nname = \"bench\"\ntrusts = [\"{root}\"]\nkernel = \"{form}\"")
}

/// A node's configuration for native code.
pub(crate) fn with_native_role() -> String {
    let root = signer().id();
    format!("[[role]]\nname = \"bench\"\ntrusts = [\"{root}\"]\nrepresentations = [\"native\"]")
}

/// Code that sends so many children in the place of each packet, to the destinations after the next hop.
pub(crate) fn sending(count: u32) -> Result<Bundle, Error> {
    let source = format!("#define COUNT {count}\n{}", include_str!("../guests/children.c"));
    let options = AuthorOptions { key: Some(signer()), ..AuthorOptions::default() };
    granted(compile("children", &source, &options)?)
}

/// With a credential of its signer's own beside it, so that a node has no neighbour to ask for one.
fn granted(mut bundle: Bundle) -> Result<Bundle, Error> {
    let failed = |error: CredentialRefusal| Error::Guest(error.to_string());
    let terms = Terms { principal: signer().id(), role: "bench".into(), checks: Restrictions::default() };
    let credentials = vec![Credential::grant(&signer(), &terms).map_err(failed)?];
    let set = CredentialSet { code: bundle.name(), credentials };
    bundle.add_credentials(set.encode().into()).map_err(failed)?;
    Ok(bundle)
}

/// An ANEP packet of so many bytes with a capsule of this code to the far end of a place.
pub(crate) fn packet(bundle: &Bundle, length: usize) -> Vec<u8> {
    packet_to(bundle, Addr::from(std::net::IpAddr::V4(EGRESS.peer)), length)
}

/// The same to any destination.
pub(crate) fn packet_to(bundle: &Bundle, destination: Addr, length: usize) -> Vec<u8> {
    packet_with(&header(bundle, destination), length)
}

/// An ANEP packet of so many bytes with a capsule with this header.
pub(crate) fn packet_with(header: &capsule::Header, length: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; length];
    let inside = length - anep::HEADER;
    let written = anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, inside)
        .and_then(|_| header.emit(&mut bytes[anep::HEADER..]));
    debug_assert_eq!(written, Ok(capsule::HEADER));
    // What a code keeps in its first payload bytes (ping: whether it has turned round) begins as zero.
    let start = anep::HEADER + capsule::HEADER;
    let end = length.min(start + 16);
    bytes[start..end].fill(0);
    bytes
}

/// The header of a capsule of this code.
pub(crate) fn header(bundle: &Bundle, destination: Addr) -> capsule::Header {
    header_from(bundle, Addr::from(std::net::IpAddr::V4(INGRESS.peer)), destination)
}

/// The header of a capsule of this code that begins at `source`.
pub(crate) fn header_from(bundle: &Bundle, source: Addr, destination: Addr) -> capsule::Header {
    capsule::Header { app_port: APP_PORT, bound: 16, code: bundle.name(), previous: source, source, destination }
}

/// What some of them include.
const HEADER: &str = include_str!("../guests/scratch.h");

/// A bundle of C source.
pub(crate) fn compile(name: &str, source: &str, options: &AuthorOptions) -> Result<Bundle, Error> {
    let scratch = Scratch::new()?;
    let path = scratch.path().join(format!("{name}.c"));
    for (path, text) in [(&path, source), (&scratch.path().join("scratch.h"), HEADER)] {
        fs::write(path, text).map_err(|cause| Error::Write { path: path.clone(), cause })?;
    }
    author::build(&path, options).map_err(|error| Error::Guest(error.to_string()))
}

/// A bundle with a module of about [`MODULE`] bytes, nearly all code: functions that mix their argument, branch and loop. Every number
/// gives another one.
pub(crate) fn generated(number: u32) -> Result<Bundle, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Guest(format!("generated module: {error}"));
    let mut functions = 0;
    let mut wasm = Vec::new();
    while wasm.len() < MODULE {
        functions += 1;
        wasm = wat::parse_str(text(number, functions)).map_err(|error| failed(&error))?;
    }
    let wasm: Arc<[u8]> = wasm.into();
    Bundle::build(&format!("generated-{number}"), 0, &[(Kind::Wasm, wasm)], None).map_err(|error| failed(&error))
}

/// Instructions of generated bpf.
pub(crate) const INSTRUCTIONS: usize = 160;

/// The same with [`INSTRUCTIONS`] of bpf, signed and granted the role `bench`: both forward.
pub(crate) fn generated_both(number: u32) -> Result<Bundle, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Guest(format!("generated code: {error}"));
    let wasm = generated(number)?.representation(Kind::Wasm).cloned().ok_or_else(|| failed(&"no wasm"))?;
    let bpf: Arc<[u8]> = program(number).encode().into();
    let title = format!("generated-{number}");
    let bundle = Bundle::build(&title, 0, &[(Kind::Wasm, wasm), (Kind::Bpf, bpf)], Some(&signer()));
    granted(bundle.map_err(|error| failed(&error))?)
}

/// Mixes the context's flags and forwards, or delivers where the capsule is for this node (RFC 9669 has the opcodes).
fn program(number: u32) -> Program {
    let insn = |opcode, dst, src, off, imm| Insn { opcode, dst, src, off, imm };
    let (mov, load, xor, add, shift) = (0xb7, 0x61, 0xaf, 0x07, 0x77);
    // Without a context there is nothing to do: the verifier wants to see that it is looked for.
    let mut code =
        vec![insn(mov, 0, 0, 0, 0), insn(0x55, 1, 0, 1, 0), insn(0x95, 0, 0, 0, 0), insn(mov, 0, 0, 0, number as i32)];
    let end = [
        insn(load, 3, 1, 24, 0), // r3 = flags
        insn(mov, 0, 0, 0, 1),   // forward
        insn(0x57, 3, 0, 0, 1),  // r3 &= AN_HERE
        insn(0x15, 3, 0, 1, 0),  // if r3 == 0 goto the last
        insn(mov, 0, 0, 0, 2),   // deliver
        insn(0x95, 0, 0, 0, 0),
    ];
    let step = [insn(load, 3, 1, 24, 0), insn(xor, 0, 3, 0, 0), insn(add, 0, 0, 0, 0x0a0d), insn(shift, 0, 0, 0, 1)];
    code.extend(step.into_iter().cycle().take(INSTRUCTIONS - 4 - end.len()));
    code.extend(end);
    Program { symbols: Vec::new(), code }
}

fn text(number: u32, functions: u32) -> String {
    let mut text = String::from(
        r#"(module (memory (export "memory") 1024 1024 (pagesize 1)) (global (export "an_arena") i32 (i32.const 0))"#,
    );
    let mut calls = String::new();
    for at in 0..functions {
        let salt = number.wrapping_mul(2_654_435_761) ^ at;
        let _ = write!(
            text,
            r#"(func $f{at} (param $x i32) (result i32) (local $i i32)
                (local.set $i (i32.const 3))
                (loop $again
                    (if (i32.and (local.get $x) (i32.const 1))
                        (then (local.set $x (i32.add (i32.mul (local.get $x) (i32.const {salt})) (i32.const {at}))))
                        (else (local.set $x (i32.xor (i32.shr_u (local.get $x) (i32.const 3)) (i32.const {salt})))))
                    (i32.store (i32.const {slot}) (i32.add (local.get $x) (i32.load (i32.const {slot}))))
                    (br_if $again (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
                (local.get $x))"#,
            salt = salt as i32,
            slot = 512 + at * 4
        );
        let _ = write!(calls, "(drop (call $f{at} (local.get $ctx)))");
    }
    let _ = write!(
        text,
        r#"(func (export "capsule") (param $ctx i32) (param $window i32) (result i32) {calls}
            (if (i32.and (i32.load offset=24 (local.get $ctx)) (i32.const 1)) (then (return (i32.const 2))))
            (i32.const 1)))"#
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_modules_differ_and_have_their_size() {
        let (one, other) = (generated(1).unwrap(), generated(2).unwrap());
        assert_ne!(one.name(), other.name());
        let wasm = one.representation(Kind::Wasm).unwrap();
        assert!((MODULE..MODULE + 200).contains(&wasm.len()), "{}", wasm.len());
        anode::code::check::wasm(wasm, 0).unwrap();
    }

    #[test]
    fn generated_bpf_has_its_size_and_may_run() {
        let bundle = generated_both(4).unwrap();
        let bpf = bundle.representation(Kind::Bpf).unwrap();
        assert_eq!(Program::parse(bpf).unwrap().code.len(), INSTRUCTIONS);
        anode::code::check::bpf(bpf).unwrap();
    }

    #[test]
    fn a_packet_is_a_capsule_of_its_code() {
        let bundle = generated(3).unwrap();
        let bytes = packet(&bundle, 100);
        let anep = anep::Packet::new_checked(&bytes).unwrap();
        assert_eq!((anep.type_id(), anep.bytes().len()), (anep::type_id::CAPSULE, 100));
        assert_eq!(capsule::Header::parse(anep.payload()).unwrap().code, bundle.name());
    }
}
