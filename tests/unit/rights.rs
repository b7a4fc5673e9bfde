//! Rights of code: (bundle, credentials, roles, time) → role and representations, or the reason of a refusal.
//!
//! The credentials are real biscuits, made and signed here, mutated, cut and mixed up. Every case states the
//! role, and whether a refusal means that the credential is good for nobody.

use anode::code::bundle::{Bundle, Kind};
use anode::code::judge::Claim;
use anode::trust::{
    CREDENTIAL_MAX, CREDENTIALS_MAX, Credential, CredentialSet, PrincipalId, PrincipalKey, Restrictions, Role, Roles,
    SET_MAX, Terms,
};
use anode::wire::Digest;
use biscuit_auth::builder::Algorithm;
use biscuit_auth::{Biscuit, BiscuitBuilder, BlockBuilder, KeyPair, PrivateKey};

const NOW: u64 = 1_800_000_000;
const ROOT: u8 = 1;
const OTHER_ROOT: u8 = 2;
const AUTHOR: u8 = 3;
const STRANGER: u8 = 4;

fn key(number: u8) -> PrincipalKey {
    PrincipalKey::from_seed([number; 32])
}

fn id(number: u8) -> PrincipalId {
    key(number).id()
}

/// `guest` may run wasm, `operator` everything; the root grants both, another root `guest` alone.
fn roles() -> Roles {
    let text = format!(
        r#"
        [[role]]
        name = "operator"
        trusts = ["{root}"]
        representations = ["wasm", "bpf", "native"]
        kernel = "trusted"
        [[role]]
        name = "guest"
        trusts = ["{root}", "{other}"]
        representations = ["wasm"]
        "#,
        root = id(ROOT),
        other = id(OTHER_ROOT)
    );
    #[derive(serde::Deserialize)]
    struct File {
        role: Vec<Role>,
    }
    Roles::new(toml::from_str::<File>(&text).unwrap().role).unwrap()
}

fn bundle(signer: Option<u8>) -> Bundle {
    let representations =
        [(Kind::Wasm, b"w"[..].into()), (Kind::Bpf, b"b"[..].into()), (Kind::Native, b"n"[..].into())];
    Bundle::build("ping", 16, &representations, signer.map(key).as_ref()).unwrap()
}

fn terms(to: u8, role: &str) -> Terms {
    Terms { principal: id(to), role: role.into(), checks: Restrictions::default() }
}

fn grant(root: u8, to: u8, role: &str, checks: Restrictions) -> Credential {
    Credential::grant(&key(root), &Terms { checks, ..terms(to, role) }).unwrap()
}

/// What travels beside a bundle.
fn set(code: &Digest, credentials: Vec<Credential>) -> Vec<u8> {
    CredentialSet { code: *code, credentials }.encode()
}

/// Role, representations, and if credentials were refused: whether they are forged, and why.
fn outcome(bundle: &Bundle, set: Option<Vec<u8>>) -> (String, String, Option<(bool, String)>) {
    let manifest = bundle.manifest().clone().into();
    let claim = Claim { code: bundle.name(), manifest, credentials: set.map(Into::into) };
    let grant = roles().authorise("n1", NOW, &claim).unwrap();
    let refused = grant.refused.map(|refused| (refused.forged, refused.why));
    (grant.role.name.clone(), grant.kinds.to_string(), refused)
}

