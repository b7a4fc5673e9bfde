//! The status of a PLAN environment as values to print; and the entry points for applications.

use super::ready::Ready;
use super::rip::Rip;
use super::{ANYONE, Account, Fate, Plan, PlanOs, Seat, account};
use crate::core::reason::Reason;
use crate::wire::Addr;
use plan::packet::{View, ViewMut};
use plan::value::Host;
use serde::Serialize;

/// What an environment has done and keeps.
#[derive(Clone, Debug, Serialize)]
pub struct PlanStatus {
    /// Its account.
    #[serde(flatten)]
    pub account: Account,
    /// The largest bound of an application's packet.
    pub bound_max: u32,
    /// Bounds of packets that wait here.
    pub held: u64,
    /// Codes kept.
    pub codes: usize,
    /// Bytes of those.
    pub code_bytes: usize,
    /// Bytes of memory that programs made of them take at most.
    pub code_memory: usize,
    /// Services that were loaded.
    pub services: Vec<String>,
    /// Values left by programs.
    pub resident: usize,
    /// Bytes that those take, codes of chunks included.
    pub resident_bytes: u64,
    /// Ways of flows.
    pub flows: usize,
    /// Routes learned by RIP.
    pub rip_routes: usize,
    /// Bytes of messages that have come in part.
    pub piece_bytes: usize,
    /// Packets that wait for codes or names.
    pub waiting: usize,
    /// Packets that are sent by and by.
    pub jobs: usize,
    /// Bytes of those.
    pub job_bytes: u64,
    /// Applications at PLAN ports, and connections to them.
    pub applications: usize,
    /// Connections.
    pub connections: usize,
}

impl Plan {
    /// What it has done and keeps.
    pub fn status(&self) -> PlanStatus {
        let (library, (applications, connections)) = (self.library.size(), self.state.ports.size());
        let (resident, resident_bytes) = self.state.resident.size();
        PlanStatus {
            account: Account {
                no_room: self.state.account.no_room + self.state.rip.as_ref().map_or(0, Rip::no_room),
                ..self.state.account
            },
            bound_max: self.config.bound_max,
            held: self.held(),
            codes: library.codes,
            code_bytes: library.bytes,
            code_memory: library.memory,
            services: self.loaded.iter().map(|loaded| loaded.name.to_string()).collect(),
            resident,
            resident_bytes,
            flows: self.state.flows.len(),
            rip_routes: self.state.rip.as_ref().map_or(0, |rip| rip.routes().count()),
            piece_bytes: self.assemblies.bytes(),
            waiting: self.waiting.len(),
            jobs: self.state.jobs.len(),
            job_bytes: self.state.jobs.bytes(),
            applications,
            connections,
        }
    }

    /// Bounds of packets that wait here.
    pub fn held(&self) -> u64 {
        self.ready.bounds() + self.waiting.bounds() + self.state.jobs.bounds()
    }

    /// An application attaches, to listen as `number` if that is not 0.
    pub fn attach(&mut self, env: &mut dyn PlanOs, number: u32) -> Option<Seat> {
        let mut session = [0; 16];
        session[..8].copy_from_slice(&env.nonce().to_be_bytes());
        session[8..].copy_from_slice(&env.nonce().to_be_bytes());
        let seat = Seat { port: env.nonce().max(1), session };
        self.state.ports.attach(number, seat)
    }

    /// An application is gone.
    pub fn detach(&mut self, port: u64) {
        self.state.ports.detach(port);
    }

    /// An application closes a connection.
    pub fn close(&mut self, application: u64, port: u64) {
        if self.state.ports.application(0, port) == Some(application) && port != application {
            self.state.ports.close(port);
        }
    }

    /// An application injects a packet; the node fills in where it comes from. If it `waits` for a turn, what becomes of it
    /// is not known now.
    pub fn inject(&mut self, env: &mut dyn PlanOs, port: u64, bytes: &mut [u8], waits: bool) -> Result<(), Reason> {
        let session = self.state.ports.session(port).ok_or(Reason::NoPlanApplication)?;
        let view = View::new_checked(bytes).filter(|view| !view.report() && !view.by_digest());
        let to = Addr(view.ok_or(Reason::MalformedPlan)?.destination().0);
        let claimed = View::new_checked(bytes).map_or(Host::default(), |view| view.source());
        let source = match Addr(claimed.0) {
            none if none.is_unspecified() => self.source_for(env, to),
            own if env.topology().is_own(own) => own,
            _ => return Err(Reason::Source),
        };
        let mut view = ViewMut::new_checked(bytes).ok_or(Reason::MalformedPlan)?;
        view.inject(Host(source.0), port, session);
        let cut = view.clamp(self.config.bound_max);
        let account = &mut self.state.account;
        account.clamped += u64::from(cut);
        account.injected += account::bound_of(bytes);
        if waits {
            let ready = Ready::own(bytes.to_vec(), env.payer());
            return self.begin_ready(env, ready);
        }
        env.made(1);
        let fate = match env.take_on(bytes.len()) {
            Ok(()) => self.process(env, None, bytes),
            Err(reason) => self.end(bytes, reason),
        };
        self.conclude(env, fate, bytes, ANYONE);
        if let Fate::Drop(reason) = fate { Err(reason) } else { Ok(()) }
    }

    fn source_for(&self, env: &mut dyn PlanOs, to: Addr) -> Addr {
        let own = env.way(to).own;
        if !to.is_unspecified() && !own.is_unspecified() {
            return own;
        }
        let all = env.topology().ports.iter().flat_map(|port| &port.addresses);
        let first = all.map(|(addr, _)| *addr).find(|addr| !addr.is_link_local());
        first.unwrap_or(own)
    }
}
