//! What programs take and cost is in proportion to their code.

mod common;

use common::{HERE, Recorder};
use plan::name::Name;
use plan::packet::{Header, Libraryless, Packet};
use plan::value::{Callee, Chunk, Value};
use std::sync::Arc;

#[test]
fn thousands_of_names_are_read_and_written_as_ten_are() {
    let name = |number: usize| Value::Exn(Name::new(&format!("{}{}", ["a", "b"][number % 2], number / 2)).unwrap());
    let names = Value::list((0..6000).map(name)).unwrap();
    let chunk = Chunk::new(Callee::Service(Name::new("print").unwrap()), [names]).unwrap();
    let packet = Packet { header: Header::injected(HERE, 1), chunk: Arc::new(chunk) };
    let (octets, node) = (packet.octets().unwrap(), Recorder::default());
    // Many: the index of those that there are is used (plan/src/code/names.rs).
    for _ in 0..3 {
        let again = Packet::decode(&octets, &mut Libraryless(&node)).unwrap();
        assert_eq!(again.octets().as_ref(), Some(&octets));
    }
}