#[test]
fn a_role_comes_from_a_root_or_a_credential_of_one() {
    let code = bundle(Some(AUTHOR));
    let none = Restrictions::default;
    let only = |kind: &str| Restrictions { representations: vec![kind.into()], ..none() };
    let from = |from| Restrictions { from: Some(from), ..none() };
    let until = |until| Restrictions { until: Some(until), ..none() };
    let at = |node: &str| Restrictions { nodes: vec!["other".into(), node.into()], ..none() };
    let all = Restrictions { codes: vec![code.name()], from: Some(0), until: Some(NOW), ..at("n1") };
    let cases = [
        (grant(ROOT, AUTHOR, "operator", none()), "operator", "wasm, bpf, native"),
        (grant(ROOT, AUTHOR, "guest", none()), "guest", "wasm"),
        (grant(OTHER_ROOT, AUTHOR, "guest", none()), "guest", "wasm"),
        (grant(ROOT, AUTHOR, "operator", only("bpf")), "operator", "bpf"),
        (grant(ROOT, AUTHOR, "operator", until(NOW)), "operator", "wasm, bpf, native"),
        (grant(ROOT, AUTHOR, "operator", from(NOW)), "operator", "wasm, bpf, native"),
        (grant(ROOT, AUTHOR, "operator", all), "operator", "wasm, bpf, native"),
        (grant(ROOT, AUTHOR, "operator", none()).attenuate(&only("wasm")).unwrap(), "operator", "wasm"),
        (grant(ROOT, AUTHOR, "operator", none()).bind(&code.name()).unwrap(), "operator", "wasm, bpf, native"),
    ];
    for (credential, role, kinds) in cases {
        let set = set(&code.name(), vec![credential.clone()]);
        assert_eq!(outcome(&code, Some(set)), (role.into(), kinds.into(), None), "{:?}", credential.describe());
        assert_eq!(credential.to_string().parse::<Credential>(), Ok(credential), "the text of a file");
    }
    assert_eq!(outcome(&bundle(Some(ROOT)), None).0, "operator", "the first role of a root itself");
    assert_eq!(outcome(&bundle(Some(OTHER_ROOT)), None).0, "guest");
    let both = vec![grant(STRANGER, AUTHOR, "operator", none()), grant(OTHER_ROOT, AUTHOR, "guest", none())];
    assert_eq!(outcome(&code, Some(set(&code.name(), both))).0, "guest", "one good credential suffices");
}

#[test]
fn code_without_credentials_that_count_is_anyones_and_the_reason_is_told() {
    let code = bundle(Some(AUTHOR));
    let (name, other) = (code.name(), bundle(Some(STRANGER)).name());
    let none = Restrictions::default;
    let good = || grant(ROOT, AUTHOR, "operator", none());
    let checked = |checks: Restrictions| vec![grant(ROOT, AUTHOR, "operator", checks)];
    let late = Restrictions { until: Some(NOW - 1), ..none() };
    let early = Restrictions { from: Some(NOW + 1), ..none() };
    let wrong_code = Restrictions { codes: vec![other], ..none() };
    let wrong_node = Restrictions { nodes: vec!["n2".into()], ..none() };
    let no_kind = Restrictions { representations: vec!["hardware".into()], ..none() };
    let attenuated = good().attenuate(&late).unwrap();
    let cases = [
        (set(&name, checked(late)), false, "check if time($it), $it <="),
        (set(&name, checked(early)), false, "check if time($it), $it >="),
        (set(&name, checked(wrong_code)), false, "check if code($it)"),
        (set(&name, checked(wrong_node)), false, "check if node($it), {\"n2\"}"),
        (set(&name, checked(no_kind)), false, "check if representation($it)"),
        (set(&name, vec![attenuated]), false, "check if time($it)"),
        (set(&name, vec![good().bind(&other).unwrap()]), false, "check if code($it)"),
        (set(&name, vec![grant(STRANGER, AUTHOR, "operator", none())]), false, "is trusted for no role here"),
        (
            set(&name, vec![grant(OTHER_ROOT, AUTHOR, "operator", none())]),
            false,
            &format!("it grants the role operator, which {} may not grant here", id(OTHER_ROOT)),
        ),
        (
            set(&name, vec![grant(ROOT, STRANGER, "operator", none())]),
            false,
            &format!("it grants the role operator to {}, not to {}, who has signed", id(STRANGER), id(AUTHOR)),
        ),
        (
            set(&name, vec![grant(ROOT, AUTHOR, "king", none())]),
            false,
            "it grants the role king, which this node does not have",
        ),
        (set(&name, vec![grant(ROOT, AUTHOR, "\u{1b}", none())]), false, "it grants the role of no possible name"),
        (set(&other, vec![good()]), true, "it came for another code"),
        (set(&name, vec![]), true, "the set is empty"),
        ([&b"ANC1"[..], &name.0, &[0; 2 + 32]].concat(), true, "a credential of the set is empty"),
        (set(&name, vec![good(); CREDENTIALS_MAX + 1]), true, "more than 4 credentials"),
        (vec![0; SET_MAX + 1], true, "at most 2048 are allowed"),
        (b"ANC1".to_vec(), true, "ends early"),
        (b"ANB1".to_vec(), true, "does not begin with ANC1"),
    ];
    for (set, forged, part) in cases {
        let (role, _, refused) = outcome(&code, Some(set));
        let (is_forged, why) = refused.unwrap_or_else(|| panic!("accepted: {part}"));
        assert_eq!((role.as_str(), is_forged), ("anyone", forged), "{why}");
        assert!(why.contains(part), "{why:?} and not {part:?}");
    }
    assert_eq!(outcome(&code, None), ("anyone".into(), "wasm, bpf".into(), None), "stripped");
    let unsigned = bundle(None);
    let stolen = set(&unsigned.name(), vec![good()]);
    assert_eq!(outcome(&unsigned, Some(stolen)), ("anyone".into(), "wasm, bpf".into(), None));
    let thief = bundle(Some(STRANGER));
    assert_eq!(outcome(&thief, Some(set(&thief.name(), vec![good()]))).0, "anyone", "a credential is its principal's");
}

