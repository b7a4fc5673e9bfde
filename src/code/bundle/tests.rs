//! Correct bundles, and every way in which bytes are none.

use super::*;
use crate::trust::PrincipalKey;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

fn sample(key: Option<&PrincipalKey>) -> Bundle {
    let representations = [(Kind::Bpf, Arc::from(&b"second"[..])), (Kind::Wasm, Arc::from(&b"first"[..]))];
    Bundle::build("ping", 16, &representations, key).unwrap()
}

#[test]
fn the_manifest_has_the_bytes_of_the_specification() {
    let expected = concat!(
        r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","#,
        r#""artifactType":"application/vnd.anode.bundle.v1","#,
        r#""config":{"mediaType":"application/vnd.oci.empty.v1+json","#,
        r#""digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"#,
        r#""layers":[{"mediaType":"application/vnd.anode.wasm.v1","#,
        r#""digest":"sha256:a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e","size":5},"#,
        r#"{"mediaType":"application/vnd.anode.bpf.v1","#,
        r#""digest":"sha256:16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4","size":6}],"#,
        r#""annotations":{"anode.api":"1","anode.title":"ping","anode.window":"16"}}"#
    );
    assert_eq!(std::str::from_utf8(sample(None).manifest_bytes()).unwrap(), expected);
}

#[test]
fn the_same_manifest_in_another_spelling_is_refused() {
    let text = String::from_utf8(sample(None).manifest_bytes().to_vec()).unwrap();
    let spellings = [
        text.replace(",\"mediaType\":\"application/vnd.oci.image", ", \"mediaType\":\"application/vnd.oci.image"),
        text.replace("\"16\"", "\"016\""),
        text.replace("\"16\"", "\"+16\""),
        text.replace("ping", "p\\u0069ng"),
        text.replace("a7937b", "A7937B"),
        text.replace("sha256:a7", "a7"),
        text.replace("{\"anode.api\":\"1\",\"anode.title\":\"ping\"", "{\"anode.title\":\"ping\",\"anode.api\":\"1\""),
        format!("{text}\n"),
        text.replace("\"size\":5", "\"size\":5,\"size\":5"),
        text.replace("\"anode.window\"", "\"x\":\"y\",\"anode.window\""),
        text.replace("}}", ",\"anode.principal\":null}}"),
    ];
    for spelling in spellings {
        assert_ne!(spelling, text);
        let refused = Manifest::parse(spelling.as_bytes()).unwrap_err();
        assert!(matches!(refused, Error::NotCanonical { .. } | Error::Json { .. }), "{refused}");
    }
}

#[test]
fn a_forbidden_value_is_refused_by_the_name_of_its_field() {
    let text = String::from_utf8(sample(None).manifest_bytes().to_vec()).unwrap();
    let cases = [
        ("\"schemaVersion\":2", "\"schemaVersion\":3", "schemaVersion"),
        ("manifest.v1+json", "index.v1+json", "mediaType"),
        ("anode.bundle.v1", "anode.bundle.v2", "artifactType"),
        ("\"size\":2}", "\"size\":3}", "config.size"),
        ("anode.wasm.v1", "anode.wasm.v2", "layers.mediaType"),
        ("anode.wasm.v1", "anode.bpf.v1", "layers"),
        ("anode.wasm.v1", "anode.native.v1", "layers"),
        ("anode.bpf.v1", "anode.native.v1", "anode.architecture"),
        (
            ",\"anode.window\":\"16\"",
            ",\"anode.window\":\"16\",\"anode.architecture\":\"x86_64\"",
            "anode.architecture",
        ),
        ("\"size\":5", "\"size\":0", "layers.size"),
        ("\"size\":5", "\"size\":65537", "layers.size"),
        ("a7937b64", "g7937b64", "layers.digest"),
        ("\"anode.api\":\"1\"", "\"anode.api\":\"2\"", "anode.api"),
        ("\"16\"", "\"513\"", "anode.window"),
        ("\"16\"", "\"-1\"", "anode.window"),
        ("\"ping\"", "\"\"", "anode.title"),
        ("\"ping\"", "\"a b\"", "anode.title"),
        ("}}", ",\"anode.principal\":\"00\"}}", "anode.principal"),
        ("}}", ",\"anode.signature\":\"00\"}}", "anode.signature"),
    ];
    for (from, to, expected) in cases {
        match Manifest::parse(text.replace(from, to).as_bytes()) {
            Err(Error::Field { field, .. }) => assert_eq!(field, expected),
            other => panic!("{to}: {other:?}"),
        }
    }
    assert!(matches!(Manifest::parse(&[b' '; MANIFEST_MAX + 1]), Err(Error::ManifestLength { .. })));
}

