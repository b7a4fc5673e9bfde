//! Both models of environments with a-flows, on real interfaces: one a-flow for all users, and one for each. The programs
//! are those of `examples/flows`.

use crate::build::Linked;
use crate::nodeos_processes::Line;
use crate::running::PATIENCE;
use std::net::UdpSocket;
use std::time::Duration;

/// A control a-flow, and an a-flow for each of twelve users.
const ROLE: &str = "[[role]]\nname = \"ee\"\n[role.grants]\nchannels = 16\ndomains = 13\nthreads = 8\nevents = 16\n\
                    bandwidth = 1_000_000_000\nmemory_bytes = 67_108_864\n";

const USERS: u16 = 12;

/// For how long an answer is waited for before the question is asked again.
const ANSWER: Duration = Duration::from_millis(50);

fn ask(socket: &UdpSocket, question: &[u8]) -> std::io::Result<String> {
    let mut buffer = [0; 2048];
    socket.send(question)?;
    let length = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// Users at ports from this one on. A port of before may be taken yet: a process that another test begins holds all sockets for a moment.
fn users(line: &Line, first: u16) -> Vec<UdpSocket> {
    let bound = |user: u16| {
        let socket = line.socket("a", &format!("10.0.1.1:{}", first + user));
        socket.connect("10.0.1.2:5000").unwrap();
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
    let users = users(line, 4000);
    let service = line.run_file(&format!("examples/flows/{example}.c"), Linked::Static, &arguments("3600000"));
    for round in 1..=5usize {
        for (user, socket) in users.iter().enumerate() {
            let said = ask(socket, &vec![b'x'; user + 1]).unwrap();
            assert_eq!(said, format!("{round} packets, {} bytes", round * (user + 1)), "{example}");
        }
    }
    let titles = titles(line);
    drop(service);
    titles
}

fn forgets(line: &Line, example: &str) {
    let user = &users(line, 4100)[0];
    let _service = line.run_file(&format!("examples/flows/{example}.c"), Linked::Static, &arguments("50"));
    user.set_read_timeout(Some(ANSWER)).unwrap();
    let first = |said: String| (said == "1 packets, 5 bytes").then_some(());
    // What comes soon is counted on; who was quiet begins anew.
    line.net.until("r", || ask(user, b"hello").ok().filter(|said| said.starts_with("2 ")));
    line.net.until("r", || ask(user, b"hello").ok().and_then(first));
    user.set_read_timeout(Some(PATIENCE)).unwrap();
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