/// A token of the root that the command line does not make.
fn token(builder: BiscuitBuilder, blocks: Vec<BlockBuilder>) -> Credential {
    let root = PrivateKey::from_bytes(&[ROOT; 32], Algorithm::Ed25519).unwrap();
    let token = builder.build(&KeyPair::from(&root)).unwrap();
    let token = blocks.into_iter().fold(token, |token, block| token.append(block).unwrap());
    format!("anode-credential {} {}", id(ROOT), hex::encode(token.to_vec().unwrap())).parse().unwrap()
}

fn operator() -> BiscuitBuilder {
    let source = format!("grant(hex:{}, \"operator\")", id(AUTHOR).digits());
    Biscuit::builder().fact(source.as_str()).unwrap()
}

fn block(source: &str) -> BlockBuilder {
    BlockBuilder::new().code(source).unwrap()
}

#[test]
fn what_holders_append_only_takes_away_and_costs_little() {
    let code = bundle(Some(AUTHOR));
    let gift = format!("grant(hex:{}, \"operator\");", id(AUTHOR).digits());
    let guest = format!("grant(hex:{}, \"guest\")", id(AUTHOR).digits());
    let facts = (0..49).map(|n| format!("f({n});")).collect::<String>();
    let join = "check if f($a), f($b), f($c), f($d)";
    let numbers = |count| (0..count).map(|n| format!("f({n});")).collect::<String>();
    let joins = |count| format!("{}check if f($a), f($b), f($c), $a + $b + $c < 0;", numbers(count));
    let elements = (0..90).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let long_set = format!("{}check if f($a), f($b), f($c), {{{elements}}}.contains(-1);", numbers(5));
    let cases = [
        (token(operator(), vec![]), "operator", None),
        (token(operator(), vec![block("check if title(\"ping\"), role(\"operator\")"); 7]), "operator", None),
        (token(operator(), vec![block("check if true"); 8]), "anyone", Some("more than 8 blocks")),
        (token(Biscuit::builder().fact(guest.as_str()).unwrap(), vec![block(&gift)]), "guest", None),
        (token(Biscuit::builder(), vec![block(&gift)]), "anyone", Some("it grants nobody a role")),
        // A block's own facts satisfy its own checks at most, never those of others.
        (
            token(
                operator().code("check if time($t), $t < 2000-01-01T00:00:00Z").unwrap(),
                vec![block("time(1999-01-01T00:00:00Z)")],
            ),
            "anyone",
            Some("check if time"),
        ),
        (token(operator(), vec![block(&facts)]), "anyone", Some("more than 48 facts")),
        (token(operator(), vec![block("a($x) <- b($x)")]), "anyone", Some("more than 0 rules")),
        (token(operator(), vec![block(join)]), "anyone", Some("more than 3 facts joined")),
        // Ten thousand rows of facts, and few: whoever holds a token can append either.
        (token(operator(), vec![block(&joins(22))]), "anyone", Some("more than 8192 steps of checks")),
        (token(operator(), vec![block(&joins(8))]), "anyone", Some("refused by its")),
        (token(operator(), vec![block(&long_set)]), "anyone", Some("more than 8192 steps of checks")),
        (
            token(operator(), vec![block("check if title($t), $t.matches(\"(a*)*\")")]),
            "anyone",
            Some("closures, patterns"),
        ),
        (token(operator(), vec![block("check if [1].any($x -> $x == 1)")]), "anyone", Some("closures, patterns")),
        (token(operator(), vec![block(&"check if true;".repeat(33))]), "anyone", Some("more than 32 checks")),
        (token(operator(), vec![block("check if title($t), $t + 1 == 2")]), "anyone", Some("cannot be evaluated")),
    ];
    for (credential, role, part) in cases {
        let (found, _, refused) = outcome(&code, Some(set(&code.name(), vec![credential.clone()])));
        assert_eq!(found, role, "{:?}: {refused:?}", credential.describe());
        let why = refused.map(|(_, why)| why);
        assert_eq!(why.is_some(), part.is_some(), "{why:?}");
        assert!(part.is_none_or(|part| why.as_ref().is_some_and(|why| why.contains(part))), "{why:?} and not {part:?}");
    }
    let long = BlockBuilder::new().code(format!("a(\"{}\")", "x".repeat(CREDENTIAL_MAX))).unwrap();
    let root = PrivateKey::from_bytes(&[ROOT; 32], Algorithm::Ed25519).unwrap();
    let long = operator().build(&KeyPair::from(&root)).unwrap().append(long).unwrap().to_vec().unwrap();
    let text = format!("anode-credential {} {}", id(ROOT), hex::encode(&long));
    assert!(text.parse::<Credential>().unwrap_err().to_string().contains("at most 2048"));
    let mut bytes = [b"ANC1", &code.name().0[..], &(long.len() as u16).to_be_bytes(), &id(ROOT).0].concat();
    bytes.extend(long);
    let refused = outcome(&code, Some(bytes)).2.unwrap();
    assert!(refused.0 && refused.1.contains("at most 2048"), "{refused:?}");
}

