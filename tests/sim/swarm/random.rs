//! The random choices of a swarm: the network, the codes, the programs.

use crate::guests::{bundle, forking, forward, module, padded_forward, ping};
use crate::net::app;
use anode::code::bundle::{Bundle, Kind};
use anode::ee::plan::{Config, rip::Timers};
use anode::node::proofs::Demands;
use anode::schedule::Policy;
use anode::sim::{Carries, Family, Line, Network, Shape};
use anode::topology::Ceiling;
use anode::trust::limits::{Limits, OverBudget};
use anode::trust::{PrincipalKey, Revocation, Role, Roles, Subject};
use anode::wire::Digest;
use plan::packet::{Header, Packet};
use plan::value::{Host, Value};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;

fn key(number: u8) -> PrincipalKey {
    PrincipalKey::from_seed([number; 32])
}

/// Who writes code, and is trusted with a role.
fn author() -> PrincipalKey {
    key(1)
}

/// The same code, signed. A credential would be another one every time.
fn sign(code: &Bundle) -> Bundle {
    let wasm = code.representation(Kind::Wasm).unwrap().clone();
    let title = format!("{}-signed", code.manifest().title());
    Bundle::build(&title, code.manifest().window(), &[(Kind::Wasm, wasm)], Some(&author())).unwrap()
}

pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Another chance that goes on from here.
    pub fn fork(&mut self) -> Dice {
        Dice::new(self.0.next_u64())
    }

    /// A number below a limit; 0 below 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.0.next_u64()) * limit as u128) >> 64) as usize
    }

    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    pub fn network(&mut self, seed: u64) -> Network {
        let nodes = 3 + self.below(8);
        let shape = match self.below(5) {
            0 => Shape::Line { nodes },
            1 => Shape::Ring { nodes },
            2 => Shape::Grid { width: 2 + nodes / 4, height: 2 },
            3 => Shape::Tree { nodes, fanout: 2 },
            _ => Shape::Random { nodes: nodes.max(6) & !1, degree: 3 },
        };
        let line = Line {
            carries: self.pick(&[Carries::Overlay, Carries::Overlay, Carries::Ethernet]),
            delay_ms: self.pick(&[0.1, 1.0, 20.0]),
            rate_mbit: self.pick(&[0.0, 0.0, 1.0, 20.0]),
            queue_bytes: self.pick(&[3000, 64 << 10]),
            loss: self.pick(&[0.0, 0.01, 0.2]),
            duplicate: self.pick(&[0.0, 0.0, 0.1]),
            reorder: self.pick(&[0.0, 0.2]),
            mtu: self.pick(&[1280, 1500]),
            ..Line::default()
        };
        let mut network = Network::new(shape, line, seed).unwrap_or_else(|why| panic!("SEED={seed}: {why}"));
        if self.one_in(3) {
            let other = Carries::Overlay;
            network.links.iter_mut().filter(|_| self.one_in(2)).for_each(|link| link.line.carries = other);
        }
        network.family = self.pick(&[Family::V4, Family::V6, Family::Both]);
        network.ceiling = Ceiling::all(self.pick(&[8, 64, 300]));
        network.sizes.codes = self.pick(&[3, 16, 1024]);
        network.sizes.object_bytes = self.pick(&[20_000, 8 << 20]);
        network.sizes.state_entries = self.pick(&[64, 256]);
        network.sizes.look_ups_per_second = self.pick(&[2, 256]);
        network.sizes.fetch_bytes_per_second = self.pick(&[20_000, 1 << 20]);
        let rip = self.one_in(3);
        network.plan = Config {
            enabled: !self.one_in(5),
            bound_max: self.pick(&[8, 64]),
            rip: rip.then(Timers::default),
            default_rip: rip,
            codes: self.pick(&[2, 512]),
            code_bytes: self.pick(&[3000, 1 << 20]),
            cells: self.pick(&[500, 50_000]),
            ..Config::default()
        };
        self.guard(&mut network);
        network
    }

    /// Proofs of neighbours, what ports demand, and roles: the author's, or nobody's.
    fn guard(&mut self, network: &mut Network) {
        network.unix_s = self.pick(&[0, 1_800_000_000]);
        let proved = self.one_in(3);
        network.secret = proved.then_some([7; 32]);
        if proved && self.one_in(4) {
            let link = self.below(network.links.len());
            network.wrong_keys.push((network.links[link].a, link));
        }
        network.demands =
            Demands { mac: proved && self.one_in(2), signed_code: self.one_in(12), signed_plan: self.one_in(8) };
        let limits = Limits {
            packets_per_second: self.pick(&[5, 1_000_000]),
            state_entries: self.pick(&[4, 1024]),
            over_budget: self.pick(&[OverBudget::Throttle, OverBudget::Remove]),
            ..Limits::default()
        };
        let operator = Role { name: "operator".into(), trusts: vec![author().id()], ..Role::anyone(limits) };
        network.roles = Arc::new(Roles::new(vec![operator]).unwrap());
        for node in 0..network.names.len() {
            if self.one_in(4) {
                network.own_roles.insert(node, Arc::default());
            }
        }
    }

    /// In which order a node runs packets.
    pub fn policy(&mut self) -> Policy {
        self.pick(&Policy::ALL)
    }

    /// A word by which a key takes something back: what it has issued, or what is not its own.
    pub fn revocation(&mut self, codes: &[Digest]) -> Revocation {
        let signer = {
            let stranger = 100 + self.below(40) as u8;
            self.pick(&[1, 1, stranger])
        };
        let any = Digest([self.below(4) as u8; 32]);
        let code = if codes.is_empty() { any } else { self.pick(codes) };
        let principal = key(self.pick(&[1, signer])).id();
        let subject = self.pick(&[Subject::Principal(principal), Subject::Code(code), Subject::Token(any)]);
        let signer = key(signer);
        Revocation::sign(&signer, subject, self.below(9) as u64)
    }

    /// Some of those that are known, and some that nobody has written.
    pub fn codes(&mut self) -> Vec<Bundle> {
        let mut codes = vec![forward(), ping(), forking(), padded_forward(1, 3000), padded_forward(2, 12_000)];
        let wat = |title: &str, body: &str| bundle(title, 0, module("", body));
        codes.push(wat("loops", "(loop $l br $l) i32.const 1"));
        codes.push(wat("traps", "unreachable"));
        codes.push(wat("grows", "(memory.grow (i32.const 1)) drop i32.const 1"));
        codes.push(wat("wrong", "i32.const 77"));
        codes.push(wat("forges", "(i32.store (i32.add (local.get 1) (i32.const 12)) (i32.const 99)) i32.const 1"));
        let random = (0..4).map(|number| self.random_code(number)).collect::<Vec<_>>();
        codes.extend(random);
        // Of some there is one that the author has signed, in a role of his.
        let signed: Vec<_> = codes.iter().filter(|_| self.one_in(3)).map(sign).collect();
        codes.extend(signed);
        let wanted = 2 + self.below(6);
        (0..wanted).map(|_| self.pick(&codes)).collect()
    }

    fn random_code(&mut self, number: usize) -> Bundle {
        let statements: String = (0..1 + self.below(8)).map(|_| self.statement()).collect();
        let verdict = self.pick(&[
            "i32.const 0",
            "i32.const 1",
            "i32.const 1",
            "i32.const 2",
            "i32.const 0x10002",
            "i32.const -1",
        ]);
        let imports = "
            (import \"anode\" \"an_send\" (func $send (param i32) (result i32)))
            (import \"anode\" \"an_route\" (func $route (param i32 i32) (result i32)))
            (import \"anode\" \"an_store\" (func $store (param i32 i64 i32) (result i32)))
            (import \"anode\" \"an_state_add\" (func $add (param i64 i64 i32) (result i64)))
            (import \"anode\" \"an_state_max\" (func $max (param i64 i64 i32) (result i64)))
            (import \"anode\" \"an_state_exchange\" (func $exchange (param i64 i64 i32 i32) (result i32)))
            (import \"anode\" \"an_state_put\" (func $put (param i64 i32 i32) (result i32)))
            (import \"anode\" \"an_state_get\" (func $get (param i64 i32) (result i32)))";
        let window = self.pick(&[0, 8]);
        bundle(&format!("random-{number}"), window, module(imports, &format!("(local $i i32) {statements} {verdict}")))
    }

    fn statement(&mut self) -> String {
        let place = self.pick(&[0, 16, 64, 76, 92, 128, 512, 1000, 1020, 1024, 70_000]);
        let number = self.pick(&[0u64, 1, 2, 7, 64, 255, 1 << 31]);
        match self.below(11) {
            0 => format!("(drop (call $send (i32.const {number})))"),
            1 => format!("(drop (call $route (i32.const {place}) (i32.const 256)))"),
            2 => format!(
                "(drop (call $store (i32.const {place}) (i64.const {number}) (i32.const {})))",
                self.pick(&[1, 2, 4, 8, 9])
            ),
            3 => format!(
                "(drop (call $add (i64.const {number}) (i64.const 1) (i32.const {})))",
                self.pick(&[0, 1, 60_000])
            ),
            4 => format!("(drop (call $put (i64.const {number}) (i32.const {place}) (i32.const 500)))"),
            5 => format!("(drop (call $get (i64.const {number}) (i32.const {place})))"),
            6 => format!("(i32.store (i32.const {place}) (i32.const {number}))"),
            7 => format!("(drop (i32.div_u (i32.const 5) (i32.load (i32.const {place}))))"),
            8 => format!("(drop (call $max (i64.const {number}) (i64.const {place}) (i32.const 500)))"),
            9 => format!(
                "(drop (call $exchange (i64.const {number}) (i64.const {}) (i32.const {place}) (i32.const 500)))",
                self.pick(&[0, 1, 2])
            ),
            _ => format!(
                "(local.set $i (i32.const {})) (loop $l (local.set $i (i32.sub (local.get $i) (i32.const 1)))
                  (br_if $l (local.get $i)))",
                self.pick(&[1, 100, 5_000, 1 << 30])
            ),
        }
    }

    /// A PLAN packet of an application at a node.
    pub fn plan(&mut self, from: usize, nodes: usize) -> Vec<u8> {
        let host = |number: usize| Value::Host(Host::v4([10, 0, 0, number as u8 + 1]));
        let to = self.below(nodes);
        let text = Value::text(vec![b'x'; self.pick(&[1, 600, 5000])]);
        let all = Value::list((0..nodes).map(host)).unwrap();
        let (script, function, arguments) = match self.below(3) {
            0 => ("ping", "ping", vec![host(from), host(to)]),
            1 => ("traceroute", "trace", vec![host(from), host(to), Value::Int(0)]),
            _ => ("multicast", "multicast", vec![host(from), all, text, Value::Int(0)]),
        };
        let chunk = app(script).chunk(function, arguments).unwrap();
        let header = Header::injected(Host::default(), self.pick(&[1, 5, 30, 4096]));
        Packet { header, chunk }.bytes().unwrap()
    }
}
