//! The control socket: one request a line, one answer a line, both JSON.
//!
//! `control.sock` in the node's run directory, readable and writable by the node's user only.
//! Requests: `{"do":"status"}`, `{"do":"log"}`, `{"do":"add-code","bundle":HEX}`,
//! `{"do":"remove-code","name":NAME}`, `{"do":"watch"}`, `{"do":"down"}`. Answers: `{"ok":…}` or
//! `{"error":WHY}`.

use super::loader::{Request, Shelf};
use super::worker::Order;
use crate::code::bundle::Bundle;
use crate::node::{Node, Turn};
use crate::sys::poll::Waker;
use crate::wire::Digest;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};

/// Octets of the longest request: a bundle in hexadecimal, and some.
const REQUEST_MAX: u64 = 1 << 20;

/// Connections served at the same time.
const CONNECTIONS_MAX: usize = 32;

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Ask {
    Status,
    Log,
    AddCode { bundle: String },
    RemoveCode { name: String },
    Down,
}

/// Ways to the worker and the loader.
#[derive(Clone)]
pub struct Handle {
    orders: Sender<Order>,
    waker: Waker,
    shelf: Shelf,
}

impl Handle {
    /// A handle on the worker behind `orders` and `waker`, and on the loader behind `shelf`.
    pub fn new(orders: Sender<Order>, waker: Waker, shelf: Shelf) -> Handle {
        Handle { orders, waker, shelf }
    }

    /// Lets the worker do something, and waits for what comes of it.
    pub fn with_node<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, String> {
        let (reply, answer) = channel();
        let command = Box::new(move |node: &mut Node, turn: &mut Turn<'_>| {
            // Whoever asked may have gone away meanwhile.
            let _ = reply.send(work(node, turn));
        });
        self.order(Order::Do(command))?;
        answer.recv().map_err(|_| "the node is going down".into())
    }

    /// Gives the worker an order.
    pub fn order(&self, order: Order) -> Result<(), String> {
        self.orders.send(order).map_err(|_| "the node is going down".to_string())?;
        self.waker.wake();
        Ok(())
    }

    fn answer(&self, ask: Ask) -> Result<Value, String> {
        match ask {
            Ask::Status => {
                let status = self.with_node(|node, _| node.status())?;
                serde_json::to_value(status).map_err(|error| error.to_string())
            }
            Ask::Log => {
                let lines = self.with_node(|node, _| node.log())?;
                let line = |line: &crate::ee::capsule::log::Line| json!({"at": line.at, "code": line.code.to_string(), "tag": line.tag, "value": line.value});
                Ok(lines.iter().map(line).collect())
            }
            Ask::AddCode { bundle } => {
                let bytes = hex::decode(bundle).map_err(|_| "the bundle is not in hexadecimal")?;
                let bundle = Bundle::read(&bytes).map_err(|error| error.to_string())?;
                let name = bundle.name();
                self.shelf.ask(Request::Add(Box::new(bundle)))?;
                self.with_node(move |node, _| node.forget_refusal(&name))?;
                Ok(json!({"name": name.to_string()}))
            }
            Ask::RemoveCode { name } => {
                let name: Digest = name.parse().map_err(|error: crate::wire::DigestError| error.to_string())?;
                self.shelf.ask(Request::Remove(name))?;
                let was_ready = self.with_node(move |node, turn| node.remove_code(turn, &name))?;
                Ok(json!({"name": name.to_string(), "was_known": was_ready}))
            }
            Ask::Down => {
                self.order(Order::Stop)?;
                Ok(json!("going down"))
            }
        }
    }
}

/// Serves the control socket at `path` from threads of its own.
pub fn serve(path: &Path, handle: Handle) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let live = std::sync::Arc::new(());
    std::thread::Builder::new().name("anode-control".into()).spawn(move || {
        for connection in listener.incoming().flatten() {
            if std::sync::Arc::strong_count(&live) > CONNECTIONS_MAX {
                refuse(&connection, "too many control connections");
                continue;
            }
            let (handle, ticket) = (handle.clone(), live.clone());
            let served = std::thread::Builder::new().name("anode-control".into()).spawn(move || {
                // A connection that breaks concerns only its other end.
                let _ = converse(&connection, &handle);
                drop(ticket);
            });
            if let Err(error) = served {
                tracing::warn!(%error, "no thread for a control connection");
            }
        }
    })?;
    Ok(())
}

fn refuse(mut connection: &UnixStream, why: &str) {
    let _ = writeln!(connection, "{}", json!({ "error": why }));
}

fn converse(mut connection: &UnixStream, handle: &Handle) -> io::Result<()> {
    let mut reader = BufReader::new(connection);
    loop {
        let mut line = String::new();
        if reader.by_ref().take(REQUEST_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if !line.ends_with('\n') {
            refuse(connection, "the request is too long, or its line does not end");
            return Ok(());
        }
        let answer = match serde_json::from_str::<Ask>(&line) {
            Ok(ask) => handle.answer(ask),
            Err(error) => Err(format!("request not understood: {error}")),
        };
        let answer = match answer {
            Ok(value) => json!({ "ok": value }),
            Err(why) => json!({ "error": why }),
        };
        writeln!(connection, "{answer}")?;
    }
}
