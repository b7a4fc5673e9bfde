//! Compiling of an operator's PLAN services, in a thread of its own: control threads cannot make executable memory.

use crate::ee::plan::wasm::WasmService;
use crate::sys::threads::{self, Duty};
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Modules that can wait; whoever asks for more waits too.
const WAITING_MAX: usize = 4;

/// A module, and who waits for its service.
type Order = (Vec<u8>, Sender<Result<WasmService, String>>);

/// A way to the thread, which ends with the last of them.
#[derive(Clone)]
pub struct Services(SyncSender<Order>);

impl Services {
    /// Starts the thread.
    pub fn start() -> io::Result<Services> {
        let (orders, inbox) = sync_channel(WAITING_MAX);
        threads::start("anode-services", Duty::Compile, move || serve(&inbox))?;
        Ok(Services(orders))
    }

    /// Compiles a module, or says why it is no service.
    pub fn load(&self, module: Vec<u8>) -> Result<WasmService, String> {
        let gone = || "the thread that compiles services has ended".to_owned();
        let (reply, answer) = channel();
        self.0.send((module, reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

fn serve(inbox: &Receiver<Order>) {
    for (module, reply) in inbox {
        // Whoever asked may have gone away meanwhile.
        let _ = reply.send(WasmService::load(&module));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_service_is_refused_and_the_thread_works_on() {
        let services = Services::start().unwrap();
        let body = "(memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 64))
                    (func (export \"service\") (param i32) (result i32) (i32.const 0))";
        assert!(services.load(b"no module".to_vec()).is_err());
        assert!(services.clone().load(format!("(module {body})").into_bytes()).is_ok());
    }
}