#[test]
fn a_signature_is_part_of_the_name_and_holds_for_this_manifest_only() {
    let key = PrincipalKey::from_seed([7; 32]);
    let (unsigned, signed) = (sample(None), sample(Some(&key)));
    assert_ne!(unsigned.name(), signed.name());
    assert_eq!(signed.name(), sample(Some(&key)).name(), "reproducible");
    assert_eq!(unsigned.manifest().principal(), Ok(None));
    assert_eq!(signed.manifest().principal(), Ok(Some(key.id())));

    let text = String::from_utf8(signed.manifest_bytes().to_vec()).unwrap();
    let other = PrincipalKey::from_seed([8; 32]).id().digits();
    for forged in [text.replace("\"16\"", "\"17\""), text.replace(&key.id().digits(), &other)] {
        let manifest = Manifest::parse(forged.as_bytes()).unwrap();
        assert_eq!(manifest.principal(), Err(Error::Signature));
    }
}

#[test]
fn a_representation_that_the_manifest_does_not_name_is_refused() {
    let mut bundle = Bundle::of_manifest(sample(None).manifest_bytes()).unwrap();
    assert!(matches!(bundle.add(Kind::Wasm, b"firsT"[..].into()), Err(Error::Representation { .. })));
    assert!(matches!(bundle.add(Kind::Native, b"first"[..].into()), Err(Error::NoSuchLayer { .. })));
    assert!(bundle.representation(Kind::Wasm).is_none());
    bundle.add(Kind::Wasm, b"first"[..].into()).unwrap();
    assert_eq!(bundle.objects().count(), 2);
}

#[test]
fn a_bundle_survives_its_file_with_whatever_is_at_hand() {
    let whole = sample(None);
    let mut part = Bundle::of_manifest(whole.manifest_bytes()).unwrap();
    part.add(Kind::Bpf, b"second"[..].into()).unwrap();
    for bundle in [&whole, &part] {
        let read = Bundle::read(&bundle.write()).unwrap();
        assert_eq!(read.name(), bundle.name());
        for kind in Kind::ALL {
            assert_eq!(read.representation(kind), bundle.representation(kind));
        }
    }
    let bytes = whole.write();
    for end in 0..bytes.len() {
        assert!(Bundle::read(&bytes[..end]).is_err(), "cut at {end}");
    }
    assert!(Bundle::read(&[&bytes[..], b"x"].concat()).is_err());
}

#[test]
fn mutated_bundles_are_refused_without_panic() {
    let bytes = sample(Some(&PrincipalKey::from_seed([7; 32]))).write();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..5000 {
        let mut mutant = bytes.clone();
        for _ in 0..1 + random.next_u32() % 3 {
            let at = random.next_u32() as usize % mutant.len();
            mutant[at] = random.next_u32() as u8;
        }
        if let Ok(bundle) = Bundle::read(&mutant) {
            // Only the manifest itself may differ, and then in name and signature.
            assert!(
                mutant == bytes
                    || bundle.manifest().principal() == Err(Error::Signature)
                    || !bundle.manifest().is_signed()
            );
        }
    }
}

#[test]
fn a_program_has_one_encoding() {
    let program = Program {
        symbols: vec!["an_log".into(), "an_now".into()],
        code: vec![Insn { opcode: 0x95, ..Insn::default() }, Insn { opcode: 0xb7, dst: 1, src: 2, off: -3, imm: -4 }],
    };
    let bytes = program.encode();
    assert_eq!(bytes.len(), 12 + 14 + 6 + 16);
    assert_eq!(Program::parse(&bytes).unwrap(), program);
    for at in 0..bytes.len() {
        let mut mutant = bytes.clone();
        mutant[at] ^= 0x41;
        if let Ok(program) = Program::parse(&mutant) {
            assert_eq!(program.encode(), mutant, "byte {at}");
        }
        assert!(Program::parse(&bytes[..at]).is_err());
    }
}