#[test]
fn a_sealed_credential_takes_no_more_blocks() {
    let code = bundle(Some(AUTHOR));
    let bound = grant(ROOT, AUTHOR, "operator", Restrictions::default()).bind(&code.name()).unwrap();
    assert!(bound.attenuate(&Restrictions::default()).is_err());
}

#[test]
fn a_credential_mutated_anywhere_gives_nothing() {
    let code = bundle(Some(AUTHOR));
    let good = set(&code.name(), vec![grant(ROOT, AUTHOR, "operator", Restrictions::default())]);
    assert_eq!(outcome(&code, Some(good.clone())).0, "operator");
    for at in 0..good.len() {
        for flip in [1, 0x80] {
            let mut mutant = good.clone();
            mutant[at] ^= flip;
            // A biscuit's proof is the secret of the next block, which another one does not fit.
            let (role, _, refused) = outcome(&code, Some(mutant));
            assert_eq!((role.as_str(), refused.is_some()), ("anyone", true), "byte {at} ^ {flip:#x}");
        }
    }
    for end in 0..good.len() {
        assert_eq!(outcome(&code, Some(good[..end].to_vec())).0, "anyone", "cut at {end}");
    }
}

#[test]
fn a_bundle_with_a_wrong_signature_is_refused_whatever_its_credentials() {
    let text = String::from_utf8(bundle(Some(AUTHOR)).manifest_bytes().to_vec()).unwrap();
    let forged = Bundle::of_manifest(text.replace("\"16\"", "\"17\"").as_bytes()).unwrap();
    let credentials = set(&forged.name(), vec![grant(ROOT, AUTHOR, "operator", Restrictions::default())]);
    let manifest = forged.manifest().clone().into();
    let claim = Claim { code: forged.name(), manifest, credentials: Some(credentials.into()) };
    assert!(roles().authorise("n1", NOW, &claim).is_err());
}

#[test]
fn credentials_survive_the_file_of_their_bundle_and_change_no_name() {
    let plain = bundle(Some(AUTHOR));
    let mut bundle = plain.clone();
    let bytes = set(&plain.name(), vec![grant(ROOT, AUTHOR, "operator", Restrictions::default())]);
    bundle.add_credentials(bytes.clone().into()).unwrap();
    let file = bundle.write();
    assert!(file.starts_with(b"ANB2") && plain.write().starts_with(b"ANB1"));
    let read = Bundle::read(&file).unwrap();
    assert_eq!((read.name(), read.credentials().map(|set| set.to_vec())), (plain.name(), Some(bytes)));
    for end in 0..file.len() {
        assert!(Bundle::read(&file[..end]).is_err(), "cut at {end}");
    }
    let foreign = set(&Digest::of(b"other"), vec![grant(ROOT, AUTHOR, "operator", Restrictions::default())]);
    assert!(bundle.add_credentials(foreign.into()).is_err());
}
