//! How a worker carries out what others ask, between two batches of packets, and takes what the loader has done.
//!
//! It takes a few at a time, so that whoever asks without end keeps no packets waiting.

use super::{Order, PROCESSES, Worker};
use crate::driver::Driven;
use crate::manage::loader::Loaded;
use crate::node::EndedBy;
use crate::node::output::Effect;

/// Orders taken in one go, so that whoever asks without end cannot keep packets waiting.
const ORDERS_MAX: usize = 8;

impl Worker {
    /// Gives the node what the loader has done for it.
    fn take_loaded(&mut self, now: u64) {
        while let Some(loaded) = self.around.place.front().and_then(|front| front.loader.result()) {
            let Driven { node, mut turn } = self.driver.at(now);
            match loaded {
                Loaded::Found(digest, bytes) => node.found(&mut turn, digest, bytes),
                Loaded::Prepared(code, result) => node.prepared(&mut turn, code, *result),
                Loaded::Unprepared(code) => node.unprepared(&mut turn, code),
                Loaded::Optimised(code, result) => node.optimised(&mut turn, code, *result),
                Loaded::Authorised(code, result) => node.authorised(&mut turn, code, *result),
                Loaded::Linked(code, result) => node.linked(&mut turn, code, result),
                Loaded::Heard(list) => node.heard(turn.now, &list),
                Loaded::Resolved(name, addr) => node.resolved(&mut turn, &name, addr),
                Loaded::Vouched(question, judged) => node.vouched(&mut turn, question, judged),
                Loaded::Revoked(repr, from, judged) => node.revocation_judged(&mut turn, &repr, from, judged),
                Loaded::Unjudged => node.revocation_unjudged(),
                Loaded::Installed(digest, brought) => node.installed(&mut turn, digest, brought),
                Loaded::Graph(ask, answer) => node.graph_said(&mut turn, &ask, answer, 0),
                Loaded::Edit(wish) => node.edited_in_vain(&mut turn, &wish, "too many programs ask for graphs"),
            }
        }
    }

    /// Carries out what others ask; true if that is to stop.
    pub(super) fn take_orders(&mut self) -> bool {
        self.waker.rest();
        let now = self.read();
        self.take_loaded(now);
        for _ in 0..ORDERS_MAX {
            let Ok(order) = self.orders.try_recv() else { return false };
            match order {
                Order::Do(command) => {
                    // Not before it was asked for: a delay that begins now is not over too early.
                    let now = self.clock.now();
                    let mut driven = self.driver.at(now);
                    command(driven.node, &mut driven.turn);
                }
                Order::Settle(done) => {
                    // Should this fail, then the next turn does too, and ends the worker.
                    if self.settle(self.clock.now()).is_ok() {
                        let here = match self.around.place.opener() {
                            Some(opener) => opener.settle(done),
                            None => Some(done),
                        };
                        // Whoever asked may have gone away meanwhile.
                        let _ = here.map(|done| done.send(()));
                    }
                }
                Order::Settled(done) => {
                    // What the ports had before may still have to be closed.
                    self.around.place.opener().into_iter().for_each(|opener| opener.answer(done.clone()));
                }
                Order::Attach(host, half) => {
                    if let Err(error) = self.around.processes.attach(host, half, &self.poll, PROCESSES) {
                        tracing::warn!(%error, "what a process sends is not noticed");
                    }
                }
                Order::Detach(host) => {
                    if let Some(domain) = self.around.processes.detach(host, &self.poll) {
                        self.driver.node.fell(domain, EndedBy::Node);
                    }
                }
                Order::Move { domain, to, begun, arrived } => {
                    // Whoever asked may have gone away meanwhile.
                    let _ = begun.send(self.send_off(domain, to, arrived));
                }
                Order::Channel { watch, exists } => {
                    // Behind foreign flows that were found before this worker knew of the channel: they must not be learned after it.
                    self.driver.out.effects.push(Effect::Channel { watch, exists });
                }
                Order::Charge(account) => self.around.processes.open_account(account),
                Order::Reopen { port, interface, program, mtu } => self.reopen(port, interface, program, mtu),
                Order::Change { port, changes } => self.change(port, changes),
                Order::Sockets { port, sockets } => self.take_sockets(port, sockets),
                Order::Watch(teller, one_in) => self.watch(teller, one_in),
                Order::Unwatch => self.look_at_watchers(),
                Order::Survey(survey, answer) => self.surveys.add(survey, answer),
                Order::Share(file) => self.cpu.renew(file, now),
                Order::Input(input) => self.set_input(input),
                Order::Peers { port, peers } => self.set_peers(port, &peers),
                Order::Place(placing) => self.place(*placing),
                Order::Stop => {
                    // What follows takes as long as it takes.
                    self.cpu.rounds().rest();
                    return true;
                }
            }
        }
        self.waker.wake();
        false
    }
}
