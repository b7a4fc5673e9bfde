//! TCP streams of an environment in a jail, which has no network: the stack of the router has them, the node hands the bytes over.

use crate::build::{Linked, build};
use crate::running::{ANODE, HOSTS, PATIENCE, Running};
use crate::wait;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;

const ROLE: &str = "[[role]]\nname = \"ee\"\n[role.grants]\nthreads = 8\nbandwidth = 1_000_000_000\nmemory_bytes = 33_554_432\n\
                    [role.streams]\nlisten = [\"10.0.1.2:8000-8001\"]\nconnect = [\"10.0.2.0/24:80\"]\nstreams = 9\n";

/// Bytes each way of one stream: more than all that is held on its way.
const BYTES: usize = 12 << 20;

fn byte(at: usize, of: u8) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ of
}

/// Writes so many bytes from a thread of its own, and then the end.
fn write(stream: &TcpStream, of: u8) -> std::thread::JoinHandle<()> {
    let mut stream = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        let bytes: Vec<u8> = (0..BYTES).map(|at| byte(at, of)).collect();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    })
}

fn read(stream: &mut TcpStream, of: u8) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), BYTES);
    assert!(bytes.iter().enumerate().all(|(at, found)| *found == byte(at, of)));
}

fn rows(net: &Running, kind: &str) -> Vec<serde_json::Value> {
    let list = net.control("r").ask(&serde_json::json!({"do": "channels"})).unwrap();
    list.as_array().unwrap().iter().filter(|row| row["kind"] == kind).cloned().collect()
}

#[test]
fn a_program_without_a_network_has_streams_by_the_router_s_stack_and_they_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("examples/nodeos/proxy.c", folder.path(), &["-O2"], Linked::Static);
    let words = [program.to_str().unwrap(), "ee", "10.0.1.2:8000", "10.0.2.2:80"];
    let text = format!("{ROLE}[[ee]]\nname = \"proxy\"\nrole = \"ee\"\ncommand = {words:?}\n");
    let adjust = |node: &str, config: &mut toml::Table| {
        if node == "r" {
            config.extend(text.parse::<toml::Table>().unwrap());
        }
    };
    let Some(net) = Running::up_with("strm", HOSTS, &adjust) else { return };
    wait::channel(net.dir("r"), "listen");
    let server = net.lab.enter("b", || TcpListener::bind("10.0.2.2:80").unwrap()).unwrap();
    let begin = || {
        let client = net.lab.enter("a", || TcpStream::connect("10.0.1.2:8000").unwrap()).unwrap();
        let (served, from) = server.accept().unwrap();
        assert_eq!(from.ip().to_string(), "10.0.2.1", "the router's own stack");
        for stream in [&client, &served] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        (client, served)
    };
    let (mut client, mut served) = begin();
    let writers = [write(&client, 1), write(&served, 2)];
    let (back, there) = (client.try_clone().unwrap(), served.try_clone().unwrap());
    let reader = std::thread::spawn(move || read(&mut { back }, 2));
    read(&mut { there }, 1);
    reader.join().unwrap();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!((client.read(&mut [0; 8]).unwrap(), served.read(&mut [0; 8]).unwrap()), (0, 0));
    // Another one, which an operator sees, and ends with the domain.
    let (mut client, mut served) = begin();
    client.write_all(b"hello").unwrap();
    served.read_exact(&mut [0; 5]).unwrap();
    wait::told(net.dir("r"), "channels", |_| (rows(&net, "stream").len() == 2).then_some(()));
    let addresses: Vec<_> =
        rows(&net, "stream").iter().map(|row| row["address"].as_str().unwrap().to_owned()).collect();
    assert!(addresses.iter().any(|at| at == "-> 10.0.2.2:80"), "{addresses:?}");
    assert!(
        addresses.iter().any(|at| at.starts_with("10.0.1.1:") && at.ends_with(" -> 10.0.1.2:8000")),
        "{addresses:?}"
    );
    let listens = &rows(&net, "listen")[0];
    assert_eq!((&listens["address"], &listens["packets"]), (&"10.0.1.2:8000".into(), &2.into()), "{listens}");
    let mut anode = Command::new(ANODE);
    assert!(anode.args(["domain", "kill"]).arg(net.dir("r")).arg("proxy").status().unwrap().success());
    for stream in [&mut client, &mut served] {
        assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)), "it ends with its domain");
    }
    wait::told(net.dir("r"), "status", |status| (status["streams"]["open"] == 0).then_some(()));
    let refused = net.lab.enter("a", || TcpStream::connect("10.0.1.2:8000")).unwrap();
    assert!(refused.is_err(), "nobody listens");
}
