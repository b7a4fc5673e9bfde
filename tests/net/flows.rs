//! Both models of environments with a-flows, on real interfaces: one a-flow for all users, and one for each. The programs
//! are those of `examples/flows`.

use crate::build::{Linked, build};
use crate::nodeos_processes::Line;
use crate::running::PATIENCE;
use std::collections::HashSet;
use std::net::UdpSocket;
use std::time::Duration;

/// A control a-flow, and an a-flow for each of twelve users.
const ROLE: &str = "[[role]]\nname = \"ee\"\n[role.grants]\nchannels = 16\ndomains = 13\nthreads = 8\nevents = 16\n\
                    bandwidth = 1_000_000_000\nmemory_bytes = 67_108_864\n";

const USERS: u16 = 12;

/// Packets with which a user begins.
const BURST: usize = 8;

/// For how long a user says nothing, so that a service that looks every 50 ms for who was quiet as long finds it.
const QUIET: Duration = Duration::from_millis(150);

/// Models that are modules: program, port, after how many milliseconds who is quiet is forgotten.
const MODULES: [(&str, u16, &str); 4] = [
    ("monolithic", 5001, "3600000"),
    ("per_user", 5002, "3600000"),
    ("monolithic", 5003, "50"),
    ("per_user", 5004, "50"),
];

fn ask(socket: &UdpSocket, question: &[u8]) -> std::io::Result<String> {
    let mut buffer = [0; 2048];
    socket.send(question)?;
    let length = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// Users at ports from this one on. A port of before may be taken yet: a process that another test begins holds all sockets for a moment.
fn users(line: &Line, first: u16, service: u16) -> Vec<UdpSocket> {
    let bound = |user: u16| {
        let socket = line.socket("a", &format!("10.0.1.1:{}", first + user));
        socket.connect(("10.0.1.2", service)).unwrap();
        socket
    };
    (0..USERS).map(bound).collect()
}

fn arguments(idle_ms: &str) -> [&str; 5] {
    ["ee", "if0/ip/udp", "10.0.1.2", "5000", idle_ms]
}

/// Titles of the domains of a program.
fn titles(line: &Line) -> Vec<String> {
    let tree = line.net.control("r").ask(&serde_json::json!({"do": "domains"})).unwrap();
    let domains = tree["domains"].as_array().unwrap().iter();
    domains.filter(|domain| domain["role"] == "ee").map(|domain| domain["title"].as_str().unwrap().into()).collect()
}

/// Each user is answered with what it alone has sent, and forgotten when it is quiet.
fn serves(line: &Line, example: &str) -> Vec<String> {
    let users = users(line, 4000, 5000);
    let service = line.run_file(&format!("examples/flows/{example}.c"), Linked::Static, &arguments("3600000"));
    answers(&users, example);
    let titles = titles(line);
    drop(service);
    titles
}

/// Users whom the service does not know yet: each begins with a burst.
fn answers(users: &[UdpSocket], example: &str) {
    for (user, socket) in users.iter().enumerate() {
        let mut burst = HashSet::new();
        for _ in 0..BURST {
            socket.send(&vec![b'x'; user + 1]).unwrap();
        }
        for _ in 0..BURST {
            let mut buffer = [0; 2048];
            let length = socket.recv(&mut buffer).unwrap();
            burst.insert(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        let said = |packets: usize| format!("{packets} packets, {} bytes", packets * (user + 1));
        assert_eq!(burst, (1..=BURST).map(said).collect(), "{example}: each of a burst is answered");
    }
    for round in BURST + 1..=BURST + 4 {
        for (user, socket) in users.iter().enumerate() {
            let said = ask(socket, &vec![b'x'; user + 1]).unwrap();
            assert_eq!(said, format!("{round} packets, {} bytes", round * (user + 1)), "{example}");
        }
    }
}

fn forgets(line: &Line, example: &str) {
    let _service = line.run_file(&format!("examples/flows/{example}.c"), Linked::Static, &arguments("50"));
    is_forgotten(line, &users(line, 4100, 5000)[0]);
}

/// Two packets at once are counted together; who was quiet begins anew.
fn is_forgotten(line: &Line, user: &UdpSocket) {
    user.set_read_timeout(Some(QUIET)).unwrap();
    let mut begun = 0;
    line.net.until("r", || {
        let said = both_answers(user);
        begun += usize::from(said == ["1 packets, 5 bytes", "2 packets, 10 bytes"]);
        (begun == 2).then_some(())
    });
    user.set_read_timeout(Some(PATIENCE)).unwrap();
}

/// What is answered to two packets until nothing more comes, so that no answer is taken for that of a later packet.
fn both_answers(user: &UdpSocket) -> Vec<String> {
    let sent = (0..2).all(|_| user.send(b"hello").is_ok());
    let mut buffer = [0; 2048];
    let mut said = Vec::new();
    while let Ok(length) = user.recv(&mut buffer) {
        said.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    said.sort_unstable();
    if sent { said } else { Vec::new() }
}

#[test]
fn one_a_flow_knows_all_users_by_its_own_table() {
    let Some(line) = Line::start_with("mono", ROLE) else { return };
    let titles = serves(&line, "monolithic");
    assert!(titles.contains(&"all users".to_owned()) && titles.len() == 2, "{titles:?}");
    forgets(&line, "monolithic");
}

#[test]
fn an_a_flow_for_each_user_is_begun_by_one_that_controls() {
    let Some(line) = Line::start_with("user", ROLE) else { return };
    let titles = serves(&line, "per_user");
    assert_eq!(titles.len(), 2 + usize::from(USERS), "{titles:?}");
    assert!((0..USERS).all(|user| titles.contains(&format!("10.0.1.1:{}", 4000 + user))), "{titles:?}");
    forgets(&line, "per_user");
}

#[test]
fn both_models_are_modules_too_from_the_same_sources() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = ROLE.to_owned();
    for (example, port, idle_ms) in MODULES {
        let module = build(&format!("examples/flows/{example}.c"), folder.path(), &[], Linked::Module);
        let words = [module.to_str().unwrap(), "ee", "if0/ip/udp", "10.0.1.2", &port.to_string(), idle_ms];
        lines += &format!("[[ee]]\nname = \"{example}{port}\"\nrole = \"ee\"\nmodule = {words:?}\n");
    }
    let Some(line) = Line::start_with("wasm", &lines) else { return };
    for (example, port, idle_ms) in MODULES {
        // Its channel is the last that it asks for.
        line.net.until("r", || {
            let all = line.net.control("r").ask(&serde_json::json!({"do": "channels"})).unwrap();
            all.to_string().contains(&format!("10.0.1.2:{port}")).then_some(())
        });
        let users = users(&line, 4000, port);
        if idle_ms == "50" {
            is_forgotten(&line, &users[0]);
        } else {
            answers(&users, example);
        }
    }
    assert!((0..USERS).all(|user| titles(&line).contains(&format!("10.0.1.1:{}", 4000 + user))));
}
